// The trials of a page as a table, and one of them compared with the original: the places that differ, and the words whose
// scores did.

import { useEffect, useMemo, useState } from "preact/hooks";
import { edited, editsOf, type Edit } from "./edits";
import { percent, ShareFormat, shortened } from "./format";
import type { Page } from "./hooks";
import { explanationOf, wordTotal, type Picture } from "./reading";
import type { EditedPrediction } from "./source";
import { difference, originalTexts, type Trial, type Trials } from "./trials";

/** Words that the comparison lists. */
const LISTED = 8;
/** Characters around a change. */
const AROUND = 50;

interface ListProperties {
  page: Page;
  picture: Picture;
  trials: Trials;
  edit(texts: string[]): void;
}

export function TrialList({ page, picture, trials, edit }: ListProperties) {
  const [chosen, choose] = useState<string | null>(null);
  const opened = trials.list.find(({ edits }) => JSON.stringify(edits) === chosen) ?? trials.list[0];
  if (!opened) return null;
  const { label, probability: before } = explanationOf(page.source.payload, picture.reading).prediction;
  return (
    <>
      <table class="trial-list" data-section="trials">
        <caption>Probability of “{label}”, which was {percent(before)}. The address of this page holds the trials.</caption>
        <thead>
          <tr>
            <th scope="col">change</th>
            <th scope="col">probability</th>
            <th scope="col">answer</th>
            <th scope="col"><span class="unseen">actions</span></th>
          </tr>
        </thead>
        <tbody>
          {trials.list.map((trial) => (
            <tr key={JSON.stringify(trial.edits)}>
              <td>
                <button type="button" class="plain" aria-pressed={trial === opened} onClick={() => choose(JSON.stringify(trial.edits))}>{trial.change}</button>
              </td>
              <Outcome prediction={trial.prediction} label={label} before={before} />
              <td>
                <button type="button" onClick={() => edit(edited(originalTexts(page.source), trial.edits))}>edit</button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {opened.prediction && <Comparison key={JSON.stringify(opened.edits)} page={page} picture={picture} trial={opened} />}
    </>
  );
}

function Outcome({ prediction, label, before }: { prediction: EditedPrediction | null; label: string; before: number }) {
  if (!prediction) return <td colSpan={2}>Running …</td>;
  const now = prediction.classes.find((one) => one.label === label)?.probability ?? 0;
  return (
    <>
      <td>{percent(now)} <small>({difference(now - before)})</small></td>
      <td>{prediction.label}{prediction.label !== label && " (changed)"}</td>
    </>
  );
}

/** A trial beside the original: its changes in their places, and the words whose share moved most. */
function Comparison({ page, picture, trial }: { page: Page; picture: Picture; trial: Trial }) {
  const texts = originalTexts(page.source);
  const words = useEditedWords(page, picture, trial);
  const moved = useMemo(() => words && movedWords(page, picture, words), [words, picture]);
  return (
    <section data-section="comparison">
      <h2>Compared with the original</h2>
      {texts.map((text, segment) => <Changes key={segment} text={text} edits={editsOf(trial.edits, segment)} />)}
      {typeof moved === "string" ? <p class="warning" role="alert">{moved}</p> : moved && (
        <table class="trial-list">
          <caption>Words whose share changed most, by {picture.reading.title}</caption>
          <thead>
            <tr><th scope="col">word</th><th scope="col">before</th><th scope="col">now</th></tr>
          </thead>
          <tbody>
            {moved.map(({ word, before, now }) => (
              <tr key={word}>
                <td dir="auto">{shortened(word, 40)}</td>
                <td>{before}</td>
                <td>{now}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

/** Every change with the text around it: what was taken out struck through, what was added underlined. */
function Changes({ text, edits }: { text: string; edits: Edit[] }) {
  if (!edits.length) return null;
  let shown = 0;
  const parts = edits.map(([, start, end, added], i) => {
    const from = Math.max(shown, text.lastIndexOf(" ", start - AROUND) + 1);
    const next = text.indexOf(" ", end + AROUND);
    const to = Math.min(next < 0 ? text.length : next, edits[i + 1]?.[1] ?? text.length);
    const gap = from > shown;
    shown = to;
    return (
      <span key={start}>
        {gap && "… "}
        {text.slice(from, start)}
        {end > start && <del>{text.slice(start, end)}</del>}
        {added && <ins>{added}</ins>}
        {text.slice(end, to)}
      </span>
    );
  });
  return <p class="changes" dir="auto">{parts}{shown < text.length && " …"}</p>;
}

/** The words of the edited text with their scores; a sentence where that failed; null before, or where nobody can tell. */
function useEditedWords({ source }: Page, { reading }: Picture, trial: Trial): EditedPrediction["words"] | string {
  const [found, keep] = useState<EditedPrediction["words"] | string>(null);
  const { method, target, prediction } = explanationOf(source.payload, reading);
  useEffect(() => {
    // Other targets, such as spans, have no counterpart in an edited text.
    const explained = prediction.classes.find(([name]) => target.label === `“${name}”`)?.[0];
    if (!target.is_class || explained === undefined || reading.explanation === null) return keep(null);
    let wanted = true;
    const [text, pair = null] = edited(originalTexts(source), trial.edits);
    source.predict!(text, pair, { method, target: explained }).then(
      ({ words }) => wanted && keep(words ?? null),
      (reason: unknown) => wanted && keep(reason instanceof Error ? reason.message : String(reason)),
    );
    return () => void (wanted = false);
  }, [source, reading]);
  return found;
}

/** The words whose share of the total differs most between the document and the edited text; equal words are added up. */
function movedWords({ model }: Page, { reading }: Picture, words: NonNullable<EditedPrediction["words"]> | string) {
  if (typeof words === "string") return words;
  const scores = model.scores[reading.explanation ?? 0];
  const units = model.units("word");
  const sums = units.sums(scores);
  const old = new Map<string, number>();
  const edited = new Map<string, number>();
  const add = (to: Map<string, number>, word: string, score: number) => void to.set(word, (to.get(word) ?? 0) + score);
  for (let unit = 0; unit < units.count; unit++) if (!units.isSpecial(unit)) add(old, units.key(unit), sums[unit]);
  for (const { text, score } of words) add(edited, text.toLowerCase(), score);
  const before = new ShareFormat(wordTotal(model, scores), reading.signed);
  const now = new ShareFormat(words.reduce((sum, { score }) => sum + Math.abs(score), 0), reading.signed);
  const moved = (word: string) => Math.abs(before.of(old.get(word) ?? 0) - now.of(edited.get(word) ?? 0));
  return [...new Set([...old.keys(), ...edited.keys()])]
    .sort((a, b) => moved(b) - moved(a))
    .slice(0, LISTED)
    .map((word) => ({
      word,
      before: old.has(word) ? before.share(old.get(word)!) : "not there",
      now: edited.has(word) ? now.share(edited.get(word)!) : "not there",
    }));
}
