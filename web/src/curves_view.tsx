// Curves of the probability without the strongest words: one plot per quantity with all methods, random orders as a grey
// band. A method has the same colour and dash pattern in every plot, so that lines can be told apart without colours.

import { count, plainNumber } from "./format";
import type { Curve, Payload } from "./payload";
import type { ViewProperties } from "./views";
import { SortableTable } from "./sortable_table";
import { unbroken } from "./unbroken";

const WIDTH = 560;
const HEIGHT = 300;
const EDGE = { left: 56, right: 12, top: 12, bottom: 42 };
const DASHES = ["", "7 4", "2 3", "9 3 2 3", "12 4", "4 2 1 2"];

export function CurvesView({ page }: ViewProperties) {
  const { curves } = page.source.payload;
  if (!curves.length) return <p class="empty">This page contains no curves.</p>;
  return (
    <div class="curves">
      {curves.map((curve) => (
        <figure key={curve.name}>
          <figcaption>{curve.name}</figcaption>
          <Plot curve={curve} look={(name) => lookOf(page.source.payload, name)} />
          <Legend curve={curve} look={(name) => lookOf(page.source.payload, name)} />
          {curve.notes?.map((note) => <p key={note} class="curve-note">{unbroken(note)}</p>)}
          {curve.footnote && <small class="footnote">{curve.footnote}</small>}
          <details>
            <summary>Data</summary>
            <SortableTable
              caption={curve.name}
              columns={[{ name: "line" }, { name: curve.x }, { name: curve.y }]}
              rows={curve.series.flatMap((one) => one.x.map((x, i) => [one.name, x, one.y[i]]))}
              file="curves.csv"
            />
          </details>
        </figure>
      ))}
    </div>
  );
}

const SERIES = 6;

/** The number of a method's colour and dash pattern, by its place in the page; −1 for random orders. */
export function lookOf(payload: Payload, name: string): number {
  const titles = [...new Set(payload.explanations.map((one) => one.title || one.method))];
  const place = titles.indexOf(name);
  return place < 0 ? -1 : place % SERIES;
}

function classOf(look: number): string {
  return look < 0 ? "series-random" : `series-${look}`;
}

function Plot({ curve, look }: { curve: Curve; look(name: string): number }) {
  const xs = curve.series.flatMap((one) => one.x);
  const ys = curve.series.flatMap((one) => [...one.y, ...(one.low ?? []), ...(one.high ?? [])]);
  const across = logAxis(Math.max(...xs), EDGE.left, WIDTH - EDGE.right);
  // Probabilities are drawn from 0 to 1, so that plots can be compared; other quantities in their own range.
  const [low, high] = ys.every((y) => y >= 0 && y <= 1) ? [0, 1] : [Math.min(...ys), Math.max(...ys)];
  const up = axis(low, high, HEIGHT - EDGE.bottom, EDGE.top);
  const line = (x: number[], y: number[]) => x.map((value, i) => `${i ? "L" : "M"}${across.at(value).toFixed(1)} ${up.at(y[i]).toFixed(1)}`).join("");
  // The band first, so that the lines are drawn over it.
  const drawn = [...curve.series].sort((a, b) => Number(!a.low) - Number(!b.low));
  return (
    <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`${curve.name}: ${curve.series.map((one) => one.name).join(", ")}`}>
      {up.ticks.map((value) => (
        <g key={value} class="tick">
          <line x1={EDGE.left} x2={WIDTH - EDGE.right} y1={up.at(value)} y2={up.at(value)} />
          <text x={EDGE.left - 6} y={up.at(value) + 4} text-anchor="end">{plainNumber(value)}</text>
        </g>
      ))}
      {across.ticks.map((value) => (
        <text key={value} class="tick" x={across.at(value)} y={HEIGHT - EDGE.bottom + 16} text-anchor="middle">{count(value)}</text>
      ))}
      <text class="name" x={(EDGE.left + WIDTH) / 2} y={HEIGHT - 6} text-anchor="middle">{curve.x}</text>
      <text class="name" transform={`translate(12 ${HEIGHT / 2}) rotate(-90)`} text-anchor="middle">{curve.y}</text>
      {drawn.map(({ name, x, y, low, high }) => {
        const number = look(name);
        return (
          <g key={name} class={classOf(number)}>
            {low && high && <path class="band" d={`${line(x, high)}${line([...x].reverse(), [...low].reverse()).replace("M", "L")}Z`} />}
            <path class="line" d={line(x, y)} stroke-dasharray={number < 0 ? "" : DASHES[number % DASHES.length]} />
            {number >= 0 && x.map((value, i) => <circle key={value} class="point" cx={across.at(value)} cy={up.at(y[i])} r="2.5" />)}
          </g>
        );
      })}
    </svg>
  );
}

/** Drawn below the plot, so that no line crosses it. */
function Legend({ curve, look }: { curve: Curve; look(name: string): number }) {
  return (
    <ul class="lines">
      {curve.series.map(({ name, low }) => {
        const number = look(name);
        return (
          <li key={name} class={classOf(number)}>
            <svg viewBox="0 0 30 12" aria-hidden="true">
              {low && <path class="band" d="M0 0h30v12h-30z" />}
              <path class="line" d="M0 6h30" stroke-dasharray={number < 0 ? "" : DASHES[number % DASHES.length]} />
            </svg>
            {name}
            {low && " (mean; band: minimum to maximum)"}
          </li>
        );
      })}
    </ul>
  );
}

export interface Axis {
  ticks: number[];
  at(value: number): number;
}

/** A linear axis from `low` … `high` to `from` … `to`, with about five round ticks. */
export function axis(low: number, high: number, from: number, to: number): Axis {
  const span = high > low ? high - low : 1;
  const rough = span / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough)!;
  const first = Math.ceil(low / step - 1e-9);
  const ticks = Array.from({ length: Math.floor((low + span) / step + 1e-9) - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
  return { ticks, at: (value) => from + ((value - low) / span) * (to - from) };
}

/** A logarithmic axis of counts from 0 to `high`: log(1 + count), so that 0 has a place; ticks at 0, 1, 2, 5, 10, … */
export function logAxis(high: number, from: number, to: number): Axis {
  const at = (value: number) => from + (Math.log1p(value) / Math.log1p(Math.max(1, high))) * (to - from);
  const ticks = [0];
  for (let power = 1; power <= high; power *= 10) for (const step of [1, 2, 5]) if (step * power <= high) ticks.push(step * power);
  // Leave out the ticks whose labels would touch.
  const apart = ticks.filter((value, i) => i === 0 || at(value) - at(ticks[i - 1]) >= 18);
  return { ticks: apart, at };
}
