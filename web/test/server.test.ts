// The page of the server, as far as it can be tested without a browser: history, uploads, typed option values.

import { beforeEach, describe, expect, it } from "vitest";
import type { ExplainRequest } from "../src/server/api";
import { parseValue } from "../src/server/form";
import * as memory from "../src/server/history";
import { decodeText, fileName, textOf } from "../src/server/upload";

class MemoryStorage implements Storage {
  [name: string]: unknown;
  get length(): number {
    return Object.keys(this).length;
  }
  clear(): void {
    for (const key of Object.keys(this)) delete this[key];
  }
  key(index: number): string | null {
    return Object.keys(this)[index] ?? null;
  }
  getItem(key: string): string | null {
    return Object.hasOwn(this, key) ? (this[key] as string) : null;
  }
  setItem(key: string, value: string): void {
    this[key] = value;
  }
  removeItem(key: string): void {
    delete this[key];
  }
}

const request = (text: string, pair: string | null = null): ExplainRequest => ({
  text,
  pair,
  continuation: null,
  max_new_tokens: null,
  model: "built-in",
  methods: ["attcat"],
  target: null,
  quantity: null,
  seed: null,
  check: true,
  options: {},
});

describe("history", () => {
  let local: MemoryStorage;
  let session: MemoryStorage;
  beforeEach(() => {
    local = new MemoryStorage();
    session = new MemoryStorage();
  });

  it("keeps titles and settings, the latest first, and never a text", () => {
    memory.remember("a", request("Title\nsecret body"), 1, local);
    memory.remember("b", request("\n\n  Other  \nsecret body"), 2, local);
    expect(memory.entries(local).map((one) => [one.id, one.title, one.when])).toEqual([["b", "Other", 2], ["a", "Title", 1]]);
    expect(JSON.stringify(local)).not.toContain("secret");
  });

  it("is bounded, forgets one or all, and finds texts of this tab by their fingerprint", () => {
    for (let i = 0; i < 50; i++) memory.remember(String(i), request(`text ${i}`), i, local);
    expect(memory.entries(local)).toHaveLength(30);
    memory.forget("49", local);
    const [first] = memory.entries(local);
    expect(first.id).toBe("48");
    expect(memory.textsOf(first, session)).toBeNull();
    memory.keepTexts(request("text 48"), session);
    expect(memory.textsOf(first, session)).toEqual({ text: "text 48", pair: null, continuation: null });
    memory.forgetAll(local, session);
    expect([memory.entries(local), memory.textsOf(first, session)]).toEqual([[], null]);
  });

  it.each(["", "{", "3", '[{"id": 1}]', '[null, "x", {"id": "a"}]'])("starts anew from %j", (damaged) => {
    local.setItem("sightline.history", damaged);
    expect(memory.entries(local)).toEqual([]);
  });

  it("shortens titles by characters, not halves of them", () => {
    expect(memory.titleOf("🎉".repeat(100))).toBe("🎉".repeat(59) + "…");
    expect(memory.titleOf(" \n ")).toBe("");
  });

  it("tells texts, pairs and continuations apart", () => {
    const hashes = [memory.hashOf("ab", null), memory.hashOf("ba", null), memory.hashOf("a", "b"), memory.hashOf("ab", ""), memory.hashOf("a", null, "b")];
    expect(new Set(hashes).size).toBe(5);
    expect(memory.hashOf("ab", null)).toBe(hashes[0]);
    expect(hashes[0]).toMatch(/^[0-9a-f]{16}$/);
  });
});

describe("uploads", () => {
  const bytes = (...values: number[]) => new Uint8Array(values);

  it("reads UTF-8 and takes off a byte-order mark", () => {
    expect(decodeText(new TextEncoder().encode("\ufeffhello שלום 🎉"), "a")).toBe("hello שלום 🎉");
  });

  it.each([
    [bytes(0xff, 0xfe, 0x61, 0x00), "UTF-16"],
    [bytes(0x89, 0x50, 0x4e, 0x47), "not a text file"],
    [bytes(0x61, 0x00, 0x62), "NUL"],
    [bytes(), "empty"],
  ])("refuses %s with a sentence", (content, word) => {
    expect(() => decodeText(content, "picture.png")).toThrow(word);
    expect(() => decodeText(content, "picture.png")).toThrow("picture.png");
  });

  it("refuses what is too large, before and after reading it", async () => {
    await expect(textOf(new File(["x".repeat(50)], "a"), 10)).rejects.toThrow("at most 10 characters");
    await expect(textOf(new File(["x".repeat(11)], "a"), 10)).rejects.toThrow("has 11 characters");
    await expect(textOf(new File(["🎉".repeat(10)], "a"), 10)).resolves.toBe("🎉".repeat(10));
  });
});

describe("option values", () => {
  it.each([
    ["3", 3],
    ["true", true],
    ["null", null],
    ["max", "max"],
    ["0.5, 1", [0.5, 1]],
    ["[1]", [1]],
    ['"3"', "3"],
  ])("%s means %j", (typed, value) => {
    expect(parseValue(typed)).toEqual(value);
  });
});

describe("downloads", () => {
  it("are named after the title, whatever its characters", () => {
    expect(fileName("The compiler: types & terms …", "html")).toBe("The-compiler-types-terms.html");
    expect(fileName("../../etc/passwd", "json")).toBe("etc-passwd.json");
    expect(fileName("… / …", "json")).toBe("explanation.json");
    expect(fileName("漢字 und Wörter", "html")).toBe("漢字-und-Wörter.html");
    expect(fileName("a".repeat(200), "html")).toBe(`${"a".repeat(40)}.html`);
  });
});
