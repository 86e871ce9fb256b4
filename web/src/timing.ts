// How long things take, as entries of the browser's own performance record: `sightline:open`, `sightline:change`.

/** Note how long it takes from `start` until what was changed has been drawn. */
export function untilDrawn(name: string, start: number, then?: () => void): void {
  requestAnimationFrame(() => {
    const channel = new MessageChannel();
    // Runs after the frame that the callback belongs to.
    channel.port1.onmessage = () => {
      performance.measure(name, { start, end: performance.now() });
      channel.port1.close();
      then?.();
    };
    channel.port2.postMessage(null);
  });
}

/** Milliseconds after which idle work is done in browsers that cannot say when they are idle. */
const PATIENCE = 1000;

/** Run a function when the browser has nothing else to do; the function returned cancels it. */
export function whenIdle(act: () => void): () => void {
  if (typeof requestIdleCallback === "function") {
    const request = requestIdleCallback(act);
    return () => cancelIdleCallback(request);
  }
  const timer = setTimeout(act, PATIENCE);
  return () => clearTimeout(timer);
}
