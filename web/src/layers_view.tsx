// Scores per layer as a heat map: one row per layer (the last at the top), the document from left to right.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Palette, pen } from "./colours";
import type { Units } from "./document";
import { percent, shortened } from "./format";
import { useArray } from "./hooks";
import { layersArray, rowsOf } from "./reading";
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
  const canvas = useRef<HTMLCanvasElement>(null);
  const [hover, setHover] = useState<{ layer: number; unit: number } | null>(null);
  useEffect(() => {
    if (!canvas.current || !layers.length) return;
    const options = { steps: payload.colours.levels, clipped: payload.colours.clipped, gamma: state.gamma, kind: state.scale };
    const all = Float64Array.from(layers.flatMap((row) => Array.from(row.filter((_, unit) => picture.shown[unit]))));
    const scale = makeScale(all, options);
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
        context.fillRect(left, (layers.length - 1 - layer) * ROW, Math.max(1, width / columns), ROW - 2);
      }
    });
  }, [layers, picture, state.gamma, state.scale]);

  if (!name) {
    const others = payload.explanations.filter((_, number) => source.has(`layers.${number}`)).map((one) => one.method);
    return (
      <p class="empty">
        {reading.name} has no scores per layer on this page.
        {others.length > 0 && ` Methods with scores per layer: ${[...new Set(others)].join(", ")}.`}
      </p>
    );
  }
  const sums = layers.map((row) => row.reduce((sum, score, unit) => sum + (picture.shown[unit] ? Math.abs(score) : 0), 0));
  const total = sums.reduce((sum, one) => sum + one, 0);
  const at = (event: MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    const layer = layers.length - 1 - Math.floor((event.clientY - box.top) / ROW);
    const [first, last] = unitsAt((event.clientX - box.left) / box.width, Math.min(units.count, Math.floor(box.width)), units);
    if (!layers[layer]) return null;
    return { layer, unit: strongestOf(layers[layer], first, last) };
  };
  return (
    <div class="layers">
      <p class="quiet">One row per layer, the last layer at the top; the document runs from left to right. Each cell shows the strongest {units.level} at its position.</p>
      <div class="heat">
        <ol aria-hidden="true">
          {sums.map((_, i) => (
            <li key={i} style={{ height: `${ROW}px` }}>{layers.length - 1 - i}</li>
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
      </div>
      <p class="named" role="status" aria-live="polite">
        {hover
          ? `Layer ${hover.layer}: “${shortened(units.text(hover.unit), 60)}” ${format.full(layers[hover.layer][hover.unit])}, ${units.name(hover.unit)}`
          : " "}
      </p>
      <table class="shares">
        <caption>Share of each layer in the total of absolute scores</caption>
        <tbody>
          {sums.map((sum, layer) => (
            <tr key={layer}>
              <th scope="row">layer {layer}</th>
              <td><span class="bar"><i style={{ width: `${total ? (100 * sum) / Math.max(...sums) : 0}%` }} /></span></td>
              <td>{percent(total ? sum / total : 0)}</td>
            </tr>
          )).reverse()}
        </tbody>
      </table>
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
