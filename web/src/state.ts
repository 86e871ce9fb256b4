// All settings of the page, and their form in the address: `#method=rollout&level=token`, without defaults.

import { LEVELS, type Level, type Payload } from "./payload";
import type { ScaleKind } from "./scale";

export const HIDABLE = ["specials", "stopwords", "punctuation"] as const;
export type Hidable = (typeof HIDABLE)[number];
export const LINKS = ["both", "attended", "attending", "none"] as const;
export type Links = (typeof LINKS)[number];
/** What has the strongest colour: the explanation as a whole, all classes and layers, or the selected layers. */
export const RANGES = ["relative", "absolute", "selection"] as const;
export type Range = (typeof RANGES)[number];

/** A pseudo-method for `method` and `compare`: the attention that each token receives. */
export const ATTENTION = "attention";

export interface State {
  /** The name of a view, from the table in views.tsx. */
  view: string;
  method: string;
  target: string;
  level: Level;
  /** Selected layers and heads; empty for all. */
  layers: number[];
  heads: number[];
  scale: ScaleKind;
  gamma: number;
  range: Range;
  /** Words below this share of the strongest score are not coloured, 0 … 1. */
  threshold: number;
  hide: Hidable[];
  /** The text itself, or its outline. */
  layout: "text" | "outline";
  /** What lists of words hold: words with content, or also stop words, punctuation and artefacts. */
  list: "content" | "all";
  /** Method shown next to the first, or empty. */
  compare: string;
  /** First token of the selected unit. */
  unit: number | null;
  find: string;
  /** First tokens of the words taken out of the text; null for the smallest set that was found. */
  without: number[] | null;
  /** Edits of the texts that were tried, as JSON, the latest first (edits.ts): a link brings them back. */
  trials: string;
  /** The opened head. */
  head: [layer: number, head: number] | null;
  links: Links;
}

export function initialState(payload: Payload): State {
  const first = payload.explanations[0];
  return {
    view: "text",
    method: first.method,
    target: first.target.name,
    level: "word",
    layers: [],
    heads: [],
    scale: "gamma",
    gamma: payload.colours.gamma,
    range: "relative",
    threshold: 0,
    hide: ["specials"],
    layout: "text",
    list: "content",
    compare: "",
    unit: null,
    find: "",
    without: null,
    trials: "",
    head: null,
    links: "both",
  };
}

/** The names of everything that can be coloured: the methods, and attention where it was recorded. */
export function readingNames(payload: Payload): string[] {
  const methods = [...new Set(payload.explanations.map((one) => one.method))];
  return Object.hasOwn(payload.arrays, "received") ? [...methods, ATTENTION] : methods;
}

export function toHash(state: State, payload: Payload): string {
  const start = initialState(payload);
  const written = new URLSearchParams();
  for (const name of Object.keys(start) as (keyof State)[]) {
    const value = text(state[name]);
    if (value !== text(start[name])) written.set(name, value);
  }
  return written.toString();
}

function text(value: State[keyof State]): string {
  if (value === null) return "";
  if (Array.isArray(value)) return value.join(",") || "none";
  return typeof value === "number" ? String(Number(value.toFixed(4))) : value;
}

/** The state that an address describes; values that do not fit the document are ignored. `views` are the known views. */
export function fromHash(hash: string, payload: Payload, views: readonly string[]): State {
  const state = initialState(payload);
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const one = <T extends string>(name: string, known: readonly T[], fallback: T): T => {
    const value = given.get(name) as T | null;
    return value !== null && known.includes(value) ? value : fallback;
  };
  const number = (name: string, low: number, high: number, fallback: number): number => {
    const value = Number(given.get(name) ?? NaN);
    return value >= low && value <= high ? value : fallback;
  };
  const numbers = (name: string, limit: number): number[] =>
    (given.get(name) || "")
      .split(",")
      .filter((part) => /^\d+$/.test(part) && Number(part) < limit)
      .map(Number);
  const { inside } = payload;
  const readings = readingNames(payload);
  state.view = one("view", views, state.view);
  state.method = one("method", readings, state.method);
  state.target = one("target", payload.explanations.map((each) => each.target.name), state.target);
  state.level = one("level", LEVELS, state.level);
  state.layers = numbers("layers", layerCount(payload));
  state.heads = numbers("heads", inside?.heads ?? 0);
  state.scale = one("scale", ["gamma", "quantile"], state.scale);
  state.gamma = number("gamma", 0.1, 4, state.gamma);
  state.range = one("range", RANGES, state.range);
  state.threshold = number("threshold", 0, 1, state.threshold);
  if (given.has("hide")) state.hide = HIDABLE.filter((name) => given.get("hide")!.split(",").includes(name));
  state.layout = one("layout", ["text", "outline"], state.layout);
  state.list = one("list", ["content", "all"], state.list);
  state.compare = one("compare", readings, "");
  const unit = given.get("unit") ? number("unit", 0, payload.document.tokens - 1, -1) : -1;
  state.unit = Number.isInteger(unit) && unit >= 0 ? unit : null;
  state.find = given.get("find") ?? "";
  if (given.has("without")) state.without = numbers("without", payload.document.tokens);
  state.trials = given.get("trials") ?? "";
  const head = (given.get("head") ?? "").split(",").map(Number);
  const known = inside && head.length === 2 && head[0] < inside.layers && head[1] < inside.heads;
  if (known && head.every((part) => Number.isInteger(part) && part >= 0)) state.head = [head[0], head[1]];
  state.links = one("links", LINKS, state.links);
  return state;
}

/** Number of layers, from the recorded attention or from scores per layer. */
export function layerCount(payload: Payload): number {
  if (payload.inside) return payload.inside.layers;
  const layered = payload.explanations.map((_, number) => payload.arrays[`layers.${number}`]?.shape[0] ?? 0);
  return Math.max(0, ...layered);
}
