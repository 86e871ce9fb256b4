// Inside the model: the heads as a grid of small attention maps, framed by head importance, the layers with their part of the
// scores, and the choice of layers and heads that the text and its arcs show. On long documents that are read through a
// window, the maps show the window straightened.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { mapImage, Palette } from "./colours";
import { Finding } from "./answer";
import { Numbers } from "./choices";
import { count, percent, plural } from "./format";
import { HeadMap } from "./head_map";
import { describeImportance, type MapForm } from "./head_parts";
import { useArray, type Page } from "./hooks";
import type { Payload } from "./payload";
import { explanationOf, layersArray, rowsOf, totalOf } from "./reading";
import { layerCount } from "./state";
import { WindowMap } from "./window_map";
import type { ViewProperties } from "./views";

/** With more heads than this, narrow maps have no room for the middle of their axis. */
const MANY = 8;

export function InsideView({ page, picture }: ViewProperties) {
  const { source, state } = page;
  const { inside } = source.payload;
  const importance = useArray(source, "importance");
  const opened = inside && state.head !== null;
  return (
    <div class="inside">
      {!opened && <Finding note={importance ? "Importance: how much the explained score depends on the attention weights of a head." : undefined}>{finding(inside, importance)}</Finding>}
      {inside && source.has("thumbnails") && <Heads page={page} importance={importance} />}
      {!opened && <Parts page={page} picture={picture} />}
    </div>
  );
}

/** How few heads have half of the importance. */
function finding(inside: Payload["inside"], importance: ArrayLike<number> | null): string {
  if (!inside) return "This page holds scores by layer, but no attention.";
  const heads = `the ${count(inside.layers * inside.heads)} heads of ${plural(inside.layers, "layer")}`;
  if (!importance) return `What ${heads} attend to.`;
  const ranked = Array.from(importance, (value, head) => ({ value, head })).sort((a, b) => b.value - a.value);
  const total = ranked.reduce((sum, { value }) => sum + value, 0);
  let [half, sum] = [0, 0];
  while (half < ranked.length && sum < total / 2) sum += ranked[half++].value;
  const [first] = ranked;
  const name = `layer ${Math.floor(first.head / inside.heads)}, head ${first.head % inside.heads}`;
  return `Of ${heads}, ${half === 1 ? "one has" : `${count(half)} have`} half of the importance for the answer; the most important is ${name} (${percent(first.value / total)}).`;
}

/** Which layers and heads colour the text, and how much of the scores each layer has. */
function Parts({ page, picture }: Pick<ViewProperties, "page" | "picture">) {
  const { source, model, state, set } = page;
  const name = layersArray(source.payload, picture.reading);
  const values = useArray(source, name);
  const kind = picture.reading.explanation === null ? "averaged" : explanationOf(source.payload, picture.reading).layer_kind;
  const sums = useMemo(() => {
    if (!values || (kind !== "additive" && kind !== "averaged")) return [];
    const { units, shown } = picture;
    return rowsOf(values, model.data.tokens).map((row) => totalOf(units.sums(row), shown));
  }, [values, kind, picture]);
  const total = sums.reduce((sum, one) => sum + one, 0);
  return (
    <section class="parts" data-section="inside">
      <h2>Colour the text by some layers or heads only</h2>
      <Numbers id="layers" label="Layers" count={layerCount(source.payload)} chosen={state.layers} choose={(layers) => set({ layers })} />
      {source.payload.inside && (
        <Numbers id="heads" label="Heads" count={source.payload.inside.heads} chosen={state.heads} choose={(heads) => set({ heads })} />
      )}
      {name === null && <p class="quiet">{picture.reading.title} has no scores by layer: the choice applies to arcs and lists of attention.</p>}
      {sums.length > 0 && (
        <table class="shares">
          <caption>Absolute scores of {picture.reading.title} by layer, as a share of all</caption>
          <tbody>
            {sums.map((sum, layer) => (
              <tr key={layer}>
                <th scope="row">layer {layer}</th>
                <td><span class="bar"><i style={{ width: `${total ? (100 * sum) / Math.max(...sums) : 0}%` }} /></span></td>
                <td>{percent(total ? sum / total : 0)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

function Heads({ page, importance }: { page: Page; importance: ArrayLike<number> | null }) {
  const { source, state } = page;
  const inside = source.payload.inside!;
  const straight = source.has("windows");
  const maps = useArray(source, straight ? "windows" : "thumbnails");
  const most = useMemo(() => (importance ? Math.max(...Array.from(importance)) : 0), [importance]);
  const [form, setForm] = useState<MapForm>("window");
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
