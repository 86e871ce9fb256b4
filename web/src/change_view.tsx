// What would change the answer: the smallest set of words in place, the curve beside random words, and changes of one's own.

import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Finding } from "./answer";
import { ChangeCurve, strongestPath } from "./change_curve";
import type { Units } from "./document";
import { count, percent, plural } from "./format";
import type { Page } from "./hooks";
import type { ExplanationData, Reading } from "./payload";
import { explanationOf, type Picture } from "./reading";
import { editsBetween, nameOf } from "./edits";
import { TrialList } from "./trial_list";
import { originalTexts, withoutUnits } from "./trials";
import type { ViewProperties } from "./views";

export function ChangeView({ page, picture, trials }: ViewProperties) {
  const { source, model, state, set } = page;
  const { payload } = source;
  const explanation = explanationOf(payload, picture.reading);
  const { check, target, verdict } = explanation;
  const words = model.units("word");
  const found = useMemo(() => (verdict.smallest_set?.words ?? []).map(({ tokens }) => words.of[tokens[0]]), [verdict, words]);
  const taken = state.without === null ? found : state.without.map((token) => words.of[token]).filter((word) => word >= 0);
  const take = (chosen: number[]) => set({ without: chosen.map((word) => words.tokens(word)[0]).sort((a, b) => a - b) });
  const toggle = (word: number) => take(taken.includes(word) ? taken.filter((one) => one !== word) : [...taken, word]);
  const [edited, setEdited] = useState<string[] | null>(null);
  const left = useRef<HTMLDivElement>(null);
  // In a long text, begin where something is struck through.
  useLayoutEffect(() => {
    const first = left.current!.querySelector<HTMLElement>("del");
    if (first) left.current!.scrollTop = first.offsetTop - left.current!.clientHeight / 3;
  }, []);
  const texts = withoutUnits(source, taken.map((word) => ({ segment: words.segment[word], start: words.start[word], end: words.end[word] })));
  const measured = useMemo(() => knownReading(explanation, picture, model.scores, words, taken, found), [explanation, taken, found]);
  return (
    <div class="change" onKeyDown={(event) => (event.target as HTMLElement).matches("textarea") && event.stopPropagation()}>
      <ChangeFinding explanation={explanation} method={picture.reading.title} />
      <div class="halves">
        <div class="left" ref={left} tabIndex={0} role="region" aria-label="The text without the words taken out">
          {edited ? <Editor source={source} texts={edited} change={setEdited} /> : <Struck page={page} words={words} taken={taken} toggle={toggle} />}
        </div>
        <div class="right">
          {check && !edited && <ChangeCurve check={check} label={target.label} line={isRace(explanation) ? 0.5 : null} single={!target.is_class} />}
          {(found.length > 0 || taken.length > 0) && !edited && (
            <section data-section="taken">
              <h2>{plural(taken.length, "word")} taken out (click to put one back)</h2>
              <ul class="taken">
                {[...new Set([...found, ...taken])].sort((a, b) => a - b).map((word) => (
                  <li key={word}>
                    <button type="button" aria-pressed={taken.includes(word)} onClick={() => toggle(word)}>
                      {taken.includes(word) ? <del>{words.text(word)}</del> : words.text(word)}
                    </button>
                  </li>
                ))}
              </ul>
              <p role="status" data-section="known">
                {measured ? (
                  <>The model says <b>{measured.label}</b> ({percent(measured.label_probability)}).</>
                ) : source.predict ? (
                  <button type="button" class="primary" data-control="run-without" disabled={trials.running} onClick={() => trials.run(texts)}>
                    {trials.running ? "Running …" : "Run the model without them"}
                  </button>
                ) : (
                  "This was not measured, and this file cannot run the model."
                )}
                {state.without !== null && <> <button type="button" onClick={() => set({ without: null })}>start again</button></>}
              </p>
            </section>
          )}
          <section class="own" data-section="own">
            <h2>Try your own change</h2>
            {!source.predict ? (
              <p>To edit the text or take out other words, open the document with <code>sightline serve</code> or in a notebook: this file cannot run the model.</p>
            ) : edited ? (
              <p>
                <button type="button" class="primary" data-control="rerun" disabled={trials.running} onClick={() => trials.run(edited)}>
                  {trials.running ? "Running …" : "Explain again"}
                </button>{" "}
                <button type="button" onClick={() => setEdited(null)}>Stop editing</button>{" "}
                <span class="quiet">{nameOf(originalTexts(source), editsBetween(originalTexts(source), edited))}</span>
              </p>
            ) : (
              <p>
                Click words to take them out, or{" "}
                <button type="button" data-control="edit" onClick={() => setEdited(originalTexts(source))}>edit the text</button>
              </p>
            )}
            {trials.error && <p class="warning" role="alert">{trials.error}</p>}
          </section>
          <TrialList page={page} picture={picture} trials={trials} edit={setEdited} />
        </div>
      </div>
    </div>
  );
}

