// Put the view into an element.

import { render } from "preact";
import { App } from "./app";
import { DocumentModel } from "./document";
import type { Source } from "./source";
import { untilDrawn } from "./timing";

export interface MountOptions {
  /** Keep the state in the address and take keys from the whole window: for a page that shows nothing else. */
  url?: boolean;
}

/** Draw the view of a source in `element` as soon as its data is there; the function returned takes it away again. */
export function mount(element: HTMLElement, source: Source, options: MountOptions = {}): () => void {
  const start = performance.now();
  const url = options.url ?? false;
  let wanted = true;
  element.classList.add("sightline");
  element.classList.toggle("full", url);
  source.onBusy = (busy) => element.setAttribute("aria-busy", String(busy));
  DocumentModel.load(source)
    .then((model) => wanted && render(<App source={source} model={model} url={url} root={element} />, element))
    .catch((error: unknown) => wanted && render(<Trouble error={error} />, element))
    .then(() => untilDrawn("sightline:open", start, () => (element.dataset.ready = "true")));
  return () => {
    wanted = false;
    render(null, element);
  };
}

function Trouble({ error }: { error: unknown }) {
  return (
    <p class="empty" role="alert">
      {error instanceof Error ? error.message : String(error)}
    </p>
  );
}
