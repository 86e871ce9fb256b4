import { describe, expect, it } from "vitest";
import { neighbour } from "../src/app";
import { order, peaks, rankCorrelation, ranks, rows } from "../src/ranking";

const all = (n: number) => new Uint8Array(n).fill(1);

describe("order", () => {
  it("goes by magnitude, ties in document order, without what is left out", () => {
    const shown = Uint8Array.of(1, 1, 0, 1, 1);
    const ordered = order([1, -3, 9, 3, 0], shown);
    expect(ordered).toEqual([1, 3, 0, 4]);
    expect(Array.from(ranks(ordered, 5))).toEqual([3, 1, 0, 2, 4]);
  });

  it("finds peaks in document order, none of them zero", () => {
    const scores = [0, 5, 1, 0, 9, 0, 0, 0];
    expect(peaks(order(scores, all(8)), scores)).toEqual([1, 4]);
    expect(peaks(order([0, 0, 0, 0], all(4)), [0, 0, 0, 0])).toEqual([]);
  });

  it("walks round and round", () => {
    expect([1, -1].map((by) => neighbour([2, 5, 9], 5, by))).toEqual([9, 2]);
    expect(neighbour([2, 5, 9], 9, 1)).toBe(2);
    expect([1, -1].map((by) => neighbour([2, 5, 9], 6, by))).toEqual([9, 5]);
    expect(neighbour([], 3, 1)).toBeNull();
  });
});

it("adds up instances of one word and remembers the strongest", () => {
  const words = ["The", "mill", "the", "MILL"];
  const merged = rows([1, -2, 1, -5], all(4), (i) => words[i].toLowerCase(), (i) => words[i], true);
  expect(merged).toEqual([
    { key: "the", text: "The", score: 2, count: 2, unit: 0 },
    { key: "mill", text: "mill", score: -7, count: 2, unit: 3 },
  ]);
  expect(rows([1, -2], all(2), String, String, false).length).toBe(2);
});

describe("rank correlation", () => {
  it("is that of the ranks, ties at their mean", () => {
    expect(rankCorrelation([1, 2, 3], [10, 20, 30], all(3))).toBeCloseTo(1);
    expect(rankCorrelation([1, 2, 3], [3, 2, 1], all(3))).toBeCloseTo(-1);
    // ranks 1 2.5 2.5 4 against 1 2 3 4: 4.5 / √(4.5 · 5)
    expect(rankCorrelation([1, 2, 2, 5], [1, 2, 3, 4], all(4))).toBeCloseTo(4.5 / Math.sqrt(4.5 * 5));
  });

  it("is not defined for a flat order", () => {
    expect(rankCorrelation([1, 1], [1, 2], all(2))).toBeNull();
  });
});
