import { describe, expect, it } from "vitest";
import { toCsv } from "../src/csv";
import { axis } from "../src/change_curve";
import { clampedWindow, movedWindow, tokensAt, zoomedWindow } from "../src/map_window";
import { sorted } from "../src/sortable_table";

describe("CSV", () => {
  it("quotes what must be quoted", () => {
    expect(toCsv(["word", "score"], [['say "a, b"', -1.5], ["line\nbreak", null]])).toBe(
      'word,score\r\n"say ""a, b""",-1.5\r\n"line\nbreak",\r\n',
    );
  });

  it("protects what the reader of the package restores", () => {
    expect(toCsv(["word"], [["＝1+1"], ["'=1"]])).toBe("word\r\n'＝1+1\r\n''=1\r\n");
  });

  it("holds no formula", () => {
    expect(toCsv(["word"], [["=cmd|' /C calc'!A0"], ["+x"], ["-1+1"], ["'-"], ["-\n"], ["@x"]])).toBe(
      "word\r\n'=cmd|' /C calc'!A0\r\n'+x\r\n'-1+1\r\n''-\r\n\"'-\n\"\r\n'@x\r\n",
    );
    expect(toCsv(["sign"], [["+"], ["-"], ["+1"], ["-2.5e-3"]])).toBe("sign\r\n+\r\n-\r\n+1\r\n-2.5e-3\r\n");
  });
});

describe("a table", () => {
  const rows = [["mill", 2], ["old", null], ["The", -7], ["river", 2]];
  it("is sorted by numbers or words, ties as they came, empty cells last", () => {
    expect(sorted(rows, 1, true, "")).toEqual([0, 3, 2, 1]);
    expect(sorted(rows, 1, false, "")).toEqual([2, 0, 3, 1]);
    expect(sorted(rows, 0, true, "")).toEqual([0, 1, 3, 2]);
  });
  it("is filtered by any cell", () => {
    expect(sorted(rows, 0, true, "RIV")).toEqual([3]);
    expect(sorted(rows, 0, true, "-7")).toEqual([2]);
  });
});

describe("the part of a map in view", () => {
  it("stays inside the map", () => {
    expect(clampedWindow({ row: -5, column: 95, size: 20 }, 100)).toEqual({ row: 0, column: 80, size: 20 });
    expect(movedWindow({ row: 10, column: 10, size: 20 }, -1, 9, 100)).toEqual({ row: 80, column: 0, size: 20 });
    expect(clampedWindow({ row: 0, column: 0, size: 1 }, 3)).toEqual({ row: 0, column: 0, size: 3 });
  });
  it("keeps the point under the pointer when it zooms", () => {
    const view = zoomedWindow({ row: 0, column: 0, size: 100 }, 0.5, 0.25, 1, 100);
    expect(view).toEqual({ row: 50, column: 12.5, size: 50 });
  });
  it("names the tokens that a pixel pools: those with ⌊i·s/n⌋ = p", () => {
    const [n, s] = [10, 4];
    for (let i = 0; i < n; i++) {
      const pixel = Math.floor((i * s) / n);
      const same = Array.from({ length: n }, (_, j) => j).filter((j) => Math.floor((j * s) / n) === pixel);
      expect(tokensAt(((pixel + 0.5) * n) / s, 0, n, s, n)).toEqual([same[0], same.at(-1)]);
    }
  });
});

it("marks an axis at round numbers", () => {
  const { ticks, at } = axis(0, 1, 0, 100);
  expect(ticks).toEqual([0, 0.2, 0.4, 0.6, 0.8, 1]);
  expect(at(0.5)).toBe(50);
  expect(axis(3, 3, 0, 10).at(3)).toBe(0);
});
