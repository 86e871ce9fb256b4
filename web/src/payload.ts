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
  /** Of a class the probability is known; a contrast or a single output has a value only. */
  target: { name: string; label: string; description: string; is_class: boolean };
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
  /** Whether so much of the explained number is in no score that only the order of the words can be relied on. */
  order_only?: boolean;
  /** What deleting words showed; null where nobody asked. */
  check?: CheckData | null;
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
  /** Documents that the model read for the check. */
  calls?: number;
  /** The words that were tested together. */
  named?: TestedWord[];
  smallest_set?: SmallestSet | null;
}

/** A word that was deleted for a test, by the positions of its tokens. */
export interface TestedWord {
  text: string;
  tokens: number[];
}

/** The fewest of the strongest words without which the answer changes. */
export interface SmallestSet {
  words: TestedWord[];
  label: string;
  /** Of `label` without them. */
  probability: number;
  share: number;
  random_changed: number;
  random_sets: number;
  random_words: number;
}

/** What the model said: the log-odds of the explained class (the value of a single output), its answer, and probabilities. */
export interface Reading {
  value: number;
  label: string;
  label_probability: number;
  /** Of the explained class. */
  probability: number;
}

/** What was measured of one explanation: K sizes of sets of words, R random sets of each. */
export interface CheckData {
  words: number;
  counts: number[];
  whole: Reading;
  without: Reading[];
  /** R × K values of `Reading.value`. */
  random: number[][];
  searched: number;
  /** Number of strongest words deleted, and what the model then said. */
  path: [count: number, reading: Reading][];
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
