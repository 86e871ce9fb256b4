import { describe, expect, it } from "vitest";
import { DocumentModel, find } from "../src/document";
import { LEVELS } from "../src/payload";
import { makePicture, readingOf, shownUnits, tokenScores } from "../src/reading";
import { initialState } from "../src/state";
import { PayloadBuilder } from "./payloads";

async function loaded() {
  const source = new PayloadBuilder().source();
  return { source, model: await DocumentModel.load(source) };
}

describe("units", () => {
  it("have the characters of the text, specials their names", async () => {
    const { model } = await loaded();
    const words = model.units("word");
    expect(Array.from({ length: words.count }, (_, i) => words.text(i))).toEqual([
      "<s>", "The", "mill", ",", "the", "mill", ":", "old", ".", "</s>",
    ]);
    expect(words.name(2)).toBe("word 2");
    expect(words.name(0)).toBe("special token");
    expect(words.ordinary).toBe(8);
    expect(words.instances(1)).toEqual([1, 4]);
  });

  it("add up the scores of their tokens", async () => {
    const { model } = await loaded();
    expect(Array.from(model.units("sentence").sums(model.scores[0]))).toEqual([-1.5]);
    expect(Array.from(model.units("sentence").tokens(0))).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  });

  it("are found by a search over words, whatever the case", async () => {
    const { model } = await loaded();
    expect(find(model.data, model.units("word"), "the MILL")).toEqual([[1, 2], [4, 5]]);
    expect(find(model.data, model.units("word"), "")).toEqual([]);
    expect(find(model.data, model.units("sentence"), "old")).toEqual([[0]]);
  });

  it("are the units that a stretch of characters touches, at every place and length", async () => {
    const { model } = await loaded();
    for (const level of LEVELS) {
      const units = model.units(level);
      const every = Array.from({ length: units.count }, (_, unit) => unit);
      for (let from = 0; from < 25; from++) {
        for (let to = from; to < 26; to++) {
          expect(units.touching(0, from, to)).toEqual(every.filter((unit) => units.start[unit] < to && units.end[unit] > from));
        }
      }
      expect(units.touching(1, 0, 25)).toEqual([]);
    }
  });
});

describe("a picture", () => {
  it("leaves out what is filtered: no colour, no rank, no part in the scale", async () => {
    const { source, model } = await loaded();
    const state = { ...initialState(source.payload), hide: ["specials" as const, "stopwords" as const, "punctuation" as const] };
    const reading = readingOf(source.payload, "attcat", "“PL”");
    const values = tokenScores(source.payload, model, reading, state, null);
    const picture = makePicture(source.payload, model, "word", reading, values, state, []);
    expect(picture.order).toEqual([5, 2, 7]);
    expect(Array.from(picture.steps)).toEqual([0, 0, 0, 0, 0, -8, 0, 0, 0, 0]);
    expect(Array.from(shownUnits(model.units("word"), []))).toEqual(new Array(10).fill(1));
  });

  it("writes every score as a share of the total of the words, at every level and with every filter", async () => {
    const { source, model } = await loaded();
    const start = initialState(source.payload);
    const reading = readingOf(source.payload, "attcat", "“PL”");
    // |1| + |−2| + |0.5| + |−3| + |2|; special tokens belong to no word.
    const states = [start, { ...start, hide: [] }, { ...start, hide: ["specials" as const, "stopwords" as const] }];
    for (const state of states) {
      for (const level of LEVELS) {
        expect(makePicture(source.payload, model, level, reading, model.scores[0], state, []).format.total).toBe(8.5);
      }
    }
  });

  it("does not colour what is below the threshold", async () => {
    const { source, model } = await loaded();
    const state = { ...initialState(source.payload), threshold: 0.5 };
    const reading = readingOf(source.payload, "attcat", "“PL”");
    const picture = makePicture(source.payload, model, "word", reading, model.scores[0], state, []);
    expect(Array.from(picture.steps).filter((step) => step !== 0).length).toBe(3);
  });

  it("shares its colours with other targets when the range is common", async () => {
    const { source, model } = await loaded();
    const state = { ...initialState(source.payload), range: "absolute" as const };
    const reading = readingOf(source.payload, "attcat", "“PL”");
    const picture = makePicture(source.payload, model, "word", reading, model.scores[0], state, [model.scores[2]]);
    expect(picture.scale.full).toBe(20);
  });

  it("is of the target asked for where the method has it", async () => {
    const { source } = await loaded();
    expect(readingOf(source.payload, "attcat", "“AI”").explanation).toBe(2);
    expect(readingOf(source.payload, "rollout", "“AI”").explanation).toBe(1);
  });

  it("is of the mean of the layers chosen", async () => {
    const builder = new PayloadBuilder();
    const layers = [...new Array<number>(10).fill(1), ...new Array<number>(10).fill(4), ...new Array<number>(10).fill(9)];
    builder.add("layers.0", "float32", layers, [3, 10]);
    const source = builder.source();
    const model = await DocumentModel.load(source);
    const state = { ...initialState(source.payload), layers: [0, 1] };
    const reading = readingOf(source.payload, "attcat", "“PL”");
    const values = tokenScores(source.payload, model, reading, state, await source.array("layers.0"));
    expect(Array.from(values)).toEqual(new Array(10).fill(2.5));
  });
});
