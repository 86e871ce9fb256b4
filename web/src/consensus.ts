// Consensus: words that several methods rank among their k highest, beside the number expected by chance.
//
// The same rule as sightline/analysis/consensus.py: the intersection of m sets of k words out of n; for random sets the
// expected size is n (k / n)^m.

import type { Units } from "./document";

export interface Agreement {
  /** Words that all methods name, in the order of the first method. */
  all: number[];
  /** The same for words that exactly v methods name, v from the number of methods down to 2. */
  groups: { votes: number; units: number[] }[];
}

/** The k units with the highest sums of token scores, ties in document order; special tokens are no words. */
export function highest(units: Units, scores: ArrayLike<number>, k: number): number[] {
  const sums = units.sums(scores);
  const words = Array.from({ length: units.count }, (_, unit) => unit).filter((unit) => !units.isSpecial(unit));
  return words.sort((a, b) => sums[b] - sums[a] || a - b).slice(0, k);
}

export function agreement(lists: number[][]): Agreement {
  const votes = new Map<number, number>();
  for (const list of lists) for (const unit of list) votes.set(unit, (votes.get(unit) ?? 0) + 1);
  // Words in the order of the first method that names them.
  const named = [...votes.keys()];
  const groups = Array.from({ length: Math.max(0, lists.length - 1) }, (_, i) => lists.length - i).map((count) => ({
    votes: count,
    units: named.filter((unit) => votes.get(unit) === count),
  }));
  return { all: groups[0]?.units ?? [], groups };
}

/** Number of words that exactly `named` of m random sets of k out of n words hold: n C(m, v) p^v (1 − p)^(m − v), p = k / n. */
export function expectedByChance(n: number, k: number, m: number, named = m): number {
  const p = k / n;
  let ways = 1;
  for (let i = 0; i < named; i++) ways = (ways * (m - i)) / (i + 1);
  return n * ways * p ** named * (1 - p) ** (m - named);
}

/** "0.3", "12", "fewer than 0.1". */
export function writtenExpectation(expected: number): string {
  if (expected < 0.05) return "fewer than 0.1";
  return expected < 9.95 ? expected.toFixed(1) : expected.toFixed(0);
}
