// Trials: the document without some words, or edited, run through the model again. A server and a notebook can do that; a page
// that is one file cannot. The address holds what was changed, so that a link or a reload brings the trials back; what the
// model says is asked again.

import { useEffect, useMemo, useState } from "preact/hooks";
import { edited, editsBetween, nameOf, readTrials, type Edit } from "./edits";
import type { Page } from "./hooks";
import type { EditedPrediction } from "./source";

/** Characters of a segment. */
export interface Range {
  segment: number;
  start: number;
  end: number;
}

export interface Trial {
  edits: Edit[];
  /** The change by its words. */
  change: string;
  /** Null until the model has answered. */
  prediction: EditedPrediction | null;
}

/** Trials of this page, the latest first, and a function that runs one. */
export interface Trials {
  list: Trial[];
  running: boolean;
  error: string;
  run(texts: string[]): void;
  of(texts: string[]): Trial | undefined;
}

export function useTrials({ source, state, set }: Page): Trials {
  const [answers, keep] = useState(new Map<string, EditedPrediction>());
  const [error, setError] = useState("");
  const originals = useMemo(() => originalTexts(source), [source]);
  const tried = useMemo(() => (source.predict ? readTrials(state.trials, originals) : []), [source, state.trials]);
  const waiting = tried.find((edits) => !answers.has(JSON.stringify(edits)));
  const asked = JSON.stringify(waiting);
  useEffect(() => {
    if (!waiting) return;
    let wanted = true;
    const [text, pair = null] = edited(originals, waiting);
    source.predict!(text, pair, null).then(
      (answer) => wanted && keep((now) => new Map(now).set(asked, answer)),
      (reason: unknown) => {
        if (!wanted) return;
        setError(reason instanceof Error ? reason.message : String(reason));
        set({ trials: JSON.stringify(tried.filter((edits) => edits !== waiting)) });
      },
    );
    return () => void (wanted = false);
  }, [source, asked]);
  const list = tried.map((edits) => ({ edits, change: nameOf(originals, edits), prediction: answers.get(JSON.stringify(edits)) ?? null }));
  const find = (edits: Edit[]) => list.find((trial) => JSON.stringify(trial.edits) === JSON.stringify(edits));
  return {
    list,
    running: waiting !== undefined,
    error,
    of: (texts) => (list.length ? find(editsBetween(originals, texts)) : undefined),
    run: (texts) => {
      const made = editsBetween(originals, texts);
      const known = find(made)?.edits;
      setError("");
      set({ trials: JSON.stringify([made, ...tried.filter((edits) => edits !== known)]) });
    },
  };
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

/** "−0.1 points": how far a probability moved. */
export function difference(change: number): string {
  const points = 100 * change;
  return `${points > 0 ? "+" : points < 0 ? "−" : ""}${Math.abs(points).toFixed(1)} points`;
}
