// A reading: one list of token scores that can be shown in colour. A method for a target, or the attention received.

import type { Numbers } from "./arrays";
import type { DocumentModel, Units } from "./document";
import { ShareFormat } from "./format";
import { FLAG, type ExplanationData, type Level, type Payload } from "./payload";
import { order, peaks, ranks } from "./ranking";
import { makeScale, reference, type Scale } from "./scale";
import { ATTENTION, type Hidable, type State } from "./state";

export interface Reading {
  name: string;
  /** The name for people. */
  title: string;
  /** What blue (or violet) words speak for. */
  label: string;
  signed: boolean;
  /** Number of the explanation; null for attention. */
  explanation: number | null;
}

/** The reading of a name: for the target asked for where the method has it, else for the method's first. */
export function readingOf(payload: Payload, name: string, target: string): Reading {
  if (name === ATTENTION) return { name, title: "Attention", label: "attention received", signed: false, explanation: null };
  const own = payload.explanations.flatMap((one, number) => (one.method === name ? [number] : []));
  const number = own.find((each) => payload.explanations[each].target.name === target) ?? own[0] ?? 0;
  const { signed, target: explained } = payload.explanations[number];
  return { name, title: titleOf(payload, name), label: explained.label, signed, explanation: number };
}

/** What a method is called for people. */
export function titleOf(payload: Payload, name: string): string {
  if (name === ATTENTION) return "Attention";
  return payload.explanations.find((one) => one.method === name)?.title || name;
}

export function explanationOf(payload: Payload, reading: Reading): ExplanationData {
  return payload.explanations[reading.explanation ?? 0];
}

/** First tokens of the words that were tested together: the smallest set, or those that a summary names. */
export function decidingTokens({ source: { payload } }: { source: { payload: Payload } }, { reading }: { reading: Reading }): number[] {
  if (reading.explanation === null) return [];
  const { smallest_set: found, named } = payload.explanations[reading.explanation].verdict;
  return (found?.words ?? named ?? []).map(({ tokens }) => tokens[0]);
}

/** The array (L, n) with the reading by layers, if it has one. */
export function layersArray(payload: Payload, reading: Reading): string | null {
  const name = reading.explanation === null ? "received" : `layers.${reading.explanation}`;
  return Object.hasOwn(payload.arrays, name) ? name : null;
}

/** The optional array that the choice of layers and heads needs, or null. */
export function neededArray(payload: Payload, reading: Reading, state: State): string | null {
  if (reading.explanation === null) {
    const byHead = state.heads.length > 0 && Object.hasOwn(payload.arrays, "received.heads");
    return byHead ? "received.heads" : "received";
  }
  return state.layers.length ? layersArray(payload, reading) : null;
}

/** Scores of the tokens (n,) for the layers and heads chosen; `needed` is what `neededArray` named. */
export function tokenScores(
  payload: Payload,
  model: DocumentModel,
  reading: Reading,
  state: State,
  needed: Numbers | null,
): ArrayLike<number> {
  const n = model.data.tokens;
  if (!needed) return reading.explanation === null ? new Float32Array(n) : model.scores[reading.explanation];
  const layers = state.layers.length ? state.layers : every(payload.inside?.layers ?? needed.length / n);
  const byHead = reading.explanation === null && payload.inside !== null && needed.length > n * payload.inside.layers;
  // (L, n) for methods and attention by layer; (L, H, n) where single heads are asked for.
  const additive = reading.explanation !== null && payload.explanations[reading.explanation].layer_kind === "additive";
  const rows = byHead ? layers.flatMap((layer) => state.heads.map((head) => layer * payload.inside!.heads + head)) : layers;
  return sumOfRows(needed, n, rows, additive ? 1 : 1 / rows.length);
}

/** Scores of the tokens (n,) that set the colours of the whole explanation, or null if they are the scores themselves. */
export function wholeScores(
  payload: Payload,
  model: DocumentModel,
  reading: Reading,
  state: State,
  needed: Numbers | null,
): ArrayLike<number>[] | null {
  if (!needed || (!state.layers.length && !state.heads.length)) return null;
  const n = model.data.tokens;
  if (reading.explanation === null) return [sumOfRows(needed, n, every(needed.length / n), n / needed.length)];
  // Separate layers have no whole: the strongest layer sets the colours.
  if (payload.explanations[reading.explanation].layer_kind === "separate") return rowsOf(needed, n);
  return [model.scores[reading.explanation]];
}

/** One list of token scores a layer. */
export function rowsOf(values: Numbers, n: number): Numbers[] {
  return every(values.length / n).map((row) => values.subarray(row * n, (row + 1) * n));
}

function every(length: number): number[] {
  return Array.from({ length }, (_, i) => i);
}

function sumOfRows(values: Numbers, n: number, rows: number[], factor: number): Float32Array {
  const found = new Float32Array(n);
  for (const row of rows) for (let i = 0; i < n; i++) found[i] += values[row * n + i] * factor;
  return found;
}

