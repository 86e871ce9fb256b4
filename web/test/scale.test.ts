import { describe, expect, it } from "vitest";
import { evenShare, makeScale, reference } from "../src/scale";

const options = { steps: 8, gamma: 0.75, clipped: 0.005 };

describe("scale by score", () => {
  it("gives the strongest the full colour and nothing to zero", () => {
    const scale = makeScale([0, 0.1, -2, 4], { ...options, kind: "gamma" });
    expect(scale.full).toBe(4);
    expect([4, -4, 0].map((score) => scale.step(score))).toEqual([8, 8, 0]);
  });

  it("is the rule of colours.py: round half up of 8·((|s| − e)/(m − e))^γ", () => {
    const scores = Array.from({ length: 300 }, (_, i) => Math.sin(i) ** 3);
    const scale = makeScale(scores, { ...options, kind: "gamma" });
    const even = evenShare(scores, scale.full);
    for (const score of scores) {
      const above = Math.max(0, Math.min(Math.abs(score), scale.full) - even) / (scale.full - even);
      const expected = Math.floor(8 * above ** 0.75 + 0.5);
      expect(scale.step(score)).toBe(expected);
    }
  });

  it("leaves words white that count less than they would if all counted alike", () => {
    const scale = makeScale([1, 1, 1, 1, 6], { ...options, kind: "gamma" });
    expect([1, 2, 6].map((score) => scale.step(score))).toEqual([0, 0, 8]);
    expect(makeScale([2, 2, 2], { ...options, kind: "gamma" }).step(2)).toBe(8);
  });

  it("does not give all the colour to one outlier of a long document", () => {
    const scores = new Array<number>(4000).fill(0.01);
    scores[7] = 100;
    expect(reference(scores, 0.005)).toBe(0.01);
  });

  it("names the smallest score of every step", () => {
    const scale = makeScale([1, 0.2], { ...options, kind: "gamma" });
    scale.starts.forEach((start, i) => {
      expect(scale.step(start * 1.0001)).toBe(i + 1);
      expect(scale.step(start * 0.9999)).toBe(i);
    });
  });

  it("can share its full colour with others", () => {
    const scale = makeScale([1], { ...options, kind: "gamma", full: 10 });
    expect(scale.step(1)).toBeLessThan(3);
    expect(scale.step(10)).toBe(8);
  });
});

describe("scale by rank", () => {
  it("colours the strongest 1 % in full and leaves the weakest quarter white, whatever the scores", () => {
    const scores = Array.from({ length: 1000 }, (_, i) => (i + 1) ** 5);
    const scale = makeScale(scores, { ...options, kind: "quantile" });
    const steps = scores.map((score) => scale.step(score));
    expect(steps.filter((step) => step === 8).length).toBe(10);
    expect(steps.filter((step) => step === 0).length).toBe(250);
    expect(steps).toEqual([...steps].sort((a, b) => a - b));
  });

  it("gives no colour to zeros, even when most are zero", () => {
    const scale = makeScale([0, 0, 0, 0, 5], { ...options, kind: "quantile" });
    expect(scale.step(0)).toBe(0);
    expect(scale.step(5)).toBe(8);
  });
});

it("has nothing to colour without scores", () => {
  for (const kind of ["gamma", "quantile"] as const) expect(makeScale([], { ...options, kind }).step(0)).toBe(0);
});
