import { describe, expect, it } from "vitest";
import { commonExponent, percent, plainNumber, plural, ranges, ShareFormat, shortened, signedNumber, visible } from "../src/format";

describe("numbers", () => {
  it("have three digits and a true minus sign", () => {
    expect([0.31234, -12345.6, 0, 1.2e-5, -4e7].map(signedNumber)).toEqual(["+0.312", "−12300", "0", "+1.2e-5", "−4.0e+7"]);
    expect(plainNumber(-0.5)).toBe("−0.5");
  });

  it("are shown as shares of the total, with a sign where they have one", () => {
    const format = new ShareFormat(4, true);
    expect([2, -0.1, 0.002, -1e-5, 0].map((score) => format.share(score))).toEqual(["+50 %", "−2.5 %", "+0.05 %", "> −0.01 %", "0 %"]);
    expect(new ShareFormat(4, false).value(1)).toBe("25");
    expect(new ShareFormat(0, true).share(1)).toBe("0 %");
    expect(format.raw(-0.5)).toBe("score −0.5");
  });
});

it("says percentages as people do: never 0 % for something, never 100 % for less than all", () => {
  expect([0, 0.0001, 0.034, 0.5, 0.9961, 0.99999, 1].map(percent)).toEqual([
    "0 %", "< 0.1 %", "3.4 %", "50 %", "99.6 %", "> 99.9 %", "100 %",
  ]);
});

it("writes positions as ranges", () => {
  expect(ranges([3, 4, 5, 9])).toBe("3–5, 9");
  expect(ranges([7])).toBe("7");
});

it("writes the scores of a column with one power of ten, and tiny shares with their sign", () => {
  const small = commonExponent(0.00559);
  expect([small.note, small.write(0.00559), small.write(-0.00097), small.write(0)]).toEqual(["× 10⁻³", "5.59", "−0.97", "0.00"]);
  expect([commonExponent(5.09e-5).note, commonExponent(5.09e-5).write(5.09e-5)]).toEqual(["× 10⁻⁶", "50.9"]);
  expect([commonExponent(0.514).note, commonExponent(0.514).write(0.514), commonExponent(0).write(0)]).toEqual(["", "0.514", "0.00"]);
  const share = new ShareFormat(1, true);
  expect([share.share(-1e-6), share.share(1e-6), share.share(0.02)]).toEqual(["> −0.01 %", "< +0.01 %", "+2.0 %"]);
});

it("shows what cannot be seen by its code point and shortens what is long", () => {
  expect(visible("\u200b")).toBe("U+200B");
  expect(visible("a\u0301")).toBe("a\u0301");
  expect(shortened("x".repeat(100_000)).length).toBeLessThan(70);
  expect(shortened("one two three four five six", 20)).toBe("one two … five six");
  expect(shortened("abcdefghijklmnopqrstuvwxyz", 12)).toBe("abcde … vwxyz");
  expect(plural(1, "word") + plural(1234, "word")).toBe("1 word1,234 words");
});
