// Heads: a grid of small attention maps, one row per layer and one column per head, framed by head importance. On long
// documents that are read through a window, the maps show the window straightened.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { mapImage, Palette } from "./colours";
import { count } from "./format";
import { HeadMap } from "./head_map";
import { describeImportance, type MapForm } from "./head_parts";
import { useArray, type Page } from "./hooks";
import { WindowMap } from "./window_map";
import type { ViewProperties } from "./views";

/** With more heads than this, narrow maps have no room for the middle of their axis. */
const MANY = 8;

export function HeadsView({ page }: ViewProperties) {
  const { source, state } = page;
  const { inside } = source.payload;
  const straight = source.has("windows");
  const maps = useArray(source, straight ? "windows" : "thumbnails");
  const importance = useArray(source, "importance");
  const most = useMemo(() => (importance ? Math.max(...importance) : 0), [importance]);
  const [form, setForm] = useState<MapForm>("window");
  if (!inside || !source.has("thumbnails")) return <p class="empty">This page contains no attention maps.</p>;
  if (state.head) {
    const [layer, head] = state.head;
    const properties = { page, layer, head, form: straight ? { value: form, choose: setForm } : undefined };
    return (
      <div class="heads">
        {straight && form === "window" ? <WindowMap key={state.head.join()} {...properties} /> : <HeadMap key={state.head.join()} {...properties} />}
      </div>
    );
  }
  const { tokens } = page.model.data;
  const shape = source.payload.arrays[straight ? "windows" : "thumbnails"].shape.slice(-2);
  return (
    <div class="heads">
      <p class="quiet">
        {straight
          ? "One map per head, its window straightened: the document runs down, the distance to the attended token across. A vertical line is attention to a fixed distance, a horizontal one a passage with attention of its own."
          : "One map per head: the token of a row attends to the token of a column."}{" "}
        Click a map to enlarge it.
      </p>
      <GridLegend framed={importance !== null} />
      <div
        class={inside.heads > MANY ? "grid many" : "grid"}
        role="group"
        aria-label={`Attention maps of ${inside.layers} layers with ${inside.heads} heads each`}
        style={{ gridTemplateColumns: `max-content repeat(${inside.heads}, minmax(2.6rem, 8rem))` }}
      >
        <span />
        {range(inside.heads).map((head) => (
          <span key={head} class="axis">
            {head}
          </span>
        ))}
        {range(inside.layers).map((layer) => [
          <span key={layer} class="axis">
            <small>0</small>
            <b>layer {layer}</b>
            <small>{count(tokens - 1)}</small>
          </span>,
          ...range(inside.heads).map((head) => (
            <Thumbnail
              key={`${layer}.${head}`}
              page={page}
              maps={maps}
              shape={shape}
              layer={layer}
              head={head}
              importance={importance && describeImportance(importance, layer * inside.heads + head)}
              share={importance && most ? importance[layer * inside.heads + head] / most : 0}
            />
          )),
        ])}
        <span class="axis" />
        {range(inside.heads).map((head) => (
          <span key={head} class="axis across">
            {straight ? <><i>−{Math.max(...inside.reach!)}</i><i>0</i><i>+{Math.max(...inside.reach!)}</i></> : <><i>0</i><i>{count(tokens - 1)}</i></>}
          </span>
        ))}
      </div>
    </div>
  );
}

/** What colours and frames of the grid mean. */
function GridLegend({ framed }: { framed: boolean }) {
  return (
    <div class="grid-legend" data-section="grid-legend">
      <span>
        0 <i class="scale" /> strongest weight of the head, colours by square root
      </span>
      {framed && (
        <span>
          <i class="frame" style={{ "--share": "0" }} /> <i class="frame" style={{ "--share": "0.5" }} /> <i class="frame" style={{ "--share": "1" }} /> frame: least to
          most important head, by how much the explained score depends on its weights
        </span>
      )}
    </div>
  );
}

function Thumbnail(properties: {
  page: Page;
  maps: ArrayLike<number> | null;
  shape: number[];
  layer: number;
  head: number;
  importance: string | null;
  share: number;
}) {
  const { page, maps, shape, layer, head, importance, share } = properties;
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    if (!maps || !canvas.current) return;
    const { heads } = page.source.payload.inside!;
    const [rows, columns] = shape;
    const start = (layer * heads + head) * rows * columns;
    const values = (maps as Uint8Array).subarray(start, start + rows * columns);
    Object.assign(canvas.current, { width: columns, height: rows });
    canvas.current.getContext("2d")!.putImageData(mapImage(values, columns, rows, new Palette(canvas.current).ramp()), 0, 0);
  }, [maps, layer, head]);
  const said = importance === null ? "" : `, ${importance}`;
  return (
    <button
      type="button"
      class={importance === null ? "thumbnail" : "thumbnail framed"}
      style={{ "--share": share.toFixed(3) }}
      aria-label={`Layer ${layer}, head ${head}${said}`}
      title={`Layer ${layer}, head ${head}${said}`}
      onClick={() => page.set({ head: [layer, head] })}
    >
      <canvas ref={canvas} aria-hidden="true" />
    </button>
  );
}

function range(length: number): number[] {
  return Array.from({ length }, (_, i) => i);
}
