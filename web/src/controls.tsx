// The panel next to the text: prediction, verdict, method and colours.

import { Check, Choice, Numbers, Section, Slider } from "./choices";
import { percent } from "./format";
import type { Page } from "./hooks";
import { Legend } from "./legend";
import { LEVELS, type ExplanationData } from "./payload";
import { explanationOf, layersArray, titleOf, type Picture } from "./reading";
import { HIDABLE, layerCount, readingNames } from "./state";
import { WithoutWords } from "./summary";
import { unbroken } from "./unbroken";
import { Verdict, verdictOf } from "./verdict";
import type { Setting } from "./views";
import { WindowList } from "./windows";

const HIDDEN_NAMES = { specials: "special tokens", stopwords: "stop words", punctuation: "punctuation" } as const;

/** Result, trust, method and legend; everything else is under “Appearance”, as far as the view uses it. */
export function Controls({ page, picture, uses }: { page: Page; picture: Picture; uses: readonly Setting[] }) {
  const explanation = explanationOf(page.source.payload, picture.reading);
  const checked = picture.reading.explanation !== null;
  return (
    <aside class="controls" aria-label="Explanation and settings">
      <Prediction explanation={explanation} />
      <WindowList data={page.source.payload.document} />
      <Section title="How far to trust the explanation" name="verdict">
        <Verdict verdict={verdictOf(page.source.payload, picture.reading)} note={layersNote(page, picture)} />
        {checked && <WithoutWords explanation={explanation} />}
      </Section>
      {uses.includes("method") && <Method page={page} picture={picture} explanation={explanation} uses={uses} />}
      {uses.includes("legend") && (
        <Section title="Colours" name="colour">
          <Legend picture={picture} />
        </Section>
      )}
      {uses.includes("units") && <UnitChoice page={page} />}
      <Appearance page={page} picture={picture} uses={uses} />
      <Further explanation={explanation} checked={checked} />
    </aside>
  );
}

/** The check applies to the whole explanation, not to single layers. */
function layersNote({ source, state }: Page, { reading }: Picture): string | undefined {
  const single = reading.explanation !== null && state.layers.length > 0 && layersArray(source.payload, reading) !== null;
  return single ? "The check applies to all layers together, not to the layers selected below." : undefined;
}

function Prediction({ explanation }: { explanation: ExplanationData }) {
  const { prediction, target } = explanation;
  return (
    <Section title="Prediction" name="prediction">
      <p class="said">
        {prediction.label} <small>{prediction.value ?? percent(prediction.probability)}</small>
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
      <p class="quiet target">Explained: {target.description}.</p>
    </Section>
  );
}

function Method(properties: { page: Page; picture: Picture; explanation: ExplanationData; uses: readonly Setting[] }) {
  const { page, picture, explanation, uses } = properties;
  const { source, state, set } = page;
  const { payload } = source;
  const names = readingNames(payload);
  const own = payload.explanations.filter((one) => one.method === state.method);
  const targets = [...new Set(own.map((one) => one.target.name))];
  return (
    <Section title="Method" name="method">
      <Choice
        id="method"
        label="Method"
        options={names.map((name) => ({ value: name, text: titleOf(payload, name), hint: name }))}
        value={state.method}
        choose={(method) => set({ method })}
      />
      {targets.length > 1 && (
        <Choice
          id="target"
          title="Target"
          label="Target"
          options={targets.map((name) => ({ value: name, text: name }))}
          value={explanation.target.name}
          choose={(target) => set({ target })}
        />
      )}
      <p class="quiet summary">
        {picture.reading.explanation === null
          ? "Attention received by each token, summed over all attending tokens and averaged over layers and heads. It shows where the model looks, not why it decides."
          : explanation.summary}
      </p>
      {picture.reading.explanation !== null && explanation.formula && (
        <details class="formula">
          <summary>Formula</summary>
          <code>{explanation.formula}</code>
        </details>
      )}
      {uses.includes("compare") && names.length > 1 && (
        <label class="field">
          <span>Compare with</span>
          <select
            data-control="compare"
            value={state.compare}
            onChange={(event) => set({ compare: event.currentTarget.value })}
          >
            <option value="">none</option>
            {names
              .filter((name) => name !== state.method)
              .map((name) => (
                <option key={name} value={name}>
                  {titleOf(payload, name)}
                </option>
              ))}
          </select>
        </label>
      )}
    </Section>
  );
}

