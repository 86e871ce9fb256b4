// The answer first: the sentence to quote, the strongest passages, and what the check measured without the words.

import { useMemo, useState } from "preact/hooks";
import { count, percent, plural, shortened } from "./format";
import type { Page } from "./hooks";
import type { ExplanationData } from "./payload";
import { colourClass, explanationOf, makePicture, type Picture } from "./reading";
import { ATTENTION } from "./state";
import { unbroken } from "./unbroken";
import { Mark, verdictOf } from "./verdict";

const PASSAGES = 5;
/** Documents with fewer sentences are read faster than their passages. */
const LONG = 10;
const LONGEST_PASSAGE = 900;

/** One sentence about the prediction, its words and how far to trust it; phrases lead into the text. */
export function Headline({ page, picture }: { page: Page; picture: Picture }) {
  const { source, set } = page;
  const explanation = explanationOf(source.payload, picture.reading);
  const { prediction } = explanation;
  const attention = picture.reading.name === ATTENTION;
  const parts = attention
    ? [{ text: `The model says “${prediction.label}” (${prediction.value ?? percent(prediction.probability)}). Attention shows where it looks, not why it decides.` }]
    : explanation.headline ?? [{ text: `The model says “${prediction.label}” (${percent(prediction.probability)}).` }];
  const text = parts.map((part) => part.text).join("");
  return (
    <div class="headline" data-section="headline" role="note" aria-label="Summary">
      <p dir="auto">
        {parts.map((part: { text: string; token?: number }, i) =>
          part.token === undefined ? (
            <span key={i}>{unbroken(part.text)}</span>
          ) : (
            <button type="button" key={i} title="Show in the text" onClick={() => set({ view: "read", unit: part.token! })}>
              {part.text}
            </button>
          ),
        )}
      </p>
      <CopyButton text={text} />
    </div>
  );
}

function CopyButton({ text }: { text: string }) {
  const [copied, setCopied] = useState(false);
  if (!navigator.clipboard) return null;
  const copy = () => navigator.clipboard.writeText(text).then(() => setCopied(true), () => setCopied(false));
  return (
    <button type="button" class="copy" title="Copy this sentence" onClick={copy}>
      {copied ? "Copied" : "Copy"}
    </button>
  );
}

/** Model, version, date and verdict: on paper, where no panel says so. */
export function Origin({ page, picture }: { page: Page; picture: Picture }) {
  const { made } = page.source.payload;
  const facts = made ? [made.model && `Model ${made.model}`, `Sightline ${made.version}`, made.date].filter(Boolean).join(" · ") : "";
  return (
    <p class="origin" data-section="origin">
      {facts} · {picture.reading.title} · <Mark verdict={verdictOf(page.source.payload, picture.reading)} />
    </p>
  );
}

/** The five strongest sentences of a long document, in full, with their shares. */
export function Passages({ page, picture }: { page: Page; picture: Picture }) {
  const { source, model, state, set } = page;
  const sentences = model.units("sentence");
  const [passages, strongest] = useMemo(() => {
    if (sentences.ordinary < LONG) return [null, []];
    const made = makePicture(source.payload, model, "sentence", picture.reading, picture.tokens, state, []);
    return [made, made.order.slice(0, PASSAGES).filter((unit) => made.scores[unit] !== 0)];
  }, [sentences, picture]);
  const [open, setOpen] = useState(true);
  if (!passages || !strongest.length) return null;
  const { signed } = picture.reading;
  return (
    <section class="passages" data-section="passages" aria-label="Strongest passages">
      <header class="row">
        <h2>Strongest passages</h2>
        <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? "Hide" : "Show"}
        </button>
      </header>
      <ol class={open ? "" : "folded"}>
        {strongest.map((unit) => (
          <li key={unit}>
            <button type="button" title={`Show in the text. ${passages.format.raw(passages.scores[unit])}`} onClick={() => set({ view: "read", unit: strongestToken(sentences.tokens(unit), picture.tokens) })}>
              <span class={`share ${colourClass(passages.steps[unit], signed)}`}>{passages.format.share(passages.scores[unit])}</span>
              <q dir="auto">{shortened(sentences.text(unit).replace(/\s+/g, " "), LONGEST_PASSAGE)}</q> <small>{sentences.name(unit)} of {count(sentences.ordinary)}</small>
            </button>
          </li>
        ))}
      </ol>
      <p class="quiet">
        Shares of the total of absolute word scores, not of the probability{signed ? "; + speaks for and − against " + picture.reading.label : ""}. Spread
        evenly, every one of the {count(sentences.ordinary)} sentences would have {percent(1 / sentences.ordinary)}.
      </p>
    </section>
  );
}

/** Where a reader looks first in a passage. */
function strongestToken(tokens: ArrayLike<number>, scores: ArrayLike<number>): number {
  return Array.from(tokens).reduce((best, token) => (Math.abs(scores[token]) > Math.abs(scores[best]) ? token : best), tokens[0]);
}

/** The class that the model says below 50 %: known if there are two, and the predicted one is explained. */
function onlyRival({ prediction, target }: ExplanationData): string | null {
  const { classes, label } = prediction;
  const compete = classes.length === 2 && Math.abs(classes[0][1] + classes[1][1] - 1) < 1e-3;
  return compete && target.label === `“${label}”` ? classes.find(([name]) => name !== label)![0] : null;
}

/** What the check measured: the probability without the strongest words, beside that without random ones. */
export function WithoutWords({ explanation, open = false }: { explanation: ExplanationData; open?: boolean }) {
  const { removal } = explanation;
  if (!removal) return null;
  const rival = onlyRival(explanation);
  const said = (probability: number) => (rival !== null && probability < 0.5 ? <b>{percent(probability)}</b> : percent(probability));
  return (
    <details data-section="without" open={open}>
      <summary>What if the words were not there?</summary>
      <table class="without">
        <caption>
          Probability of {explanation.target.label} as the check measured it{removal.orders ? `; random: mean of ${plural(removal.orders, "random order")}` : ""}
          {rival !== null && `. Below 50 % (bold) the model says “${rival}”`}
        </caption>
        <thead>
          <tr>
            <th scope="col">words removed</th>
            <th scope="col">strongest</th>
            <th scope="col">random</th>
          </tr>
        </thead>
        <tbody>
          {removal.words.map((words, i) => (
            <tr key={words}>
              <th scope="row">{words ? `${count(words)} (${percent(removal.shares[i])} of the text)` : "none"}</th>
              <td>{said(removal.probabilities[i])}</td>
              <td>{said(removal.random[i])}</td>
            </tr>
          ))}
          {removal.empty !== null && (
            <tr>
              <th scope="row">all</th>
              <td>{said(removal.empty)}</td>
              <td>{said(removal.empty)}</td>
            </tr>
          )}
        </tbody>
      </table>
    </details>
  );
}
