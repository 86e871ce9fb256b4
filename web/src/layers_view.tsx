// Scores per layer as a heat map: one row per layer (the first at the top, as inspect draws them), the document from left
// to right, with the words at its peaks below.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Palette, pen } from "./colours";
import type { Units } from "./document";
import { count, percent, shortened } from "./format";
import { useArray } from "./hooks";
import { explanationOf, layersArray, rowsOf, type Picture } from "./reading";
import { makeScale } from "./scale";
import type { ViewProperties } from "./views";

const ROW = 26;

export function LayersView({ page, picture, go }: ViewProperties) {
  const { source, model, state } = page;
  const { payload } = source;
  const { units, reading, format } = picture;
  const name = layersArray(payload, reading);
  const values = useArray(source, name);
  const layers = useMemo(
    () => (values ? rowsOf(values, model.data.tokens).map((row) => units.sums(row)) : []),
    [values, model, units],
  );
  const kind = reading.explanation === null ? "averaged" : explanationOf(payload, reading).layer_kind;
  const adds = kind === "additive" || kind === "averaged";
  const canvas = useRef<HTMLCanvasElement>(null);
  const [hover, setHover] = useState<{ layer: number; unit: number } | null>(null);
  useEffect(() => {
    if (!canvas.current || !layers.length) return;
    const options = { steps: payload.colours.levels, clipped: payload.colours.clipped, gamma: state.gamma, kind: state.scale };
    const all = Float64Array.from(layers.flatMap((row) => Array.from(row.filter((_, unit) => picture.shown[unit]))));
    // Layers that add up to the scores share the colours of the text; others have no common whole.
    const scale = adds ? picture.scale : makeScale(all, options);
    const { context, width } = pen(canvas.current);
    const palette = new Palette(canvas.current);
    const columns = Math.min(units.count, Math.floor(width));
    layers.forEach((row, layer) => {
      const strongest = binned(row, picture.shown, columns);
      for (let column = 0; column < columns; column++) {
        const score = strongest[column];
        const step = scale.step(score);
        if (!step) continue;
        context.fillStyle = palette.step(score < 0 ? -step : step, reading.signed);
        const left = (column * width) / columns;
        context.fillRect(left, layer * ROW, Math.max(1, width / columns), ROW - 2);
      }
    });
  }, [layers, picture, adds, state.gamma, state.scale]);

  if (!name) {
    const others = payload.explanations.filter((_, number) => source.has(`layers.${number}`)).map((one) => one.title || one.method);
    return (
      <p class="empty">
        {reading.title} has no scores per layer on this page.
        {others.length > 0 && ` Methods with scores per layer: ${[...new Set(others)].join(", ")}.`}
      </p>
    );
  }
  const sums = layers.map((row) => row.reduce((sum, score, unit) => sum + (picture.shown[unit] ? Math.abs(score) : 0), 0));
  const total = sums.reduce((sum, one) => sum + one, 0);
  const at = (event: MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    const layer = Math.floor((event.clientY - box.top) / ROW);
    const [first, last] = unitsAt((event.clientX - box.left) / box.width, Math.min(units.count, Math.floor(box.width)), units);
    if (!layers[layer]) return null;
    return { layer, unit: strongestOf(layers[layer], first, last) };
  };
  return (
    <div class="layers">
      <p class="quiet">One row per layer, from the first at the top to the last; the document runs from left to right. Each cell shows the strongest {units.level} at its position{reading.signed ? `: blue speaks for ${reading.label}, orange against it` : ""}. {KINDS[kind ?? "separate"]}</p>
      <div class="heat">
        <ol aria-hidden="true">
          {sums.map((_, i) => (
            <li key={i} style={{ height: `${ROW}px` }}>layer {i}</li>
          ))}
        </ol>
        <canvas
          ref={canvas}
          role="img"
          aria-label={`Scores of ${layers.length} layers over ${units.count} ${units.level}s`}
          style={{ height: `${ROW * layers.length}px` }}
          onMouseMove={(event) => setHover(at(event))}
          onMouseLeave={() => setHover(null)}
          onClick={(event) => {
            const place = at(event);
            if (place) go(place.unit);
          }}
        />
        <span />
        <Axis picture={picture} go={go} />
      </div>
      <p class="named" role="status" aria-live="polite">
        {hover
          ? `Layer ${hover.layer}: “${shortened(units.text(hover.unit), 60)}” ${format.raw(layers[hover.layer][hover.unit])}, ${units.name(hover.unit)}`
          : " "}
      </p>
      {adds && <table class="shares">
        <caption>Absolute scores of each layer as a share of those of all layers</caption>
        <tbody>
          {sums.map((sum, layer) => (
            <tr key={layer}>
              <th scope="row">layer {layer}</th>
              <td><span class="bar"><i style={{ width: `${total ? (100 * sum) / Math.max(...sums) : 0}%` }} /></span></td>
              <td>{percent(total ? sum / total : 0)}</td>
            </tr>
          ))}
        </tbody>
      </table>}
    </div>
  );
}

