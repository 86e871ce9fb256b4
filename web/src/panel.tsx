// Beside the text: the selected word, the strongest words, and behind folds how far to trust them and what they are.

import { useMemo, useState } from "preact/hooks";
import { UnitCard, type CardProperties } from "./card";
import { Check } from "./choices";
import { count, percent, plural, shortened } from "./format";
import type { Page } from "./hooks";
import { Legend } from "./legend";
import { explanationOf, makePicture, totalOf, type Picture } from "./reading";
import { rows } from "./ranking";
import { unbroken } from "./unbroken";
import { WindowList } from "./windows";

const LISTED = { for: 9, against: 6, plain: 12 } as const;
const PASSAGES = 5;
/** Documents with fewer sentences are read faster than their passages. */
const LONG = 10;
const LONGEST_PASSAGE = 900;

export function Panel({ open, ...properties }: CardProperties & { open: boolean }) {
  const { page, picture, unit } = properties;
  const explanation = explanationOf(page.source.payload, picture.reading);
  const checked = picture.reading.explanation !== null;
  const [merge, setMerge] = useState(true);
  return (
    <aside class={open ? "details open" : "details"} aria-label="Details">
      {unit >= 0 && <UnitCard {...properties} />}
      <Strongest {...properties} merge={merge} />
      <Passages page={page} picture={picture} />
      {checked && (explanation.checks.length > 0 || explanation.verdict.sentences.length > 0) && (
        <details data-section="trust">
          <summary>How far can I trust this?</summary>
          <ul class="sentences">
            {[...explanation.verdict.sentences, ...explanation.checks].map((sentence) => (
              <li key={sentence}>{unbroken(sentence)}</li>
            ))}
          </ul>
        </details>
      )}
      <WindowList data={page.source.payload.document} />
      <details data-section="shares">
        <summary>What are these scores?</summary>
        <Legend picture={picture} />
        <p>
          Every score is shown as a share of the total of all absolute word scores. It is not a share of the probability, and
          not what the answer would lose without the word.
        </p>
        <Spread picture={picture} />
        {picture.units.level !== "sentence" && picture.units.level !== "paragraph" && (
          <Check id="merge" label="add up repeated words" checked={merge} change={setMerge} />
        )}
        <LeftOut page={page} picture={picture} />
      </details>
      <About page={page} picture={picture} />
    </aside>
  );
}

function Strongest({ page, picture, go, merge }: CardProperties & { merge: boolean }) {
  const { units, scores, listed, reading, format, scale } = picture;
  const all = useMemo(
    () => rows(scores, listed, (unit) => units.key(unit), (unit) => units.text(unit), merge),
    [picture, merge],
  );
  const explanation = explanationOf(page.source.payload, reading);
  const { label } = explanation.target;
  const sides = !reading.signed
    ? [{ name: "plain" as const, title: reading.explanation === null ? "Most attention received" : `Most important for ${label}`, sign: 1 }]
    : [
        { name: "for" as const, title: `Strongest ${units.level}s for ${label}`, sign: 1 },
        { name: "against" as const, title: `Strongest ${units.level}s against`, sign: -1 },
      ];
  const largest = all.reduce((most, row) => Math.max(most, Math.abs(row.score)), 0);
  const whole = units.level === "sentence" || units.level === "paragraph";
  const hue = Math.ceil(scale.starts.length / 3);
  return (
    <section class={whole ? "sides whole-sentences" : "sides"} data-section="strongest" aria-label={`Strongest ${units.level}s`}>
      {sides.map(({ name, title, sign }) => {
        const best = all.filter((row) => row.score * sign > 0).sort((a, b) => Math.abs(b.score) - Math.abs(a.score) || a.unit - b.unit);
        return (
          <div key={name} data-side={name}>
            <h2>{title}</h2>
            <ol>
              {best.slice(0, LISTED[name]).map((row) => (
                <li key={row.unit}>
                  <button type="button" title={`${format.share(row.score)} of the total, ${format.raw(row.score)}`} onClick={() => go(row.unit)}>
                    <i class={`${name}-${hue}`} style={{ width: `${(100 * Math.abs(row.score)) / largest}%` }} />
                    <bdi>{shortened(row.text, whole ? LONGEST_PASSAGE : 60)}</bdi>
                    {row.count > 1 && <small> ×{count(row.count)}</small>}
                  </button>
                </li>
              ))}
              {best.length === 0 && <li class="quiet">none</li>}
            </ol>
          </div>
        );
      })}
      {reading.explanation !== null && explanation.order_only && (
        <p class="quiet" data-section="order-only">Rely on the order of the words, not on the sizes of their scores.</p>
      )}
    </section>
  );
}

