import { describe, expect, it } from "vitest";
import { edited, editsBetween, nameOf, readTrials } from "../src/edits";

const TEXT = "The film is charming, but the ending is dull and far too long.";

describe("edits", () => {
  it.each([
    ["a word taken out", "The film is charming, but the ending is and far too long."],
    ["a word replaced", "The film is charming, but the ending is bright and far too long."],
    ["a word added", "The new film is charming, but the ending is dull and far too long."],
    ["several changes", "A film was charming, and the ending dull."],
    ["nothing left", ""],
    ["nothing changed", TEXT],
    ["signs of other scripts", "Der Film ist 好看, 😀 but dull\n\nand long."],
  ])("lead from one text to the other: %s", (_, after) => {
    expect(edited([TEXT, "second"], editsBetween([TEXT, "second"], [after, "second text"]))).toEqual([after, "second text"]);
  });

  it("keep what both texts have", () => {
    expect(editsBetween(["a b c d e"], ["a x c e"])).toEqual([[0, 2, 3, "x"], [0, 5, 7, ""]]);
    expect(editsBetween(["same"], ["same"])).toEqual([]);
  });

  it("count as one where the texts are too long and too different", () => {
    const words = (name: string) => Array.from({ length: 1500 }, (_, i) => `${name}${i}`).join(" ");
    const edits = editsBetween([`start ${words("a")} end`], [`start ${words("b")} end`]);
    expect(edits).toEqual([[0, 6, 6 + words("a").length, words("b")]]);
  });

  it("are named by their words", () => {
    const name = (after: string) => nameOf([TEXT], editsBetween([TEXT], [after]));
    expect(name(TEXT.replace("dull and ", ""))).toBe("without “dull and”");
    expect(name(TEXT.replace("dull", "bright").replace("The film", "The new film"))).toBe("“dull” → “bright”; with “new”");
    expect(name(TEXT)).toBe("no word changed");
  });

  it("in an address are left out where they do not fit the texts", () => {
    const fitting = [[[0, 0, 3, "A"]], [[1, 0, 0, "x"]]];
    expect(readTrials(JSON.stringify(fitting), [TEXT, "b"])).toEqual(fitting);
    for (const wrong of ["", "{", "3", "[[[0,0,99,\"\"]]]", "[[[2,0,0,\"\"]]]", "[[[0,2,1,\"\"]]]", "[[[0,0,1]]]", "[[[0,0.5,1,\"\"]]]", "[[[0,0,1,5]]]"]) {
      expect(readTrials(wrong, [TEXT, "b"])).toEqual([]);
    }
  });
});
