// Heads: a grid of small attention maps, one row per layer and one column per head, with head importance.

import { useEffect, useMemo, useRef } from "preact/hooks";
import { mapImage, Palette } from "./colours";
import { plainNumber } from "./format";
import { HeadMap } from "./head_map";
import { useArray, type Page } from "./hooks";
import type { ViewProperties } from "./views";

export function HeadsView({ page }: ViewProperties) {
  const { source, state } = page;
  const { inside } = source.payload;
  const maps = useArray(source, "thumbnails");
  const importance = useArray(source, "importance");
  const most = useMemo(() => (importance ? Math.max(...importance) : 0), [importance]);
  if (!inside || !source.has("thumbnails")) return <p class="empty">This page contains no attention maps.</p>;
  return (
    <div class="heads">
      {state.head ? (
        <HeadMap key={state.head.join()} page={page} layer={state.head[0]} head={state.head[1]} />
      ) : (
        <p class="quiet">
          One map per head: the token of a row attends to the token of a column, and darker cells mean more attention.
          {importance ? " The bar below a map shows the importance of the head." : ""} Click a map to enlarge it.
        </p>
      )}
      <div
        class="grid"
        role="group"
        aria-label={`Attention maps of ${inside.layers} layers with ${inside.heads} heads each`}
        style={{ gridTemplateColumns: `max-content repeat(${inside.heads}, minmax(0, 5.5rem))` }}
      >
        <span />
        {range(inside.heads).map((head) => (
          <span key={head} class="axis">
            {head}
          </span>
        ))}
        {range(inside.layers).map((layer) => [
          <span key={layer} class="axis">
            layer {layer}
          </span>,
          ...range(inside.heads).map((head) => (
            <Thumbnail
              key={`${layer}.${head}`}
              page={page}
              maps={maps}
              size={inside.thumbnail}
              layer={layer}
              head={head}
              importance={importance ? importance[layer * inside.heads + head] : null}
              share={importance && most ? importance[layer * inside.heads + head] / most : 0}
            />
          )),
        ])}
      </div>
    </div>
  );
}

function Thumbnail(properties: {
  page: Page;
  maps: ArrayLike<number> | null;
  size: number;
  layer: number;
  head: number;
  importance: number | null;
  share: number;
}) {
  const { page, maps, size, layer, head, importance, share } = properties;
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    if (!maps || !canvas.current) return;
    const { heads } = page.source.payload.inside!;
    const values = (maps as Uint8Array).subarray((layer * heads + head) * size * size, (layer * heads + head + 1) * size * size);
    canvas.current.width = canvas.current.height = size;
    canvas.current.getContext("2d")!.putImageData(mapImage(values, size, size, new Palette(canvas.current).ramp()), 0, 0);
  }, [maps, layer, head, size]);
  const { state, set } = page;
  const open = state.head?.[0] === layer && state.head[1] === head;
  const said = importance === null ? "" : `, importance ${plainNumber(importance)}`;
  return (
    <button
      type="button"
      class="thumbnail"
      aria-pressed={open}
      aria-label={`Layer ${layer}, head ${head}${said}`}
      title={`Layer ${layer}, head ${head}${said}`}
      onClick={() => set({ head: open ? null : [layer, head] })}
    >
      <canvas ref={canvas} aria-hidden="true" />
      {importance !== null && (
        <span class="bar">
          <i style={{ width: `${100 * share}%` }} />
        </span>
      )}
    </button>
  );
}

function range(length: number): number[] {
  return Array.from({ length }, (_, i) => i);
}
