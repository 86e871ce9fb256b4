import { describe, expect, it } from "vitest";
import { NumberFormat, percent, plainNumber, plural, ranges, shortened, signedNumber, visible } from "../src/format";

describe("numbers", () => {
  it("have three digits and a true minus sign", () => {
    expect([0.31234, -12345.6, 0, 1.2e-5, -4e7].map(signedNumber)).toEqual(["+0.312", "−12300", "0", "+1.2e-5", "−4.0e+7"]);
    expect(plainNumber(-0.5)).toBe("−0.5");
  });

  it("are shown in one power of ten when they are tiny", () => {
    const format = new NumberFormat(4.2e-4, true);
    expect(format.full(4.2e-4)).toBe("+4.2 × 10⁻⁴");
    expect(format.full(-6.2e-8)).toBe("−6.2 × 10⁻⁸");
    expect(format.value(4.2e-4)).toBe("+4.2");
    expect(new NumberFormat(5e4, false).full(2)).toBe("2");
    expect(new NumberFormat(0.5, false).full(0.25)).toBe("0.25");
    expect(new NumberFormat(0, true).full(0)).toBe("0");
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

it("shows what cannot be seen by its code point and shortens what is long", () => {
  expect(visible("\u200b")).toBe("U+200B");
  expect(visible("a\u0301")).toBe("a\u0301");
  expect(shortened("x".repeat(100_000)).length).toBeLessThan(70);
  expect(plural(1, "word") + plural(1234, "word")).toBe("1 word1,234 words");
});

it("a power of ten is explained where scores are shown in one", () => {
  expect(new NumberFormat(0.00042, true).explained).toBe("Scores are shown in units of 0.0001: 2 means 2 × 10⁻⁴.");
  expect(new NumberFormat(4200, true).explained).toBe("Scores are shown in units of 1000: 2 means 2 × 10³.");
  expect(new NumberFormat(4.2e-9, false).explained).toBe("Scores are shown in units of 1e-9: 2 means 2 × 10⁻⁹.");
  expect(new NumberFormat(0.42, true).explained).toBeUndefined();
});
