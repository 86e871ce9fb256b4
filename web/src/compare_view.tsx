// Compare methods: how far each can be trusted, the words on which they agree beside the agreement expected by chance, and
// all words with their score under every method.

import { useMemo, useState } from "preact/hooks";
import { Finding } from "./answer";
import { Check, Choice } from "./choices";
import { agreement, expectedByChance, highest, writtenExpectation } from "./consensus";
import type { Units } from "./document";
import { count, plural, shortened } from "./format";
import { FLAG } from "./payload";
import { explanationOf } from "./reading";
import { Mark } from "./verdict";
import type { ViewProperties } from "./views";
import { WordTable } from "./word_table";

const SIZES = [5, 10, 20, 50, 100];
const FILLER = FLAG.stopWord | FLAG.punctuation;

interface Word {
  text: string;
  units: number[];
  filler: boolean;
}

export function CompareView(properties: ViewProperties) {
  const { page, picture } = properties;
  const { source, model, state, set } = page;
  const { payload } = source;
  const { explanations } = payload;
  const { name: target, label } = explanationOf(payload, picture.reading).target;
  const methods = useMemo(
    () => explanations.flatMap((one, number) => (one.target.name === target ? [{ number, name: one.method, title: one.title || one.method }] : [])),
    [explanations, target],
  );
  const { k: usual, words } = payload.consensus ?? { k: 0, words: 0 };
  const [left, setLeft] = useState<number[]>([]);
  const [k, setK] = useState(usual);
  const units = model.units("word");
  const chosen = methods.filter(({ number }) => !left.includes(number));
  const found = useMemo(
    () => agreement(chosen.map(({ number }) => highest(units, model.scores[number], k))),
    [units, model, k, target, left],
  );
  const toggle = (number: number) => setLeft(left.includes(number) ? left.filter((one) => one !== number) : [...left, number]);
  const show = (unit: number) => set({ view: "text", layout: "text", level: "word", unit: units.tokens(unit)[0] });
  const sizes = [...new Set([...SIZES.filter((size) => size <= words), usual])].sort((a, b) => a - b);
  const several = methods.length > 1;
  return (
    <div class="compare">
      {!several ? (
        <Finding note="Name several methods (--methods attnlrp,alti,rollout) to see which words they agree on.">
          Only <b>{methods[0]?.title}</b> explains {label} on this page.
        </Finding>
      ) : chosen.length < 2 ? (
        <Finding>Choose at least two methods.</Finding>
      ) : (
        <Finding note={`By chance, ${writtenExpectation(expectedByChance(words, k, chosen.length))} would be expected. Methods that share an idea agree more often: agreement alone is no proof.`}>
          <b>{names(chosen.map(({ title }) => title))}</b> agree on <b>{plural(found.all.length, "word")}</b>{different(units, found.all)} of
          the {count(k)} that each ranks highest for {label}.
        </Finding>
      )}
      <table class="methods" data-section="methods">
        <thead>
          <tr>
            <th scope="col">method</th>
            <th scope="col">how far to trust it</th>
            <th scope="col"><span class="unseen">actions</span></th>
          </tr>
        </thead>
        <tbody>
          {methods.map(({ number, name, title }) => (
            <tr key={number}>
              <th scope="row">
                {several ? <Check id={`consensus-${number}`} label={title} checked={!left.includes(number)} change={() => toggle(number)} /> : title}
              </th>
              <td><Mark verdict={explanations[number].verdict} /></td>
              <td>
                {name !== state.method && (
                  <button type="button" onClick={() => set({ view: "text", layout: "text", compare: name })}>read beside {picture.reading.title}</button>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {several && chosen.length > 1 && (
        <>
          <Choice
            id="consensus-size"
            title="Words each"
            label="How many of its highest-ranked words each method names"
            options={sizes.map((size) => ({ value: String(size), text: count(size) }))}
            value={String(k)}
            choose={(value) => setK(Number(value))}
          />
          {found.groups.map(({ votes, units: group }) => (
            <WordList
              key={votes}
              title={votes === chosen.length ? `Named by ${votes === 2 ? "both" : `all ${votes}`} methods` : `Named by ${votes} of ${chosen.length}`}
              note={`${plural(group.length, "word")}, by chance ${writtenExpectation(expectedByChance(words, k, chosen.length, votes))}`}
              words={merged(units, group)}
              show={show}
            />
          ))}
        </>
      )}
      <h2>All {picture.units.level}s</h2>
      <WordTable {...properties} />
    </div>
  );
}

/** " (2 different ones)" if words are repeated among these units. */
function different(units: Units, list: number[]): string {
  const keys = new Set(list.map((unit) => units.key(unit)));
  return keys.size < list.length ? ` (${keys.size === 1 ? "all the same" : `${count(keys.size)} different ones`})` : "";
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
