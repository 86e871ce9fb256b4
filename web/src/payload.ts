// What the view is given, as JSON. The contract is docs/guides/page-data.md; sightline/view/page/payload.py writes it.

export const LEVELS = ["token", "word", "sentence", "paragraph"] as const;
export type Level = (typeof LEVELS)[number];

export interface Payload {
  format: "sightline-page";
  version: 1;
  title: string;
  document: DocumentData;
  explanations: ExplanationData[];
  inside: InsideData | null;
  /** For several methods of one target: how many words each of them names, and how many words the document has. */
  consensus?: { k: number; words: number } | null;
  curves: Curve[];
  colours: { levels: number; gamma: number; clipped: number };
  /** Model, version and date, for print. */
  made?: { model: string; version: string; date: string };
  arrays: Record<string, ArrayInfo>;
  /** What a server or a notebook computes on demand. */
  live?: { relations?: boolean; tiles?: boolean; predict?: boolean };
}

export interface DocumentData {
  tokens: number;
  dropped: number;
  segments: { name: string; text: string; read: number }[];
  specials: [position: number, name: string][];
  /** Of a document longer than the model reads: its windows, and how they make one prediction. */
  windows?: WindowData[];
  aggregation?: "mean" | "max" | "first";
}

/** One window: its characters in a segment, how much it counts, and what it predicts by itself. */
export interface WindowData {
  segment: number;
  start: number;
  end: number;
  share: number;
  label?: string;
  probability?: number;
}

export interface ExplanationData {
  method: string;
  /** The method's name for people. */
  title?: string;
  summary: string;
  formula?: string;
  signed: boolean;
  /** How scores by layer relate to the scores. */
  layer_kind?: "additive" | "averaged" | "cumulative" | "separate" | null;
  target: { name: string; label: string; description: string };
  /** A model of one output (a regression, a similarity) has a value, which stands in place of its probability. */
  prediction: { label: string; probability: number; value?: string | null; classes: [label: string, probability: number][] };
  /** The sentence to quote; parts with a token are phrases of the document. */
  headline?: { text: string; token?: number }[];
  /** Tokens of words whose score belongs to their position, and what that means. */
  artefacts?: [position: number, meaning: string][];
  notices: string[];
  verdict: VerdictData;
  /** What the verdict does not say. */
  checks: string[];
  /** What the check measured: the probability without the strongest words, and without random ones. */
  /** `random` is the mean of so many `orders`; `empty` the probability without any word, null if unknown. */
  removal?: { words: number[]; shares: number[]; probabilities: number[]; random: number[]; orders: number; empty: number | null } | null;
  facts: [name: string, value: string][];
}

/** How far to trust an explanation, as sightline/view/words/sentences.py judges. */
export interface VerdictData {
  level: "holds" | "weak" | "poor" | "unchecked";
  words: string;
  /** What the level means for a reader; empty where the sentences say so. */
  meaning: string;
  /** What was measured. */
  sentences: string[];
  warning?: string;
}

export interface InsideData {
  layers: number;
  heads: number;
  k: number;
  thumbnail: number;
  image: number;
  /** Farthest distance in the window of each layer, where windows are stored straightened. */
  reach?: number[];
}

export interface Curve {
  name: string;
  x: string;
  y: string;
  series: CurveSeries[];
  /** What the plot shows, in sentences. */
  notes?: string[];
  /** How it was measured. */
  footnote?: string;
}

export interface CurveSeries {
  name: string;
  x: number[];
  y: number[];
  low?: number[];
  high?: number[];
}

export type Dtype = "uint8" | "uint16" | "int32" | "float16" | "float32";

export interface ArrayInfo {
  dtype: Dtype;
  shape: number[];
  scale?: number;
  data?: string;
}

/** Bits of `tokens.flags`. */
export const FLAG = { special: 1, stopWord: 2, punctuation: 4, artefact: 8 } as const;

/** Refuse what this view cannot draw, with a sentence. */
export function checked(value: unknown): Payload {
  const payload = value as Payload;
  if (typeof value !== "object" || value === null || payload.format !== "sightline-page") {
    throw new Error("The data is not that of a Sightline page.");
  }
  if (payload.version !== 1) {
    throw new Error(`The data has version ${String(payload.version)}; this page reads version 1.`);
  }
  return payload;
}
