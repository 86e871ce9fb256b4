import { expect, test } from "vitest";
import { readingOf } from "../src/reading";
import { ATTENTION } from "../src/state";
import { verdictOf } from "../src/verdict";
import { PayloadBuilder } from "./payloads";

test("every reading has the verdict of its own explanation, and attention that of none", () => {
  const { payload } = new PayloadBuilder();
  payload.explanations.forEach((one, i) => (one.verdict = { level: "holds", words: "holds up", meaning: "", sentences: [String(i)] }));
  const told = (name: string, target: string) => verdictOf(payload, readingOf(payload, name, target)).sentences;
  expect(told("attcat", "“PL”")).toEqual(["0"]);
  expect(told("rollout", "“PL”")).toEqual(["1"]);
  expect(told("attcat", "“AI”")).toEqual(["2"]);
  expect(verdictOf(payload, readingOf(payload, ATTENTION, "“PL”")).level).toBe("unchecked");
});
