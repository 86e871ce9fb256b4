// What if: edit the text, run the model again, and see the new probability beside the old one.
//
// A server and a notebook can run the model. A page that is one file cannot: it shows what the check measured.

import { useMemo, useState } from "preact/hooks";
import { count, percent, plural } from "./format";
import type { Page } from "./hooks";
import { explanationOf } from "./reading";
import type { EditedPrediction } from "./source";
import { WithoutWords } from "./summary";
import type { ViewProperties } from "./views";

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
export function withoutUnits(source: Page["source"], ranges: { segment: number; start: number; end: number }[]): string[] {
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

export function TrialsView({ page, picture, trials }: ViewProperties) {
  const { source } = page;
  const explanation = explanationOf(source.payload, picture.reading);
  const original = useMemo(() => originalTexts(source), [source]);
  const [texts, setTexts] = useState(original);
  if (!source.predict) {
    return (
      <div class="trials">
        <p>
          This file cannot run the model. Below is what the check measured; to edit the text and run the model again, open the
          document with <code>sightline serve</code> or in a notebook.
        </p>
        <WithoutWords explanation={explanation} open />
      </div>
    );
  }
  const { prediction } = explanation;
  const label = prediction.label;
  const share = (classes: { label: string; probability: number }[]) => classes.find((one) => one.label === label)?.probability ?? 0;
  return (
    <div class="trials" onKeyDown={(event) => event.stopPropagation()}>
      <p class="quiet">Delete, replace or add words, then run the model again. The document itself stays as it is.</p>
      {texts.map((text, i) => (
        <textarea
          key={i}
          dir="auto"
          rows={i ? 4 : 14}
          aria-label={source.payload.document.segments[i].name}
          data-control={`edit-${i}`}
          value={text}
          onInput={(event) => {
            const { value } = event.currentTarget;
            setTexts((now) => now.map((one, place) => (place === i ? value : one)));
          }}
        />
      ))}
      <div class="row">
        <span>
          <button type="button" class="primary" data-control="rerun" disabled={trials.running} onClick={() => trials.run(texts)}>
            {trials.running ? "Running …" : "Run the model again"}
          </button>{" "}
          <button type="button" onClick={() => setTexts(original)}>Restore the document</button>
        </span>
        <span class="quiet">{describeChange(original, texts)}</span>
      </div>
      {trials.error && <p class="warning" role="alert">{trials.error}</p>}
      <table class="trial-list" data-section="trials">
        <caption>Probability of “{label}”, which was {percent(prediction.probability)}</caption>
        <thead>
          <tr>
            <th scope="col">change</th>
            <th scope="col">probability</th>
            <th scope="col">difference</th>
            <th scope="col">prediction</th>
            <th scope="col"><span class="unseen">actions</span></th>
          </tr>
        </thead>
        <tbody>
          {trials.list.map((trial, i) => {
            const now = share(trial.prediction.classes);
            return (
              <tr key={trials.list.length - i}>
                <td>{trial.change}</td>
                <td>{percent(now)}</td>
                <td>{difference(now - prediction.probability)}</td>
                <td>{trial.prediction.label}{trial.prediction.label !== label && " (changed)"}</td>
                <td>
                  <button type="button" onClick={() => setTexts(trial.pair === null ? [trial.text] : [trial.text, trial.pair])}>edit</button>
                </td>
              </tr>
            );
          })}
          {!trials.list.length && (
            <tr>
              <td class="quiet" colSpan={5}>No trial yet.</td>
            </tr>
          )}
        </tbody>
      </table>
      <p class="quiet">{count(trials.list.length)} trial{trials.list.length === 1 ? "" : "s"} in this visit.</p>
      <WithoutWords explanation={explanation} />
    </div>
  );
}

/** "−0.1 points": how far a probability moved. */
export function difference(change: number): string {
  const points = 100 * change;
  return `${points > 0 ? "+" : points < 0 ? "−" : ""}${Math.abs(points).toFixed(1)} points`;
}
