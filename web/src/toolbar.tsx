// One line of tools above the text: what the colours mean, the strong words, search, level, method, and the rest on demand.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Check, Choice, Select, Slider } from "./choices";
import { count, plural, shortened } from "./format";
import type { Page } from "./hooks";
import { LEVELS } from "./payload";
import { decidingTokens, explanationOf, layersArray, titleOf, type Picture } from "./reading";
import { HIDABLE, LINKS, readingNames, type State } from "./state";

const HIDDEN_NAMES = { specials: "special tokens", stopwords: "stop words", punctuation: "punctuation" } as const;

interface ToolbarProperties {
  page: Page;
  picture: Picture;
  unit: number;
  matches: number[][];
  go(unit: number): void;
  step(by: number): void;
  children: ComponentChildren;
}

export function Toolbar({ page, picture, unit, matches, go, step, children }: ToolbarProperties) {
  const { source: { payload }, state, set } = page;
  const { level } = picture.units;
  const names = readingNames(payload);
  const targets = [...new Set(payload.explanations.filter((one) => one.method === state.method).map((one) => one.target.name))];
  return (
    <div class="toolbar" role="toolbar" aria-label="Tools of the text">
      <Key picture={picture} deciding={decidingTokens(page, picture).length > 0} />
      <span class="steps" role="group" aria-label={`Strong ${level}s`}>
        <button type="button" data-control="previous" aria-label={`Previous strong ${level}`} title={`Previous strong ${level} (key p)`} onClick={() => step(-1)}>
          ↑
        </button>
        <button type="button" data-control="next" title={`Next strong ${level} (key n)`} onClick={() => step(1)}>
          <span aria-hidden="true">↓</span> next strong {level}
        </button>
      </span>
      <Find page={page} picture={picture} matches={matches} go={go} />
      <Select
        id="level"
        label="Show"
        options={[...LEVELS.map((one) => ({ value: one as string, text: `${one}s` })), { value: "outline", text: "outline" }]}
        value={state.layout === "outline" ? "outline" : state.level}
        choose={(value) => set(value === "outline" ? { layout: "outline" } : { layout: "text", level: value as State["level"] })}
      />
      <Select
        id="method"
        label="Method"
        options={names.map((name) => ({ value: name, text: titleOf(payload, name), hint: name }))}
        value={state.method}
        choose={(method) => set({ method })}
      />
      {targets.length > 1 && (
        <Select
          id="target"
          label="Class"
          options={targets.map((name) => ({ value: name, text: name }))}
          value={explanationOf(payload, picture.reading).target.name}
          choose={(target) => set({ target })}
        />
      )}
      {children}
      <Appearance page={page} picture={picture} />
      <span class="status unseen" role="status" aria-live="polite">
        {describe(picture, unit)}
      </span>
    </div>
  );
}

/** What the colours mean. */
function Key({ picture: { reading, scale }, deciding }: { picture: Picture; deciding: boolean }) {
  const strong = Math.ceil(0.7 * scale.starts.length);
  return (
    <span class="key" data-section="key">
      {reading.signed ? (
        <>
          <span><i class={`for-${strong}`} />for <span class="class-name">{reading.label}</span></span>
          <span><i class={`against-${strong}`} />against</span>
        </>
      ) : (
        <span><i class={`plain-${strong}`} />{reading.explanation === null ? "attention received" : "important"}</span>
      )}
      {deciding && <span><i class="deciding" />tested words</span>}
    </span>
  );
}

