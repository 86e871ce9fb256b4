// Deletion curves. Each line has its own dash pattern, so that lines can be told apart without colours.

import { plainNumber } from "./format";
import type { Curve } from "./payload";
import type { ViewProperties } from "./views";
import { SortableTable } from "./sortable_table";

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
          {curve.notes?.map((note) => <p key={note}>{note}</p>)}
          <Plot curve={curve} />
          <Legend curve={curve} />
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

function Plot({ curve }: { curve: Curve }) {
  const xs = curve.series.flatMap((one) => one.x);
  const ys = curve.series.flatMap((one) => [...one.y, ...(one.low ?? []), ...(one.high ?? [])]);
  const across = axis(Math.min(...xs), Math.max(...xs), EDGE.left, WIDTH - EDGE.right);
  const up = axis(Math.min(...ys), Math.max(...ys), HEIGHT - EDGE.bottom, EDGE.top);
  const line = (x: number[], y: number[]) => x.map((value, i) => `${i ? "L" : "M"}${across.at(value).toFixed(1)} ${up.at(y[i]).toFixed(1)}`).join("");
  return (
    <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`${curve.name}: ${curve.series.map((one) => one.name).join(", ")}`}>
      {up.ticks.map((value) => (
        <g key={value} class="tick">
          <line x1={EDGE.left} x2={WIDTH - EDGE.right} y1={up.at(value)} y2={up.at(value)} />
          <text x={EDGE.left - 6} y={up.at(value) + 4} text-anchor="end">{plainNumber(value)}</text>
        </g>
      ))}
      {across.ticks.map((value) => (
        <text key={value} class="tick" x={across.at(value)} y={HEIGHT - EDGE.bottom + 16} text-anchor="middle">{plainNumber(value)}</text>
      ))}
      <text class="name" x={(EDGE.left + WIDTH) / 2} y={HEIGHT - 6} text-anchor="middle">{curve.x}</text>
      <text class="name" transform={`translate(12 ${HEIGHT / 2}) rotate(-90)`} text-anchor="middle">{curve.y}</text>
      {curve.series.map(({ name, x, y, low, high }, i) => (
        <g key={name} class={`series-${i % 6}`}>
          {low && high && <path class="band" d={`${line(x, high)}${line([...x].reverse(), [...low].reverse()).replace("M", "L")}Z`} />}
          <path class="line" d={line(x, y)} stroke-dasharray={DASHES[i % DASHES.length]} />
        </g>
      ))}
    </svg>
  );
}

/** Drawn below the plot, so that no line crosses it. */
function Legend({ curve }: { curve: Curve }) {
  return (
    <ul class="lines">
      {curve.series.map(({ name, low }, i) => (
        <li key={name} class={`series-${i % 6}`}>
          <svg viewBox="0 0 30 12" aria-hidden="true">
            {low && <path class="band" d="M0 0h30v12h-30z" />}
            <path class="line" d="M0 6h30" stroke-dasharray={DASHES[i % DASHES.length]} />
          </svg>
          {name}
          {low && " (mean; band: minimum to maximum)"}
        </li>
      ))}
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