const KINDS = {
  additive: "The layers add up to the scores, and share the colours of the text.",
  averaged: "The scores are the mean of the layers, which share the colours of the text.",
  cumulative: "Each layer holds the result of all layers up to it; the last one is the explanation. The strongest colour is the strongest score of all layers.",
  separate: "Each layer is an explanation of its own; their sum has no meaning. The strongest colour is the strongest score of all layers.",
} as const;
const NAMED_PEAKS = 12;
/** Distance between the middles of two names: a share of the width, and what the longest name takes in pixels. */
const APART = 0.085;
const LONGEST_NAME = 100;

/** The numbers of the units along the map, and the strongest words at their places. */
function Axis({ picture, go }: { picture: Picture; go(unit: number): void }) {
  const { units, order, listed } = picture;
  const axis = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([{ contentRect }]) => setWidth(contentRect.width));
    observer.observe(axis.current!);
    return () => observer.disconnect();
  }, []);
  const apart = Math.max(APART, width ? LONGEST_NAME / width : 1);
  const named: number[] = [];
  for (const unit of order) {
    if (named.length === NAMED_PEAKS) break;
    const clear = named.every((other) => Math.abs(other - unit) / units.count >= apart);
    if (listed[unit] && clear) named.push(unit);
  }
  const ticks = [0, 0.25, 0.5, 0.75, 1];
  return (
    <div class="heat-axis" ref={axis}>
      <div class="peaks">
        {named.map((unit) => (
          <button type="button" key={unit} style={{ left: `${(100 * (unit + 0.5)) / units.count}%` }} title={units.name(unit)} onClick={() => go(unit)}>
            {shortened(units.text(unit), 14)}
          </button>
        ))}
      </div>
      <div class="ticks">
        {ticks.map((place) => (
          <span key={place} style={{ left: `${100 * place}%` }}>
            {count(Math.max(1, Math.round(place * units.ordinary)))}
          </span>
        ))}
      </div>
      <p class="quiet">position of the {units.level}</p>
    </div>
  );
}

/** The strongest visible score of each column. */
export function binned(scores: ArrayLike<number>, shown: Uint8Array, columns: number): Float64Array {
  const found = new Float64Array(columns);
  for (let unit = 0; unit < scores.length; unit++) {
    if (!shown[unit]) continue;
    const column = Math.floor((unit * columns) / scores.length);
    if (Math.abs(scores[unit]) > Math.abs(found[column])) found[column] = scores[unit];
  }
  return found;
}

function unitsAt(share: number, columns: number, units: Units): [number, number] {
  const column = Math.min(columns - 1, Math.max(0, Math.floor(share * columns)));
  const first = Math.ceil((column * units.count) / columns);
  return [first, Math.max(first, Math.ceil(((column + 1) * units.count) / columns) - 1)];
}

function strongestOf(scores: ArrayLike<number>, first: number, last: number): number {
  let best = first;
  for (let unit = first; unit <= last; unit++) if (Math.abs(scores[unit]) > Math.abs(scores[best])) best = unit;
  return best;
}
