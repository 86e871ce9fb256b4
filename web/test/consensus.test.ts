import { expect, test } from "vitest";
import { agreement, expectedByChance, highest, writtenExpectation } from "../src/consensus";
import { DocumentModel } from "../src/document";
import { PayloadBuilder } from "./payloads";

test("each method names its highest words, ties in document order and without special tokens", async () => {
  const model = await DocumentModel.load(new PayloadBuilder().source());
  const units = model.units("word");
  // Scores 9, 1, -2, 0, 0.5, -3, 0, 2, 0, -9: the specials at both ends are left out, of three zeros the first comes first.
  expect(highest(units, model.scores[0], 4)).toEqual([7, 1, 4, 3]);
});

test("the consensus is the intersection, in the order of the first method", () => {
  const { all, groups } = agreement([[5, 2, 7], [7, 1, 5, 2], [9, 5, 7]]);
  expect(all).toEqual([5, 7]);
  expect(groups).toEqual([{ votes: 3, units: [5, 7] }, { votes: 2, units: [2] }]);
});

test("random sets of k words share n (k / n)^m words on average", () => {
  expect(expectedByChance(100, 10, 2)).toBeCloseTo(1);
  expect(expectedByChance(100, 100, 3)).toBeCloseTo(100);
  // Every word is named by 0 … m sets.
  const counts = [0, 1, 2, 3].map((named) => expectedByChance(50, 7, 3, named));
  expect(counts.reduce((sum, one) => sum + one)).toBeCloseTo(50);
  expect([0.001, 0.26, 12.4].map(writtenExpectation)).toEqual(["fewer than 0.1", "0.3", "12"]);
});
