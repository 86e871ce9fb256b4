// Orders and sums of scores: ranks, peaks, repeated words added up, agreement of two orders.

/** Units by magnitude, strongest first, ties in document order; only those that are shown. */
export function order(scores: ArrayLike<number>, shown: Uint8Array): number[] {
  const found: number[] = [];
  for (let i = 0; i < scores.length; i++) if (shown[i]) found.push(i);
  const sizes = Float64Array.from(scores, Math.abs);
  // A stable sort leaves ties in document order.
  return found.sort((a, b) => sizes[b] - sizes[a]);
}

/** Rank of every unit from 1; 0 for those that are not shown. */
export function ranks(ordered: number[], count: number): Int32Array {
  const found = new Int32Array(count);
  ordered.forEach((unit, place) => (found[unit] = place + 1));
  return found;
}

const MOST_PEAKS = 60;

/** The strongest quarter of the units, at most 60, in document order. */
export function peaks(ordered: number[], scores: ArrayLike<number>): number[] {
  const best = ordered.slice(0, Math.min(MOST_PEAKS, Math.ceil(ordered.length / 4)));
  return best.filter((unit) => scores[unit] !== 0).sort((a, b) => a - b);
}

export interface Row {
  key: string;
  text: string;
  score: number;
  count: number;
  /** The strongest instance. */
  unit: number;
}

/** One row a unit, or (merged) one row a word with its instances added up. */
export function rows(
  scores: ArrayLike<number>,
  shown: Uint8Array,
  key: (unit: number) => string,
  text: (unit: number) => string,
  merge: boolean,
): Row[] {
  const found = new Map<string | number, Row>();
  for (let unit = 0; unit < scores.length; unit++) {
    if (!shown[unit]) continue;
    const name = merge ? key(unit) : unit;
    const row = found.get(name);
    if (!row) {
      found.set(name, { key: key(unit), text: text(unit), score: scores[unit], count: 1, unit });
      continue;
    }
    row.score += scores[unit];
    row.count += 1;
    if (Math.abs(scores[unit]) > Math.abs(scores[row.unit])) row.unit = unit;
  }
  return [...found.values()];
}

/** Spearman's ρ of two lists of scores over the shown units, ties at their mean rank; null where an order is flat. */
export function rankCorrelation(a: ArrayLike<number>, b: ArrayLike<number>, shown: Uint8Array): number | null {
  const units: number[] = [];
  for (let i = 0; i < shown.length; i++) if (shown[i]) units.push(i);
  const x = meanRanks(units.map((unit) => a[unit]));
  const y = meanRanks(units.map((unit) => b[unit]));
  const middle = (units.length + 1) / 2;
  let xy = 0;
  let xx = 0;
  let yy = 0;
  for (let i = 0; i < units.length; i++) {
    xy += (x[i] - middle) * (y[i] - middle);
    xx += (x[i] - middle) ** 2;
    yy += (y[i] - middle) ** 2;
  }
  return xx > 0 && yy > 0 ? xy / Math.sqrt(xx * yy) : null;
}

function meanRanks(values: number[]): Float64Array {
  const ordered = values.map((_, i) => i).sort((i, j) => values[i] - values[j]);
  const found = new Float64Array(values.length);
  for (let first = 0; first < ordered.length; ) {
    let last = first;
    while (last + 1 < ordered.length && values[ordered[last + 1]] === values[ordered[first]]) last++;
    for (let place = first; place <= last; place++) found[ordered[place]] = (first + last) / 2 + 1;
    first = last + 1;
  }
  return found;
}
