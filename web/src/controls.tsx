// The panel beside the text: what the model said, how far to trust its explanation, by which method, how it is coloured.

import { Check, Choice, Numbers, Section, Slider } from "./choices";
import { percent } from "./format";
import type { Page } from "./hooks";
import { Legend } from "./legend";
import { LEVELS, type ExplanationData } from "./payload";
import { explanationOf, layersArray, type Picture } from "./reading";
import { HIDABLE, layerCount, readingNames } from "./state";
import { Verdict, verdictOf } from "./verdict";

const HIDDEN_NAMES = { specials: "special tokens", stopwords: "stop words", punctuation: "punctuation" } as const;

export function Controls({ page, picture }: { page: Page; picture: Picture }) {
  const explanation = explanationOf(page.source.payload, picture.reading);
  return (
    <aside class="controls" aria-label="Explanation and settings">
      <Prediction explanation={explanation} />
      <Section title="How far to trust the explanation" name="verdict">
        <Verdict verdict={verdictOf(page.source.payload, picture.reading)} note={layersNote(page, picture)} />
      </Section>
      <Method page={page} picture={picture} explanation={explanation} />
      <Colour page={page} picture={picture} />
      <Inside page={page} picture={picture} />
      <Further explanation={explanation} checked={picture.reading.explanation !== null} />
    </aside>
  );
}

/** The check is of the whole explanation: what is shown of single layers was not checked. */
function layersNote({ source, state }: Page, { reading }: Picture): string | undefined {
  const single = reading.explanation !== null && state.layers.length > 0 && layersArray(source.payload, reading) !== null;
  return single ? "This is about all layers together, not about the choice of layers below." : undefined;
}

function Prediction({ explanation }: { explanation: ExplanationData }) {
  const { prediction, target } = explanation;
  return (
    <Section title="The model says" name="prediction">
      <p class="said">
        {prediction.label} <small>{percent(prediction.probability)}</small>
      </p>
      {prediction.classes.length > 1 && (
        <ul class="classes" aria-label="Probabilities">
          {prediction.classes.map(([label, share]) => (
            <li key={label} class={label === prediction.label ? "first" : ""}>
              <span title={label}>{label}</span>
              <span class="bar">
                <i style={{ width: `${100 * share}%` }} />
              </span>
              <span>{percent(share)}</span>
            </li>
          ))}
        </ul>
      )}
      <p class="quiet target">Explained here: {target.description}.</p>
    </Section>
  );
}

function Method({ page, picture, explanation }: { page: Page; picture: Picture; explanation: ExplanationData }) {
  const { source, state, set } = page;
  const { payload } = source;
  const names = readingNames(payload);
  const own = payload.explanations.filter((one) => one.method === state.method);
  const targets = [...new Set(own.map((one) => one.target.name))];
  return (
    <Section title="Explained by" name="method">
      <Choice
        id="method"
        label="Method"
        options={names.map((name) => ({ value: name, text: name }))}
        value={state.method}
        choose={(method) => set({ method })}
      />
      {targets.length > 1 && (
        <Choice
          id="target"
          title="for"
          label="Target"
          options={targets.map((name) => ({ value: name, text: name }))}
          value={explanation.target.name}
          choose={(target) => set({ target })}
        />
      )}
      <p class="quiet summary">
        {picture.reading.explanation === null
          ? "Attention that each token receives from all tokens, summed over rows, mean of layers and heads. What the model looks at, not why it decides."
          : explanation.summary}
      </p>
      {names.length > 1 && (
        <label class="field">
          <span>Side by side with</span>
          <select
            data-control="compare"
            value={state.compare}
            onChange={(event) => set({ compare: event.currentTarget.value })}
          >
            <option value="">nothing</option>
            {names
              .filter((name) => name !== state.method)
              .map((name) => (
                <option key={name} value={name}>
                  {name}
                </option>
              ))}
          </select>
        </label>
      )}
    </Section>
  );
}

// 0 … 100 stands for an exponent from 2 (only the strongest) to 0.28 (everything), the default in between.
const exponent = (place: number) => 2 * 0.14 ** (place / 100);
const place = (gamma: number) => (100 * Math.log(gamma / 2)) / Math.log(0.14);