/** The five strongest sentences of a long document, in full. */
function Passages({ page, picture }: { page: Page; picture: Picture }) {
  const { source, model, state, set } = page;
  const sentences = model.units("sentence");
  const [passages, strongest] = useMemo(() => {
    if (sentences.ordinary < LONG || picture.units.level === "sentence") return [null, []];
    const made = makePicture(source.payload, model, "sentence", picture.reading, picture.tokens, state, []);
    return [made, made.order.slice(0, PASSAGES).filter((unit) => made.scores[unit] !== 0)];
  }, [sentences, picture]);
  if (!passages || !strongest.length) return null;
  return (
    <details class="passages" data-section="passages">
      <summary>Strongest sentences</summary>
      <ol>
        {strongest.map((unit) => (
          <li key={unit}>
            <button type="button" onClick={() => set({ layout: "text", unit: strongestToken(sentences.tokens(unit), picture.tokens) })}>
              <span class={`share ${passages.reading.signed ? (passages.scores[unit] > 0 ? "for-3" : "against-3") : "plain-3"}`}>{passages.format.share(passages.scores[unit])}</span>
              <q dir="auto">{shortened(sentences.text(unit).replace(/\s+/g, " "), LONGEST_PASSAGE)}</q>
            </button>
          </li>
        ))}
      </ol>
      <p class="quiet">
        Shares of the total of absolute word scores. Spread evenly, every one of the {count(sentences.ordinary)} sentences would
        have {percent(1 / sentences.ordinary)}.
      </p>
    </details>
  );
}

/** Where a reader looks first in a passage. */
function strongestToken(tokens: ArrayLike<number>, scores: ArrayLike<number>): number {
  return Array.from(tokens).reduce((best, token) => (Math.abs(scores[token]) > Math.abs(scores[best]) ? token : best), tokens[0]);
}

/** How much of the total the strongest units have, beside an even spread. */
function Spread({ picture: { units, peaks, scores, format, order } }: { picture: Picture }) {
  const share = format.of(peaks.reduce((sum, unit) => sum + Math.abs(scores[unit]), 0));
  return (
    <p data-section="spread">
      The {plural(peaks.length, `strong ${units.level}`)} of {count(order.length)} {peaks.length === 1 ? "has" : "have"} {percent(share)} of the
      total; spread evenly, {peaks.length === 1 ? "it" : "they"} would have {percent(peaks.length / Math.max(1, units.ordinary))}.
    </p>
  );
}

/** The switch for fillers in lists, and the share of the total that the list leaves out. */
export function LeftOut({ page: { state, set }, picture }: { page: Page; picture: Picture }) {
  const { scores, shown, listed, format } = picture;
  const share = format.of(totalOf(scores, shown) - totalOf(scores, listed));
  const kinds = picture.artefacts.size ? "stop words, punctuation and artefacts" : "stop words and punctuation";
  return (
    <p class="left-out" data-section="left-out">
      {state.list === "content" && share > 0 && (
        <>The list leaves out {kinds}, {percent(Math.min(1, share))} of the total. </>
      )}
      {(state.list === "all" || share > 0) && (
        <Check id="list-all" label="list them too" checked={state.list === "all"} change={(on) => set({ list: on ? "all" : "content" })} />
      )}
    </p>
  );
}

/** What was explained, how, and with which settings. */
function About({ page, picture }: { page: Page; picture: Picture }) {
  const explanation = explanationOf(page.source.payload, picture.reading);
  return (
    <details data-section="about">
      <summary>Model, method and settings</summary>
      {picture.reading.explanation === null ? (
        <p>
          Attention received by each token, summed over all attending tokens and averaged over layers and heads. It shows where
          the model looks, not why it decides.
        </p>
      ) : (
        <>
          <p class="target">Explained: {explanation.target.description}.</p>
          <p class="summary">{explanation.summary}</p>
          {explanation.formula && <code>{explanation.formula}</code>}
        </>
      )}
      <dl>
        {explanation.facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <dl class="keys">
        <div><dt><kbd>n</kbd> <kbd>p</kbd></dt><dd>next, previous strong word</dd></div>
        <div><dt><kbd>.</kbd> <kbd>,</kbd></dt><dd>next, previous instance of the selected word</dd></div>
        <div><dt><kbd>→</kbd> <kbd>←</kbd></dt><dd>next, previous word</dd></div>
        <div><dt><kbd>/</kbd></dt><dd>find</dd></div>
        <div><dt><kbd>1</kbd> … <kbd>9</kbd></dt><dd>method</dd></div>
        <div><dt><kbd>Esc</kbd></dt><dd>clear</dd></div>
      </dl>
    </details>
  );
}