/** Whether the predicted one of two classes is explained: then the answer changes at 50 %. */
function isRace({ prediction: { classes, label }, target }: ExplanationData): boolean {
  const compete = classes.length === 2 && Math.abs(classes[0][1] + classes[1][1] - 1) < 1e-3;
  return compete && target.label === `“${label}”`;
}

/** What was read without some words: known for the smallest set and, if it holds the strongest words, for the first of those. */
function knownReading(
  { check, verdict: { smallest_set: smallest } }: ExplanationData,
  { reading }: Picture,
  scores: Float32Array[],
  words: Units,
  taken: number[],
  found: number[],
): Pick<Reading, "label" | "label_probability"> | null {
  if (!check) return null;
  if (!taken.length) return check.whole;
  if (!smallest || taken.length > found.length || !taken.every((word) => found.includes(word))) return null;
  if (taken.length === found.length) return { label: smallest.label, label_probability: smallest.probability };
  const path = new Map(strongestPath(check));
  // Otherwise words were left out of the strongest ones, and nothing is known about parts of the set.
  if (path.get(found.length)?.label_probability !== smallest.probability) return null;
  const sums = words.sums(scores[reading.explanation ?? 0]);
  const strongest = [...found].sort((a, b) => sums[b] - sums[a]).slice(0, taken.length);
  return strongest.every((word) => taken.includes(word)) ? path.get(taken.length) ?? null : null;
}

function ChangeFinding({ explanation: { check, verdict, prediction, target }, method }: { explanation: ExplanationData; method: string }) {
  if (!check) return <Finding note="Add --check, or model.check(explanation) in Python.">What would change the answer was not measured.</Finding>;
  const found = verdict.smallest_set;
  if (found) {
    const random = found.random_sets > 0 && `${plural(found.random_words, "random word")} changed the answer in ${found.random_changed} of ${plural(found.random_sets, "draw")}. `;
    return (
      <Finding note={<>{random}No smaller set was found in the order of {method}.</>}>
        Without {found.words.length === 1 ? "this word" : `these ${count(found.words.length)} words`} the model
        says <em>{found.label}</em> ({percent(found.probability)}) instead of <em>{prediction.label}</em> ({prediction.value ?? percent(prediction.probability)}).
      </Finding>
    );
  }
  const last = check.without[check.without.length - 1];
  const strongest = plural(check.counts[check.counts.length - 1], "strongest word");
  const measured =
    target.is_class
      ? `Without its ${strongest} the probability of ${target.label} is ${percent(last.probability)} instead of ${percent(check.whole.probability)}.`
      : `Without its ${strongest} the value is ${last.value.toPrecision(3)} instead of ${check.whole.value.toPrecision(3)}.`;
  return check.searched > 0 ? (
    <Finding note={measured}>
      The model still says <em>{prediction.label}</em> without the {plural(check.searched, "word")} that {method} ranks highest.
    </Finding>
  ) : (
    <Finding>{measured}</Finding>
  );
}

interface StruckProperties {
  page: Page;
  words: Units;
  taken: number[];
  toggle(word: number): void;
}

/** The document with the words that are taken out struck through, in place; a click takes out a word or puts it back. */
function Struck({ page: { source, model }, words, taken, toggle }: StruckProperties) {
  const { segments } = model.data;
  const click = (segment: number) => (event: MouseEvent) => {
    const at = characterUnder(event);
    const word = at === null ? undefined : words.touching(segment, at, at + 1)[0];
    if (word !== undefined && (source.predict || taken.includes(word))) toggle(word);
  };
  return (
    <>
      {segments.map(({ name, text }, segment) => {
        const here = taken.filter((word) => words.segment[word] === segment).sort((a, b) => a - b);
        const cuts = [0, ...here.flatMap((word) => [words.start[word], words.end[word]]), text.length];
        return (
          <section key={segment}>
            {segments.length > 1 && <h3>{name}</h3>}
            <p class="plain-text" dir="auto" onClick={click(segment)}>
              {cuts.slice(1).map((end, i) => {
                const part = text.slice(cuts[i], end);
                return i % 2 ? <del key={i} data-start={cuts[i]}>{part}</del> : <span key={i} data-start={cuts[i]}>{part}</span>;
              })}
            </p>
          </section>
        );
      })}
    </>
  );
}

/** The place in its text of the character under the pointer. */
function characterUnder({ clientX, clientY }: MouseEvent): number | null {
  const caret = document.caretPositionFromPoint?.(clientX, clientY);
  const part = caret?.offsetNode.parentElement?.dataset.start;
  return caret && part !== undefined ? Number(part) + caret.offset : null;
}

function Editor({ source, texts, change }: { source: Page["source"]; texts: string[]; change(texts: string[]): void }) {
  return (
    <>
      {texts.map((text, i) => (
        <textarea
          key={i}
          dir="auto"
          rows={i ? 6 : 22}
          aria-label={source.payload.document.segments[i].name}
          data-control={`edit-${i}`}
          value={text}
          onInput={(event) => {
            const { value } = event.currentTarget;
            change(texts.map((one, place) => (place === i ? value : one)));
          }}
        />
      ))}
    </>
  );
}
