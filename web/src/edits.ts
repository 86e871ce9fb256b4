// Edits: what was changed in the texts of the document, word by word. They name a trial, stand in its address, and are drawn.

import { shortened } from "./format";

/** Characters [start, end) of a segment, and what stands there instead. */
export type Edit = [segment: number, start: number, end: number, text: string];

/** Texts with more changed pairs of words than this have one edit, from the first change to the last. */
const MOST_PAIRS = 4_000_000;
const LONGEST_NAME = 60;

/** The edits that turn the texts `before` into `after` and keep as many words as possible (a longest common subsequence). */
export function editsBetween(before: string[], after: string[]): Edit[] {
  return before.flatMap((text, segment) => segmentEdits(segment, text, after[segment] ?? ""));
}

function segmentEdits(segment: number, before: string, after: string): Edit[] {
  const [a, b] = [pieces(before), pieces(after)];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < Math.min(a.length, b.length) - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const [left, right] = [a.slice(head, a.length - tail), b.slice(head, b.length - tail)];
  const edits: Edit[] = [];
  let at = a.slice(0, head).join("").length;
  let [i, j] = [0, 0];
  for (const [keptLeft, keptRight] of [...keptPairs(left, right), [left.length, right.length]]) {
    const removed = left.slice(i, keptLeft).join("");
    const added = right.slice(j, keptRight).join("");
    if (removed || added) edits.push([segment, at, at + removed.length, added]);
    at += removed.length + (left[keptLeft]?.length ?? 0);
    [i, j] = [keptLeft + 1, keptRight + 1];
  }
  return edits;
}

/** Words, blanks and single signs. */
function pieces(text: string): string[] {
  return text.match(/[\p{L}\p{M}\p{N}_]+|\s+|[^]/gu) ?? [];
}

/** The places (i, j) of a longest common subsequence, in order. */
function keptPairs(left: string[], right: string[]): [number, number][] {
  const [rows, columns] = [left.length, right.length];
  if (rows * columns > MOST_PAIRS) return [];
  // longest[i * (columns + 1) + j]: of left from i on and right from j on.
  const longest = new Uint32Array((rows + 1) * (columns + 1));
  const place = (i: number, j: number) => i * (columns + 1) + j;
  for (let i = rows - 1; i >= 0; i--) {
    for (let j = columns - 1; j >= 0; j--) {
      longest[place(i, j)] = left[i] === right[j] ? longest[place(i + 1, j + 1)] + 1 : Math.max(longest[place(i + 1, j)], longest[place(i, j + 1)]);
    }
  }
  const kept: [number, number][] = [];
  for (let i = 0, j = 0; i < rows && j < columns; ) {
    if (left[i] === right[j]) kept.push([i++, j++]);
    else if (longest[place(i + 1, j)] >= longest[place(i, j + 1)]) i++;
    else j++;
  }
  return kept;
}

/** The texts after the edits. */
export function edited(before: string[], edits: Edit[]): string[] {
  return before.map((text, segment) => {
    let [result, at] = ["", 0];
    for (const [, start, end, added] of editsOf(edits, segment)) {
      result += text.slice(at, start) + added;
      at = end;
    }
    return result + text.slice(at);
  });
}

/** The edits of one segment, in order. */
export function editsOf(edits: Edit[], segment: number): Edit[] {
  return edits.filter((edit) => edit[0] === segment).sort((a, b) => a[1] - b[1]);
}

/** "without “dull”, “far”; “long” → “short”; with “new”": the changes by their words. */
export function nameOf(before: string[], edits: Edit[]): string {
  const changes = edits.map(([segment, start, end, added]) => [before[segment].slice(start, end).trim(), added.trim()]);
  const listed = (words: string[]) => words.map((word) => `“${shortened(word, 24)}”`).join(", ");
  const removed = changes.flatMap(([old, added]) => (old && !added ? [old] : []));
  const added = changes.flatMap(([old, added]) => (added && !old ? [added] : []));
  const replaced = changes.flatMap(([old, added]) => (old && added ? [`${listed([old])} → ${listed([added])}`] : []));
  const parts = [removed.length && `without ${listed(removed)}`, ...replaced, added.length && `with ${listed(added)}`];
  return shortened(parts.filter(Boolean).join("; ") || "no word changed", LONGEST_NAME);
}

/** Trials in the address; whatever does not fit the texts is left out. */
export function readTrials(written: string, before: string[]): Edit[][] {
  try {
    const trials = JSON.parse(written || "[]") as unknown;
    return Array.isArray(trials) ? trials.filter((trial): trial is Edit[] => Array.isArray(trial) && trial.every((edit) => fits(edit, before))) : [];
  } catch {
    return [];
  }
}

function fits(edit: unknown, before: string[]): boolean {
  if (!Array.isArray(edit) || edit.length !== 4 || typeof edit[3] !== "string") return false;
  const [segment, start, end] = edit as number[];
  if (![segment, start, end].every(Number.isInteger)) return false;
  return segment >= 0 && segment < before.length && start >= 0 && start <= end && end <= before[segment].length;
}