// Slider positions 0 … 100 map to exponents from 2 (strongest words only) to 0.28 (all words).
const exponent = (place: number) => 2 * 0.14 ** (place / 100);
const place = (gamma: number) => (100 * Math.log(gamma / 2)) / Math.log(0.14);

function UnitChoice({ page: { state, set } }: { page: Page }) {
  return (
    <Choice
      id="level"
      title="Units"
      label="Units that are coloured and listed; the score of a word, sentence or paragraph is the sum over its tokens"
      options={LEVELS.map((level) => ({ value: level, text: level + "s" }))}
      value={state.level}
      choose={(level) => set({ level })}
    />
  );
}

function Appearance({ page, picture, uses }: { page: Page; picture: Picture; uses: readonly Setting[] }) {
  if (!uses.includes("colours") && !uses.includes("exclude") && !uses.includes("inside")) return null;
  return (
    <details class="appearance" data-section="appearance">
      <summary>Appearance</summary>
      {uses.includes("colours") && <Colour page={page} picture={picture} />}
      {uses.includes("exclude") && <Exclude page={page} />}
      {uses.includes("inside") && <Inside page={page} picture={picture} />}
    </details>
  );
}

function Colour({ page, picture }: { page: Page; picture: Picture }) {
  const { state, set } = page;
  return (
    <>
      <Choice
        id="scale"
        title="Scale"
        label="How scores are mapped to colours"
        options={[
          { value: "gamma", text: "by score", hint: "Colours grow with the score" },
          { value: "quantile", text: "by rank", hint: "Every colour step has the same number of words, however close their scores are" },
        ]}
        value={state.scale}
        choose={(scale) => set({ scale })}
      />
      {(state.range !== "relative" || hasRange(page, picture)) && (
        <Choice
          id="range"
          title="Strongest colour"
          label="Score with the strongest colour"
          options={[
            { value: "relative", text: "whole explanation", hint: "The strongest score of the whole explanation, also when single layers are shown" },
            { value: "selection", text: "selected layers", hint: "The strongest score of what is shown at the moment" },
            {
              value: "absolute",
              text: "all classes and layers",
              hint: "The strongest score over all classes and layers of this method, so that equal scores have equal colours",
            },
          ]}
          value={state.range}
          choose={(range) => set({ range })}
        />
      )}
      {state.scale === "gamma" && (
        <Slider
          id="gamma"
          label="Emphasize weak words"
          hint="Further right, words with low scores get more colour"
          value={place(state.gamma)}
          max={100}
          step={5}
          change={(value) => set({ gamma: exponent(value) })}
        />
      )}
      <Slider
        id="threshold"
        label="Minimum score"
        hint="Words below this share of the strongest score are not coloured"
        value={100 * state.threshold}
        max={100}
        step={1}
        text={`${Math.round(100 * state.threshold)} %`}
        change={(value) => set({ threshold: value / 100 })}
      />
    </>
  );
}

function Exclude({ page: { state, set } }: { page: Page }) {
  return (
    <fieldset class="checks">
      <legend title="Neither coloured nor ranked nor listed">Exclude</legend>
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
  );
}

/** Whether there are other classes or layers to share the colour scale with. */
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
    <div data-section="inside">
      <Numbers id="layers" label="Layers" count={layers} chosen={state.layers} choose={(chosen) => set({ layers: chosen })} />
      {heads > 0 && (
        <Numbers id="heads" label="Heads" count={heads} chosen={state.heads} choose={(chosen) => set({ heads: chosen })} />
      )}
      {state.layers.length > 0 && !layered && (
        <p class="quiet">{picture.reading.title} has no scores per layer on this page; the selection applies to relations only.</p>
      )}
    </div>
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
              <li key={sentence}>{unbroken(sentence)}</li>
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
          <div><dt><kbd>.</kbd> <kbd>,</kbd></dt><dd>next, previous instance of the selected word</dd></div>
          <div><dt><kbd>→</kbd> <kbd>←</kbd></dt><dd>next, previous word</dd></div>
          <div><dt><kbd>/</kbd></dt><dd>find</dd></div>
          <div><dt><kbd>1</kbd> … <kbd>9</kbd></dt><dd>method</dd></div>
          <div><dt><kbd>Esc</kbd></dt><dd>clear</dd></div>
        </dl>
      </details>
    </>
  );
}