/** Everything that is drawn of a reading: scores, ranks and steps of colour of every unit. */
export interface Picture {
  reading: Reading;
  units: Units;
  /** The scores of the tokens. */
  tokens: ArrayLike<number>;
  scores: Float64Array;
  /** 1 where a unit counts, 0 where a filter hides it. */
  shown: Uint8Array;
  /** 1 where a unit is listed: shown, and neither filler nor artefact unless those are asked for. */
  listed: Uint8Array;
  /** Units whose score belongs to their position, and what that means. */
  artefacts: Map<number, string>;
  scale: Scale;
  /** Step of colour with the sign of the score. */
  steps: Int8Array;
  order: number[];
  ranks: Int32Array;
  peaks: number[];
  /** Scores as shares of `wordTotal`, whatever the level, the filters and the selected layers. */
  format: ShareFormat;
}

export function shownUnits(units: Units, hide: Hidable[]): Uint8Array {
  let hidden = 0;
  if (hide.includes("specials")) hidden |= FLAG.special;
  if (hide.includes("stopwords")) hidden |= FLAG.stopWord;
  if (hide.includes("punctuation")) hidden |= FLAG.punctuation;
  const shown = new Uint8Array(units.count);
  for (let unit = 0; unit < units.count; unit++) shown[unit] = units.flags(unit) & hidden ? 0 : 1;
  return shown;
}

const FILLER = FLAG.stopWord | FLAG.punctuation;

/** Tokens and words whose score belongs to their position; for attention those of all explanations. */
export function artefactUnits(payload: Payload, reading: Reading, units: Units): Map<number, string> {
  const found = new Map<number, string>();
  if (units.level !== "token" && units.level !== "word") return found;
  const read = reading.explanation === null ? payload.explanations : [explanationOf(payload, reading)];
  for (const { artefacts } of read) {
    for (const [token, meaning] of artefacts ?? []) if (units.of[token] >= 0) found.set(units.of[token], meaning);
  }
  return found;
}

/** Which of the shown units are listed: all, or only those with content. */
export function listedUnits(units: Units, shown: Uint8Array, list: State["list"], artefacts: Map<number, string>): Uint8Array {
  if (list === "all") return shown;
  return shown.map((one, unit) => (one && !(units.flags(unit) & FILLER) && !artefacts.has(unit) ? 1 : 0));
}

/** Σ|score| over the units of a mask. */
export function totalOf(scores: ArrayLike<number>, mask: Uint8Array): number {
  let total = 0;
  for (let unit = 0; unit < mask.length; unit++) if (mask[unit]) total += Math.abs(scores[unit]);
  return total;
}

/** Σ|score| over the words of the document, special tokens excluded: what every share on the page is a share of. */
export function wordTotal(model: DocumentModel, values: ArrayLike<number>): number {
  const words = model.units("word");
  return totalOf(words.sums(values), shownUnits(words, ["specials"]));
}

export function makePicture(
  payload: Payload,
  model: DocumentModel,
  level: Level,
  reading: Reading,
  values: ArrayLike<number>,
  state: State,
  /** Further lists of token scores that share the colours when the range is absolute. */
  others: ArrayLike<number>[],
  /** The lists of token scores that set the colours of a part of the explanation, see `wholeScores`. */
  wholes: ArrayLike<number>[] | null = null,
): Picture {
  const units = model.units(level);
  const scores = units.sums(values);
  const shown = shownUnits(units, state.hide);
  const counted = scores.filter((_, unit) => shown[unit]);
  const { levels: steps, clipped } = payload.colours;
  const artefacts = artefactUnits(payload, reading, units);
  const listed = listedUnits(units, shown, state.list, artefacts);
  const strongest = (lists: ArrayLike<number>[]) =>
    Math.max(...lists.map((each) => reference(units.sums(each).filter((_, i) => shown[i]), clipped)));
  const full =
    state.range === "absolute" ? strongest([values, ...others])
    : state.range === "relative" && wholes ? strongest(wholes)
    : undefined;
  const ranked = state.range === "relative" && wholes?.length === 1 ? units.sums(wholes[0]).filter((_, i) => shown[i]) : counted;
  const scale = makeScale(ranked, { kind: state.scale, steps, gamma: state.gamma, clipped, full });
  const least = state.threshold * scale.full;
  const drawn = new Int8Array(units.count);
  for (let unit = 0; unit < units.count; unit++) {
    if (!shown[unit]) continue;
    const score = scores[unit];
    if (Math.abs(score) >= least) drawn[unit] = score < 0 ? -scale.step(score) : scale.step(score);
  }
  const ordered = order(scores, shown);
  return {
    reading,
    units,
    tokens: values,
    scores,
    shown,
    listed,
    artefacts,
    scale,
    steps: drawn,
    order: ordered,
    ranks: ranks(ordered, units.count),
    peaks: peaks(ordered.filter((unit) => listed[unit]), scores),
    format: new ShareFormat(wordTotal(model, wholes?.length === 1 ? wholes[0] : values), reading.signed),
  };
}

/** The class that colours a unit, or nothing. */
export function colourClass(step: number, signed: boolean): string {
  if (step === 0) return "";
  return (signed ? (step > 0 ? "for-" : "against-") : "plain-") + Math.abs(step);
}
