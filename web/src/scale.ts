// From a score to one of a few steps of colour; the same rule as sightline/view/colours.py.
//
// gamma:    step = round(S · ((min(|s|, m) − e) / (m − e))^γ), 0 below e; m the magnitude that all but 0.5 % of the scores
//           stay below, e the mean magnitude: what every word would have if all counted alike.
// quantile: the strongest 1 % of the words get the last step, the next 1 % the one before, then 2, 4, 8, 16, 18, 25 %.
//
// On a long document a linear scale up to the largest score shows nothing: a handful of outliers takes all the colour.

export type ScaleKind = "gamma" | "quantile";

/** Share of the words that have at least step 1, 2, … */
const QUANTILES = [0.75, 0.5, 0.32, 0.16, 0.08, 0.04, 0.02, 0.01];

export interface ScaleOptions {
  kind: ScaleKind;
  steps: number;
  gamma: number;
  clipped: number;
  /** Magnitude with the full colour; by default the scores' own. */
  full?: number;
}

export interface Scale {
  /** Magnitude from which the colour is full. */
  readonly full: number;
  /** Smallest magnitude of every step, 1 … steps. */
  readonly starts: Float64Array;
  step(score: number): number;
}

/** m: the magnitude that gets the full colour (0 when all scores are 0). */
export function reference(scores: ArrayLike<number>, clipped: number): number {
  const sorted = magnitudes(scores);
  if (!sorted.length) return 0;
  // When nearly all scores are zero the clipped ones are all there is to show.
  return sorted[sorted.length - 1 - Math.floor(clipped * sorted.length)] || sorted[sorted.length - 1];
}

/** e: the mean magnitude of the scores clipped at m, or 0 where all of them reach it. */
export function evenShare(scores: ArrayLike<number>, m: number): number {
  let sum = 0;
  for (let i = 0; i < scores.length; i++) sum += Math.min(m, Math.abs(scores[i]));
  const mean = scores.length ? sum / scores.length : 0;
  return mean < m * (1 - 1e-9) ? mean : 0;
}

function magnitudes(scores: ArrayLike<number>): Float64Array {
  return Float64Array.from(scores, Math.abs).sort();
}

export function makeScale(scores: ArrayLike<number>, options: ScaleOptions): Scale {
  return options.kind === "gamma" ? gammaScale(scores, options) : quantileScale(scores, options);
}

function gammaScale(scores: ArrayLike<number>, { steps, gamma, clipped, full }: ScaleOptions): Scale {
  const m = full ?? reference(scores, clipped);
  const e = evenShare(scores, m);
  const starts = Float64Array.from({ length: steps }, (_, i) => e + (m - e) * ((i + 0.5) / steps) ** (1 / gamma));
  const step = (score: number) => (m === 0 ? 0 : Math.floor(steps * (Math.max(0, Math.min(Math.abs(score), m) - e) / (m - e)) ** gamma + 0.5));
  return { full: m, starts, step };
}

function quantileScale(scores: ArrayLike<number>, { steps }: ScaleOptions): Scale {
  const sorted = magnitudes(scores);
  const starts = Float64Array.from({ length: steps }, (_, i) => {
    const share = QUANTILES[Math.min(QUANTILES.length - 1, Math.floor((i * QUANTILES.length) / steps))];
    return sorted.length ? sorted[Math.max(0, sorted.length - Math.max(1, Math.round(share * sorted.length)))] : 0;
  });
  const step = (score: number) => {
    const size = Math.abs(score);
    if (size === 0) return 0;
    let found = 0;
    while (found < steps && size >= starts[found]) found++;
    return found;
  };
  return { full: sorted.length ? sorted[sorted.length - 1] : 0, starts, step };
}
