import { describe, expect, it } from "vitest";
import { Units } from "../src/document";
import type { Level } from "../src/payload";
import { stretches } from "../src/stretches";

/** Units of a document of one token a unit, unless `of` says otherwise. */
function unitsOf(level: Level, spans: [start: number, end: number][], of?: number[], segment = spans.map(() => 0)): Units {
  const owners = Int32Array.from(of ?? spans.map((_, unit) => unit));
  const data = { tokens: owners.length, dropped: 0, segments: [], specials: [] };
  const [starts, ends] = [0, 1].map((side) => Int32Array.from(spans, (span) => span[side]));
  return new Units(level, data, starts, ends, Uint8Array.from(segment), owners, new Uint8Array(owners.length));
}

const cuts = (text: string, levels: Units[], cut = text.length, segment = 0) =>
  [...stretches(text, segment, levels, cut)].map(({ start, end, units }) => [text.slice(start, end), ...units]);

describe("stretches", () => {
  it("lie within one unit of every level, gaps within the coarser ones", () => {
    const tokens = unitsOf("token", [[0, 3], [4, 7], [7, 9], [9, 10]]);
    const words = unitsOf("word", [[0, 3], [4, 9], [9, 10]], [0, 1, 1, 2]);
    const sentences = unitsOf("sentence", [[0, 10]], [0, 0, 0, 0]);
    expect(cuts("the miller. ", [sentences, words, tokens])).toEqual([
      ["the", 0, 0, 0],
      [" ", 0, -1, -1],
      ["mil", 0, 1, 1],
      ["le", 0, 1, 2],
      ["r", 0, 2, 3],
      [". ", -1, -1, -1],
    ]);
  });

  it("end with their line and where the model stopped reading", () => {
    const sentences = unitsOf("sentence", [[0, 7]]);
    expect(cuts("one\ntwo\n\nthree four", [sentences], 12)).toEqual([
      ["one\n", 0],
      ["two", 0],
      ["\n", -1],
      ["\n", -1],
      ["thr", -1],
      ["ee four", -1],
    ]);
  });

  it("hold the specials in their places, which have no characters", () => {
    const tokens = unitsOf("token", [[0, 0], [0, 3], [3, 3]]);
    const sentences = unitsOf("sentence", [[0, 3]], [-1, 0, -1]);
    expect(cuts("old mill", [sentences, tokens])).toEqual([
      ["", -1, 0],
      ["old", 0, 1],
      ["", -1, 2],
      [" mill", -1, -1],
    ]);
  });

  it("cut a unit that crosses the border of a coarser one", () => {
    const words = unitsOf("word", [[0, 4]]);
    const sentences = unitsOf("sentence", [[0, 2], [2, 6]], [0]);
    expect(cuts("abcdef", [sentences, words])).toEqual([
      ["ab", 0, 0],
      ["cd", 1, 0],
      ["ef", 1, -1],
    ]);
  });

  it("give the text of their segment back, whatever the units are", () => {
    let seed = 1;
    const random = (below: number) => (seed = (seed * 48271) % 2147483647) % below;
    for (let trial = 0; trial < 200; trial++) {
      const text = Array.from({ length: random(30) }, () => "ab \n"[random(4)]).join("");
      const levels = (["paragraph", "sentence", "word", "token"] as const).map((level) => {
        const places = Array.from({ length: 2 * random(8) }, () => random(text.length + 3)).sort((a, b) => a - b);
        const spans = Array.from({ length: places.length / 2 }, (_, i): [number, number] => [places[2 * i], places[2 * i + 1]]);
        // Every unit is named by a token, so that specials can be asked for theirs.
        return unitsOf(level, spans, Array.from({ length: 8 }, (_, i) => (i < spans.length ? i : -1)), spans.map(() => random(2)));
      });
      for (const segment of [0, 1]) {
        const found = [...stretches(text, segment, levels, random(text.length + 1))];
        expect(found.map(({ start, end }) => text.slice(start, end)).join("")).toBe(text);
        const special = levels[3];
        const asked = Array.from(special.start, (start, unit) => special.segment[unit] === segment && start === special.end[unit]);
        expect(found.filter(({ start, end }) => start === end).length).toBe(asked.filter(Boolean).length);
      }
    }
  });
});