function Colour({ page, picture }: { page: Page; picture: Picture }) {
  const { state, set } = page;
  return (
    <Section title="Colour" name="colour">
      <Legend picture={picture} />
      <Choice
        id="level"
        title="Shade"
        label="What gets a colour of its own; a word, sentence or paragraph has the sum of its tokens' scores"
        options={LEVELS.map((level) => ({ value: level, text: level + "s" }))}
        value={state.level}
        choose={(level) => set({ level })}
      />
      <Choice
        id="scale"
        title="Strength"
        label="What makes a colour strong"
        options={[
          { value: "gamma", text: "by score", hint: "The colour grows with the score" },
          { value: "quantile", text: "by rank", hint: "Every step of colour gets the same number of words, however near their scores are" },
        ]}
        value={state.scale}
        choose={(scale) => set({ scale })}
      />
      {(state.range === "absolute" || hasRange(page, picture)) && (
        <Choice
          id="range"
          title="Full colour"
          label="Which score gets the full colour"
          options={[
            { value: "relative", text: "strongest shown", hint: "The strongest of what is shown now" },
            {
              value: "absolute",
              text: "strongest of all",
              hint: "The strongest of all classes and layers of this method: one score then always has one colour",
            },
          ]}
          value={state.range}
          choose={(range) => set({ range })}
        />
      )}
      {state.scale === "gamma" && (
        <Slider
          id="gamma"
          label="Bring out faint words"
          hint="The further right, the more colour words with low scores get"
          value={place(state.gamma)}
          max={100}
          step={5}
          change={(value) => set({ gamma: exponent(value) })}
        />
      )}
      <Slider
        id="threshold"
        label="No colour below"
        hint="Words below this share of the score that has the full colour are not coloured"
        value={100 * state.threshold}
        max={100}
        step={1}
        text={`${Math.round(100 * state.threshold)} %`}
        change={(value) => set({ threshold: value / 100 })}
      />
      <fieldset class="checks">
        <legend title="Not coloured, not ranked and not in the lists">Leave out</legend>
        {HIDABLE.map((name) => (
          <Check
            key={name}
            id={`hide-${name}`}
            label={HIDDEN_NAMES[name]}
            checked={state.hide.includes(name)}
            change={(on) => set({ hide: HIDABLE.filter((one) => (one === name ? on : state.hide.includes(one))) })}
          />
        ))}
      </fieldset>
    </Section>
  );
}

/** Whether there is another class or layer to have the colours in common with. */
function hasRange({ source: { payload }, state }: Page, { reading }: Picture): boolean {
  return layersArray(payload, reading) !== null || payload.explanations.filter((one) => one.method === state.method).length > 1;
}

function Inside({ page, picture }: { page: Page; picture: Picture }) {
  const { source, state, set } = page;
  const layers = layerCount(source.payload);
  const heads = source.payload.inside?.heads ?? 0;
  if (!layers) return null;
  const layered = layersArray(source.payload, picture.reading) !== null;
  return (
    <Section title="Layers and heads" name="inside">
      <Numbers id="layers" label="Layers" count={layers} chosen={state.layers} choose={(chosen) => set({ layers: chosen })} />
      {heads > 0 && (
        <Numbers id="heads" label="Heads" count={heads} chosen={state.heads} choose={(chosen) => set({ heads: chosen })} />
      )}
      {state.layers.length > 0 && !layered && (
        <p class="quiet">{state.method} has no scores by layer here: the choice applies to relations only.</p>
      )}
    </Section>
  );
}

function Further({ explanation, checked }: { explanation: ExplanationData; checked: boolean }) {
  return (
    <>
      {checked && explanation.checks.length > 0 && (
        <details data-section="trust">
          <summary>Further checks</summary>
          <ul class="sentences">
            {explanation.checks.map((sentence) => (
              <li key={sentence}>{sentence}</li>
            ))}
          </ul>
        </details>
      )}
      <details>
        <summary>Settings and provenance</summary>
        <dl>
          {explanation.facts.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      </details>
      <details>
        <summary>Keys</summary>
        <dl class="keys">
          <div><dt><kbd>n</kbd> <kbd>p</kbd></dt><dd>next, previous strong word</dd></div>
          <div><dt><kbd>.</kbd> <kbd>,</kbd></dt><dd>next, previous instance of the chosen word</dd></div>
          <div><dt><kbd>→</kbd> <kbd>←</kbd></dt><dd>next, previous word, in the text</dd></div>
          <div><dt><kbd>/</kbd></dt><dd>find</dd></div>
          <div><dt><kbd>1</kbd> … <kbd>9</kbd></dt><dd>method</dd></div>
          <div><dt><kbd>Esc</kbd></dt><dd>clear</dd></div>
        </dl>
      </details>
    </>
  );
}
