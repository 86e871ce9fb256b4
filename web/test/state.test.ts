import { describe, expect, it } from "vitest";
import { fromHash, initialState, readingNames, toHash } from "../src/state";
import { VIEW_NAMES, VIEWS } from "../src/views";
import { PayloadBuilder } from "./payloads";

const { payload } = new PayloadBuilder().relations("all", "attended", {}).add("received", "float32", new Array<number>(20).fill(0), [2, 10]);

describe("the address", () => {
  it("is empty at the start and holds only what was changed", () => {
    const state = initialState(payload);
    expect(toHash(state, payload)).toBe("");
    expect(toHash({ ...state, level: "token", layers: [0, 1] }, payload)).toBe("level=token&layers=0%2C1");
  });

  it("brings a view back", () => {
    const state = {
      ...initialState(payload),
      view: "inside", layout: "outline" as const, method: "rollout", target: "“AI”", level: "sentence" as const, layers: [1], heads: [0, 2],
      scale: "quantile" as const, gamma: 0.5, range: "absolute" as const, threshold: 0.25, hide: [], compare: "attention",
      unit: 7, find: "the mill & more", head: [1, 2] as [number, number], links: "attended" as const,
    };
    expect(fromHash("#" + toHash(state, payload), payload, VIEW_NAMES)).toEqual(state);
  });

  it.each([
    "method=%3Cscript%3E", "level=chapter", "layers=9,-1,x", "heads=77", "gamma=abc", "threshold=7", "unit=1.5", "unit=99", "unit=-1",
    "head=9,9", "head=1", "view=", "compare=nothing", "links=all", "scale=log", "%", "unknown=1",
  ])("ignores what does not fit: %s", (hash) => {
    expect(fromHash("#" + hash, payload, VIEW_NAMES)).toEqual(initialState(payload));
  });
});

it("offers attention beside the methods where it was seen", () => {
  expect(readingNames(payload)).toEqual(["attcat", "rollout", "attention"]);
  expect(readingNames(new PayloadBuilder().payload)).toEqual(["attcat", "rollout"]);
});

it("offers a view where the page has its data", () => {
  const offered = (payload: Parameters<(typeof VIEWS)[number]["offered"]>[0]) =>
    VIEWS.filter((view) => view.offered(payload)).map(({ name }) => name);
  const bare = offered(new PayloadBuilder().payload);
  expect(bare).toEqual(["text", "change", "compare"]);
  expect(offered(payload)).toContain("inside");
});
