// The page of the server, as far as it can be tested without a browser: history, typed option values, names of downloads.

import { beforeEach, describe, expect, it } from "vitest";
import type { ExplainRequest } from "../src/server/api";
import { parseValue } from "../src/server/form";
import * as memory from "../src/server/history";
import { fileName } from "../src/server/file_name";

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
