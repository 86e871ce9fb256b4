// The small controls that the panels are made of.

import { useState } from "preact/hooks";

interface Option<T> {
  value: T;
  text: string;
  hint?: string;
}

let groups = 0;

/** A row of alternatives, one of them chosen; a radio group for keyboard and screen reader. */
export function Choice<T extends string>(properties: {
  label: string;
  options: Option<T>[];
  value: T;
  choose(value: T): void;
  id: string;
  /** Shown before the options. */
  title?: string;
}) {
  const { label, options, value, choose, id, title } = properties;
  // Several views may share a page (a notebook), but no two radio groups may share a name.
  const [name] = useState(() => `sightline-choice-${groups++}`);
  return (
    <div class="choice" role="radiogroup" aria-label={label} data-control={id}>
      {title && <span class="title" title={label}>{title}</span>}
      <div class="options">
        {options.map((option) => (
          <label key={option.value} title={option.hint}>
            <input
              type="radio"
              name={name}
              value={option.value}
              checked={option.value === value}
              onChange={() => choose(option.value)}
            />
            <span>{option.text}</span>
          </label>
        ))}
      </div>
    </div>
  );
}

/** A list of alternatives that opens, with its name before it. */
export function Select(properties: { id: string; label: string; options: Option<string>[]; value: string; choose(value: string): void }) {
  const { id, label, options, value, choose } = properties;
  return (
    <label class="field">
      <span>{label}</span>
      <select data-control={id} aria-label={label} value={value} onChange={(event) => choose(event.currentTarget.value)}>
        {options.map((option) => (
          <option key={option.value} value={option.value} title={option.hint}>{option.text}</option>
        ))}
      </select>
    </label>
  );
}

/** Numbers of layers or heads of which any may be chosen; none chosen means all. */
export function Numbers(properties: {
  label: string;
  count: number;
  chosen: number[];
  choose(chosen: number[]): void;
  id: string;
}) {
  const { label, count, chosen, choose, id } = properties;
  const toggle = (number: number) =>
    choose(chosen.includes(number) ? chosen.filter((one) => one !== number) : [...chosen, number].sort((a, b) => a - b));
  return (
    <fieldset class="numbers" data-control={id}>
      <legend>{label}</legend>
      <button type="button" aria-pressed={chosen.length === 0} onClick={() => choose([])}>
        all
      </button>
      {Array.from({ length: count }, (_, number) => (
        <button
          type="button"
          key={number}
          aria-pressed={chosen.includes(number)}
          aria-label={`${label.replace(/s$/, "")} ${number}`}
          onClick={() => toggle(number)}
        >
          {number}
        </button>
      ))}
    </fieldset>
  );
}

export function Check(properties: { label: string; checked: boolean; change(checked: boolean): void; id?: string }) {
  const { label, checked, change, id } = properties;
  return (
    <label class="check" data-control={id}>
      <input type="checkbox" checked={checked} onChange={(event) => change(event.currentTarget.checked)} />
      <span>{label}</span>
    </label>
  );
}

export function Slider(properties: {
  label: string;
  value: number;
  max: number;
  step: number;
  change(value: number): void;
  text?: string;
  /** What it does, in a sentence. */
  hint?: string;
  id: string;
}) {
  const { label, value, max, step, change, text, hint, id } = properties;
  return (
    <label class="slider" data-control={id} title={hint}>
      <span>{label}</span>
      <input
        type="range"
        min={0}
        max={max}
        step={step}
        value={value}
        aria-valuetext={text}
        onInput={(event) => change(Number(event.currentTarget.value))}
      />
      {text !== undefined && <output>{text}</output>}
    </label>
  );
}
