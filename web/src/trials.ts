// Trials: the document without some words, or edited, run through the model again. A server and a notebook can do that; a page
// that is one file cannot.

import { useState } from "preact/hooks";
import { plural } from "./format";
import type { Page } from "./hooks";
import type { EditedPrediction } from "./source";

/** Characters of a segment. */
export interface Range {
  segment: number;
  start: number;
  end: number;
}

export interface Trial {
  change: string;
  text: string;
  pair: string | null;
  prediction: EditedPrediction;
}

/** Trials of this page, and a function that runs one. */
export interface Trials {
  list: Trial[];
  running: boolean;
  error: string;
  run(texts: string[], change?: string): void;
}

export function useTrials({ source }: Pick<Page, "source">): Trials {
  const [list, setList] = useState<Trial[]>([]);
  const [running, setRunning] = useState(false);
  const [error, setError] = useState("");
  const run = (texts: string[], change?: string) => {
    if (!source.predict || running) return;
    const [text, pair = null] = texts;
    setRunning(true);
    setError("");
    source.predict(text, pair).then(
      (prediction) => {
        setRunning(false);
        setList((now) => [{ change: change ?? describeChange(originalTexts(source), texts), text, pair, prediction }, ...now]);
      },
      (reason: unknown) => {
        setRunning(false);
        setError(reason instanceof Error ? reason.message : String(reason));
      },
    );
  };
  return { list, running, error, run };
}

export function originalTexts(source: Page["source"]): string[] {
  return source.payload.document.segments.map(({ text }) => text);
}

/** The texts without the characters of some units. */
export function withoutUnits(source: Page["source"], ranges: Range[]): string[] {
  return originalTexts(source).map((text, segment) =>
    ranges
      .filter((one) => one.segment === segment)
      .sort((a, b) => b.start - a.start)
      .reduce((left, { start, end }) => left.slice(0, start) + left.slice(end).replace(/^[^\S\n]/, ""), text),
  );
}

/** "3 words removed, 1 word added": how many words only one of the two texts has. */
export function describeChange(before: string[], after: string[]): string {
  const words = (texts: string[]) => texts.join(" ").split(/\s+/).filter(Boolean);
  const left = new Map<string, number>();
  for (const word of words(before)) left.set(word, (left.get(word) ?? 0) + 1);
  let added = 0;
  for (const word of words(after)) {
    const rest = left.get(word) ?? 0;
    if (rest) left.set(word, rest - 1);
    else added++;
  }
  const removed = [...left.values()].reduce((sum, one) => sum + one, 0);
  const parts = [removed && `${plural(removed, "word")} removed`, added && `${plural(added, "word")} added`].filter(Boolean);
  return parts.join(", ") || "no word changed";
}

/** "−0.1 points": how far a probability moved. */
export function difference(change: number): string {
  const points = 100 * change;
  return `${points > 0 ? "+" : points < 0 ? "−" : ""}${Math.abs(points).toFixed(1)} points`;
}
