// Consensus: the words on which the chosen methods agree, with the agreement expected by chance.

import { useMemo, useState } from "preact/hooks";
import { Check, Choice } from "./choices";
import { agreement, expectedByChance, highest, writtenExpectation } from "./consensus";
import type { Units } from "./document";
import { count, plural, shortened } from "./format";
import { FLAG } from "./payload";
import type { ViewProperties } from "./views";

const SIZES = [5, 10, 20, 50, 100];
const FILLER = FLAG.stopWord | FLAG.punctuation;

interface Word {
  text: string;
  units: number[];
  filler: boolean;
}

export function ConsensusView({ page, picture }: ViewProperties) {
  const { source, model, set } = page;
  const { explanations, consensus } = source.payload;
  const { k: usual, words } = consensus!;
  const target = explanations[picture.reading.explanation ?? 0].target.name;
  const methods = useMemo(
    () => explanations.flatMap((one, number) => (one.target.name === target ? [{ number, title: one.title || one.method }] : [])),
    [explanations, target],
  );
  const [left, setLeft] = useState<number[]>([]);
  const [k, setK] = useState(usual);
  const units = model.units("word");
  const chosen = methods.filter(({ number }) => !left.includes(number));
  const found = useMemo(
    () => agreement(chosen.map(({ number }) => highest(units, model.scores[number], k))),
    [units, model, k, target, left],
  );
  const toggle = (number: number) => setLeft(left.includes(number) ? left.filter((one) => one !== number) : [...left, number]);
  const show = (unit: number) => set({ view: "read", level: "word", unit: units.tokens(unit)[0] });
  const sizes = [...new Set([...SIZES.filter((size) => size <= words), usual])].sort((a, b) => a - b);
  const label = explanations[picture.reading.explanation ?? 0].target.label;
  return (
    <div class="consensus">
      <h2>Words that the methods agree on</h2>
      <div class="row">
        <fieldset class="checks" data-control="consensus-methods">
          <legend>Methods</legend>
          {methods.map(({ number, title }) => (
            <Check key={number} label={title} checked={!left.includes(number)} change={() => toggle(number)} />
          ))}
        </fieldset>
        <Choice
          id="consensus-size"
          title="Words each"
          label="How many of its highest-ranked words each method names"
          options={sizes.map((size) => ({ value: String(size), text: count(size) }))}
          value={String(k)}
          choose={(value) => setK(Number(value))}
        />
      </div>
      {chosen.length < 2 ? (
        <p class="empty">Choose at least two methods.</p>
      ) : (
        <>
          <p class="finding" data-section="finding">
            <b>{names(chosen.map(({ title }) => title))}</b> agree on <b>{plural(found.all.length, "word")}</b>{different(units, found.all)} of the {count(k)} that each
            ranks highest for {label}. By chance, {writtenExpectation(expectedByChance(words, k, chosen.length))} would be expected.
          </p>
          <Scale agreed={found.all.length} expected={expectedByChance(words, k, chosen.length)} k={k} />
          {found.groups.map(({ votes, units: group }) => (
            <WordList
              key={votes}
              title={votes === chosen.length ? `Named by ${votes === 2 ? "both" : `all ${votes}`} methods` : `Named by ${votes} of ${chosen.length}`}
              note={`${plural(group.length, "word")}, by chance ${writtenExpectation(expectedByChance(words, k, chosen.length, votes))}`}
              words={merged(units, group)}
              show={show}
            />
          ))}
          <p class="quiet">
            Every occurrence of a word counts. Chance: methods that pick {count(k)} of the {count(words)} occurrences at random. Methods that share an
            idea agree more often than that, and so do methods that give all occurrences of a word similar scores: agreement alone is no proof;
            the check shows whether the words matter.
          </p>
        </>
      )}
    </div>
  );
}

/** " (2 different ones)" if words are repeated among these units. */
function different(units: Units, list: number[]): string {
  const keys = new Set(list.map((unit) => units.key(unit)));
  return keys.size < list.length ? ` (${keys.size === 1 ? "all the same" : `${count(keys.size)} different ones`})` : "";
}

/** How many words agree on a line from 0 to k, with the number expected by chance. */
function Scale({ agreed, expected, k }: { agreed: number; expected: number; k: number }) {
  const place = (value: number) => `${Math.min(100, (100 * value) / k)}%`;
  return (
    <div class="agreed-scale" role="img" aria-label={`${agreed} of ${k} words agree; ${writtenExpectation(expected)} by chance`}>
      <i class="agreed" style={{ width: place(agreed) }} />
      <i class="chance" style={{ left: place(expected) }} title="Expected by chance" />
      <span>0</span>
      <span>{count(k)}</span>
    </div>
  );
}

function WordList({ title, note, words, show }: { title: string; note: string; words: Word[]; show(unit: number): void }) {
  return (
    <section data-section="agreed-words">
      <h3>
        {title} <small>{note}</small>
      </h3>
      <ul>
        {words.map(({ text, units, filler }) => (
          <li key={text} class={filler ? "filler" : ""}>
            <button type="button" title={filler ? "A stop word or punctuation. Show in the text" : "Show in the text"} onClick={() => show(units[0])}>
              <bdi>{shortened(text, 40)}</bdi>
              {units.length > 1 && <small> × {count(units.length)}</small>}
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Instances of one word as one entry, words with content first. */
function merged(units: Units, list: number[]): Word[] {
  const words = new Map<string, Word>();
  for (const unit of list) {
    const word = words.get(units.key(unit));
    if (word) word.units.push(unit);
    else words.set(units.key(unit), { text: units.text(unit), units: [unit], filler: (units.flags(unit) & FILLER) !== 0 });
  }
  const all = [...words.values()];
  return [...all.filter(({ filler }) => !filler), ...all.filter(({ filler }) => filler)];
}

function names(titles: string[]): string {
  return `${titles.slice(0, -1).join(", ")} and ${titles.at(-1)}`;
}
