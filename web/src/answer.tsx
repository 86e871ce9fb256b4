// The answer first: the sentence to quote, how far to trust it, and the classes. Everything behind it is one click away.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { percent, plural } from "./format";
import type { Page } from "./hooks";
import type { ExplanationData } from "./payload";
import { explanationOf, type Picture } from "./reading";
import { ATTENTION } from "./state";
import { unbroken } from "./unbroken";
import { Mark, Verdict, verdictOf } from "./verdict";

/** One sentence about the prediction, its words and how far to trust it; phrases lead into the text. */
export function Answer({ page, picture }: { page: Page; picture: Picture }) {
  const { source, state, set } = page;
  const explanation = explanationOf(source.payload, picture.reading);
  const verdict = verdictOf(source.payload, picture.reading);
  const note = state.layers.length > 0 ? "The check applies to all layers together, not to the layers selected." : undefined;
  return (
    <section class="answer" data-section="headline" aria-label="Summary">
      <div>
        <p class="sentence" dir="auto">
          {headlineOf(explanation, picture.reading.name).map((part, i) =>
            part.token === undefined ? (
              <span key={i}>{unbroken(part.text)}</span>
            ) : (
              <button type="button" key={i} title="Show in the text" onClick={() => set({ layout: "text", unit: part.token! })}>
                {part.text}
              </button>
            ),
          )}
        </p>
        <Classes explanation={explanation} />
      </div>
      <details class={`badge floating ${verdict.level}`} data-section="verdict">
        <summary>
          <Mark verdict={verdict} />
          <small>{verdict.calls ? `tested with ${plural(verdict.calls, "reading")} · ` : ""}how?</small>
        </summary>
        <Verdict verdict={verdict} note={picture.reading.explanation === null ? undefined : note} />
      </details>
    </section>
  );
}

function headlineOf({ headline, prediction }: ExplanationData, reading: string): { text: string; token?: number }[] {
  const said = `The model says “${prediction.label}” (${prediction.value ?? percent(prediction.probability)})`;
  if (reading === ATTENTION) return [{ text: `${said}. Attention shows where it looks, not why it decides.` }];
  return headline ?? [{ text: `${said}.` }];
}

/** All classes in one bar, or as a list where they do not compete; the sentence above has the probability of the first. */
function Classes({ explanation: { prediction } }: { explanation: ExplanationData }) {
  const { classes, label } = prediction;
  if (classes.length < 2) return null;
  const compete = classes.reduce((sum, [, share]) => sum + share, 0) < 1.001;
  return (
    <div class="classes" role="group" aria-label="Probabilities">
      {compete && (
        <div class="bar" aria-hidden="true">
          {classes.map(([name, share]) => <i key={name} class={name === label ? "first" : ""} style={{ width: `${100 * share}%` }} />)}
        </div>
      )}
      <ul>
        {classes.map(([name, share]) => (
          <li key={name} class={name === label ? "first" : ""} title={percent(share)}>
            {name} {name !== label && percent(share)}
          </li>
        ))}
      </ul>
    </div>
  );
}

/** What a reader must know first, one line each, until it is dismissed. */
export function Notices({ page: { source }, picture }: { page: Page; picture: Picture }) {
  const { notices } = explanationOf(source.payload, picture.reading);
  const [gone, setGone] = useState<string[]>([]);
  const left = notices.filter((sentence) => !gone.includes(sentence));
  if (!left.length) return null;
  return (
    <div class="notices" role="note" aria-label="Notices">
      {left.map((sentence) => (
        <p key={sentence}>
          {sentence} <button type="button" class="close" aria-label="Dismiss" onClick={() => setGone([...gone, sentence])}>×</button>
        </p>
      ))}
    </div>
  );
}

/** Model, version, date and method: on paper, where no panel says so. */
export function Origin({ page, picture }: { page: Page; picture: Picture }) {
  const { made } = page.source.payload;
  const facts = made ? [made.model && `Model ${made.model}`, `Sightline ${made.version}`, made.date].filter(Boolean).join(" · ") : "";
  return <p class="origin" data-section="origin">{facts} · {picture.reading.title}</p>;
}

/** What a view has found, in one sentence, and what it means in another. */
export function Finding({ children, note }: { children: ComponentChildren; note?: ComponentChildren }) {
  return (
    <header class="finding" data-section="finding">
      <p>{children}</p>
      {note && <p class="quiet">{note}</p>}
    </header>
  );
}