function Find({ page: { state, set }, picture, matches, go }: Pick<ToolbarProperties, "page" | "picture" | "matches" | "go">) {
  // Belongs to the matches it counts: a reset after the next frame would undo an Enter typed right after the query.
  const [stepped, setStepped] = useState<{ matches: number[][]; match: number } | null>(null);
  const match = stepped?.matches === matches ? stepped.match : -1;
  const stepMatch = (by: number) => {
    if (!matches.length) return;
    const next = (Math.max(match, by > 0 ? -1 : 0) + by + matches.length) % matches.length;
    setStepped({ matches, match: next });
    go(matches[next][0]);
  };
  return (
    <form
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        stepMatch(1);
      }}
    >
      <input
        type="search"
        data-control="find"
        aria-label="Find in the document"
        placeholder="Find  /"
        value={state.find}
        onInput={(event) => set({ find: event.currentTarget.value })}
        onKeyDown={(event) => {
          if (event.key === "Enter" && event.shiftKey) {
            event.preventDefault();
            stepMatch(-1);
          }
        }}
      />
      {state.find && (
        <>
          <button type="button" aria-label="Previous match" onClick={() => stepMatch(-1)}>↑</button>
          <button type="submit" aria-label="Next match">↓</button>
          <span class="matches">{describeMatches(picture, matches, match, state.find)}</span>
        </>
      )}
    </form>
  );
}

/** "3 of 13 matches, 11 of them whole words": a search also finds parts of words, a list of instances does not. */
function describeMatches({ units }: Picture, matches: number[][], match: number, query: string): string {
  if (!matches.length) return "no match";
  const key = query.trim().toLowerCase();
  const whole = matches.filter((touched) => touched.length === 1 && units.key(touched[0]) === key).length;
  const place = match >= 0 ? `${match + 1} of ` : "";
  const parts = whole && whole < matches.length ? `, ${count(whole)} of them whole ${units.level}s` : "";
  return `${place}${count(matches.length)} match${matches.length === 1 ? "" : "es"}${parts}`;
}

/** One line about the selected unit, or about the document, for screen readers. */
function describe({ units, scores, ranks, format, order, peaks }: Picture, unit: number): string {
  if (unit < 0) return `${plural(peaks.length, `strong ${units.level}`)} of ${count(order.length)}.`;
  const rank = ranks[unit] ? `rank ${count(ranks[unit])} of ${count(order.length)}` : "excluded";
  const peak = peaks.indexOf(unit);
  const which = peak >= 0 ? `, strong ${units.level} ${peak + 1} of ${peaks.length}` : "";
  return `“${shortened(units.text(unit), 24)}” ${format.share(scores[unit])} of the total, ${rank}${which}`;
}

// Slider positions 0 … 100 map to exponents from 2 (strongest words only) to 0.28 (all words).
const exponent = (place: number) => 2 * 0.14 ** (place / 100);
const place = (gamma: number) => (100 * Math.log(gamma / 2)) / Math.log(0.14);
const LINK_NAMES: Record<State["links"], string> = { both: "both", attended: "to", attending: "from", none: "none" };

/** How scores become colours, what is left out, and a second method beside the first. */
function Appearance({ page, picture }: { page: Page; picture: Picture }) {
  const { source: { payload }, state, set } = page;
  const others = readingNames(payload).filter((name) => name !== state.method);
  return (
    <details class="appearance floating" data-section="appearance">
      <summary>More</summary>
      <div class="popover">
        {others.length > 0 && (
          <Select
            id="compare"
            label="Beside it"
            options={[{ value: "", text: "no other method" }, ...others.map((name) => ({ value: name, text: titleOf(payload, name) }))]}
            value={state.compare}
            choose={(compare) => set({ compare })}
          />
        )}
        <Choice
          id="scale"
          title="Colour"
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
            title="Strongest"
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
        <fieldset class="checks">
          <legend title="Neither coloured nor ranked nor listed">Leave out</legend>
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
        {payload.inside && (
          <Choice
            id="links"
            title="Attention"
            label="Arcs of attention drawn from the selected word"
            options={LINKS.map((value) => ({ value, text: LINK_NAMES[value] }))}
            value={state.links}
            choose={(links) => set({ links })}
          />
        )}
      </div>
    </details>
  );
}

/** Whether there are other classes or layers to share the colour scale with. */
function hasRange({ source: { payload }, state }: Page, { reading }: Picture): boolean {
  return layersArray(payload, reading) !== null || payload.explanations.filter((one) => one.method === state.method).length > 1;
}
