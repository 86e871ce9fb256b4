// The probability as the strongest words are taken out, beside random words, with the line where the answer changes.

import { count, percent, plainNumber } from "./format";
import type { CheckData, Reading } from "./payload";

const WIDTH = 560;
const HEIGHT = 270;
const EDGE = { left: 52, right: 14, top: 14, bottom: 40 };
/** From so many words on, the axis is logarithmic. */
const MANY = 30;

type Point = [words: number, value: number];

/** What was read without the strongest words, by their number. */
export function strongestPath({ whole, path, counts, without }: CheckData): [words: number, reading: Reading][] {
  const read = new Map<number, Reading>([[0, whole], ...path, ...counts.map((n, i): [number, Reading] => [n, without[i]])]);
  return [...read].sort(([a], [b]) => a - b);
}

/** `line`: the probability below which the answer changes; null where there is none. A single output has values instead. */
export function ChangeCurve({ check, label, line, single }: { check: CheckData; label: string; line: number | null; single: boolean }) {
  const strong = strongestPath(check).map(([n, reading]): Point => [n, single ? reading.value : reading.probability]);
  const random = check.random.map((row) => [strong[0], ...row.map((value, i): Point => [check.counts[i], single ? value : 1 / (1 + Math.exp(-value))])]);
  const values = [...strong, ...random.flat()].map(([, value]) => value).concat(line ?? []);
  const last = strong[strong.length - 1][0];
  const across = last > MANY ? logAxis(last, EDGE.left, WIDTH - EDGE.right) : axis(0, last, EDGE.left, WIDTH - EDGE.right, true);
  const up = axis(...range(values, single), HEIGHT - EDGE.bottom, EDGE.top);
  const written = single ? plainNumber : percent;
  const path = (points: Point[]) => points.map(([x, y], i) => `${i ? "L" : "M"}${across.at(x).toFixed(1)} ${up.at(y).toFixed(1)}`).join("");
  return (
    <figure class="curve" data-section="curve">
      <figcaption>
        {single ? "Value" : `Probability of ${label}`} as the <b class="strong">strongest words</b> are taken out, and{" "}
        <b class="chance">random words</b>
      </figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={strong.map(([n, value]) => `without ${n} words ${written(value)}`).join(", ")}>
        {up.ticks.map((value) => (
          <g key={value} class="tick">
            <line x1={EDGE.left} x2={WIDTH - EDGE.right} y1={up.at(value)} y2={up.at(value)} />
            <text x={EDGE.left - 6} y={up.at(value) + 4} text-anchor="end">{written(value)}</text>
          </g>
        ))}
        {across.ticks.map((value) => (
          <text key={value} class="tick" x={across.at(value)} y={HEIGHT - EDGE.bottom + 16} text-anchor="middle">{count(value)}</text>
        ))}
        <text class="tick" x={(EDGE.left + WIDTH) / 2} y={HEIGHT - 6} text-anchor="middle">words taken out{last > MANY ? " (logarithmic)" : ""}</text>
        {random.map((points, i) => <path key={i} class="chance" d={path(points)} />)}
        {line !== null && (
          <g class="border">
            <line x1={EDGE.left} x2={WIDTH - EDGE.right} y1={up.at(line)} y2={up.at(line)} />
            <text x={EDGE.left + 6} y={up.at(line) + 14}>below this line the answer changes</text>
          </g>
        )}
        <path class="strong" d={path(strong)} />
        {strong.map(([n, value]) => <circle key={n} class="strong" cx={across.at(n)} cy={up.at(value)} r="3" />)}
      </svg>
    </figure>
  );
}

/** The range of the values with a little room; probabilities stay within 0 … 1. */
function range(values: number[], single: boolean): [low: number, high: number] {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const room = Math.max(0.05 * (high - low), 0.01);
  return single ? [low - room, high + room] : [Math.max(0, low - room), Math.min(1, high + room)];
}

export interface Axis {
  ticks: number[];
  at(value: number): number;
}

/** A linear axis from `low` … `high` to `from` … `to`, with about five round ticks. */
export function axis(low: number, high: number, from: number, to: number, whole = false): Axis {
  const span = high > low ? high - low : 1;
  const rough = whole ? Math.max(1, span / 5) : span / 5;
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
