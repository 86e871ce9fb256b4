// The details panel: scores, instances and relations of the selected word, and the strongest words.

import { useMemo, useState } from "preact/hooks";
import { Check, Choice, Section } from "./choices";
import { count, ShareFormat, percent, plainNumber, plural, ranges, shortened } from "./format";
import type { Page, Relations } from "./hooks";
import { explanationOf, shownUnits, totalOf, wordTotal, type Picture } from "./reading";
import { order, rows, type Row } from "./ranking";
import type { Direction } from "./relations";
import type { Partner } from "./source";
import type { Links } from "./state";
import { difference, withoutUnits, type Trials } from "./trials";

const LISTED = 10;
const LISTED_INSTANCES = 30;
const LONGEST_PASSAGE = 900;

interface DetailsProperties {
  page: Page;
  picture: Picture;
  /** The selected unit, −1 for none. */
  unit: number;
  relations: Relations;
  trials: Trials;
  go(unit: number): void;
  clear(): void;
}

export function Details(properties: DetailsProperties) {
  return (
    <aside class={properties.unit >= 0 ? "details open" : "details"} aria-label="Details">
      {properties.unit >= 0 && <UnitCard {...properties} />}
      <Strongest {...properties} />
    </aside>
  );
}

function UnitCard(properties: DetailsProperties) {
  const { page, picture, unit, relations, go, clear } = properties;
  const { units } = picture;
  const tokens = units.tokens(unit);
  return (
    <section class="card" aria-label={`The ${units.level} “${shortened(units.text(unit))}”`} data-section="card">
      <header>
        <h2 dir="auto">{shortened(units.text(unit), 120)}</h2>
        <button type="button" class="close" aria-label="Close" title="Close (Esc)" onClick={clear}>
          ×
        </button>
      </header>
      <p class="quiet">
        {units.name(unit)} of {count(units.ordinary)}, token position{tokens.length > 1 ? "s" : ""} {ranges(tokens)}
      </p>
      <ArtefactNote picture={picture} unit={unit} />
      <Scores page={page} picture={picture} unit={unit} />
      <Instances picture={picture} unit={unit} go={go} />
      {page.source.predict && <WithoutUnit {...properties} />}
      <RelationLists page={page} picture={picture} relations={relations} go={go} />
    </section>
  );
}

/** Why the score of the selected unit says nothing about a word, if that is so. */
function ArtefactNote({ picture: { units, artefacts }, unit }: { picture: Picture; unit: number }) {
  const meaning = units.isSpecial(unit) ? "a special token stands for no word" : artefacts.get(unit);
  return meaning ? <p class="artefact-note" data-section="artefact">Artefact: {meaning}.</p> : null;
}

/** Run the model again without the selected unit, and show the new probability beside the old one. */
function WithoutUnit({ page, picture: { units, reading }, unit, trials }: DetailsProperties) {
  const { source } = page;
  const { prediction } = explanationOf(source.payload, reading);
  const change = `without “${shortened(units.text(unit), 30)}” (${units.name(unit)})`;
  const done = trials.list.find((trial) => trial.change === change);
  const place = { segment: units.segment[unit], start: units.start[unit], end: units.end[unit] };
  const now = done?.prediction.classes.find((one) => one.label === prediction.label)?.probability;
  return (
    <p class="without-unit" data-section="without-unit">
      <button type="button" data-control="try-without" disabled={trials.running} onClick={() => trials.run(withoutUnits(source, [place]), change)}>
        Try without it
      </button>{" "}
      {now !== undefined && `“${prediction.label}” ${percent(prediction.probability)} → ${percent(now)} (${difference(now - prediction.probability)})`}
      {trials.error}
    </p>
  );
}

interface MethodScore {
  method: string;
  title: string;
  target: string;
  score: number;
  rank: number;
  format: ShareFormat;
}

/** Score and rank of the unit under every explanation, with the current filters. */
function useScores(page: Page, picture: Picture, unit: number): MethodScore[] {
  const { source, model, state } = page;
  const all = useMemo(() => {
    const shown = shownUnits(picture.units, state.hide);
    return source.payload.explanations.map((one, number) => {
      const scores = picture.units.sums(model.scores[number]);
      return { one, scores, ordered: order(scores, shown), format: new ShareFormat(wordTotal(model, model.scores[number]), one.signed) };
    });
  }, [source, model, picture.units, state.hide]);
  return all.map(({ one, scores, ordered, format }) => ({
    method: one.method,
    title: one.title || one.method,
    target: one.target.name,
    score: scores[unit],
    rank: ordered.indexOf(unit) + 1,
    format,
  }));
}

function Scores({ page, picture, unit }: { page: Page; picture: Picture; unit: number }) {
  const scores = useScores(page, picture, unit);
  const { name: target } = explanationOf(page.source.payload, picture.reading).target;
  return (
    <table class="scores" data-section="scores">
      <caption>Share of the total of absolute word scores, and rank among {plural(picture.order.length, picture.units.level)}{picture.units.level === "word" && " and punctuation marks"}</caption>
      <thead>
        <tr>
          <th scope="col">method</th>
          <th scope="col">share</th>
          <th scope="col">rank</th>
        </tr>
      </thead>
      <tbody>
        {scores.map((one) => (
          <tr key={one.method + one.target} class={one.method === picture.reading.name && one.target === target ? "current" : ""}>
            <th scope="row">
              {one.title}
              {one.target !== target && <small> {one.target}</small>}
            </th>
            <td title={one.format.raw(one.score)}>{one.format.share(one.score)}</td>
            <td>{one.rank ? count(one.rank) : "excluded"}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Instances({ picture, unit, go }: { picture: Picture; unit: number; go(unit: number): void }) {
  const { units, scores, format } = picture;
  const instances = useMemo(() => units.instances(unit), [units, unit]);
  if (instances.length < 2 || units.level === "paragraph") return null;
  const sum = instances.reduce((total, one) => total + scores[one], 0);
  const here = instances.indexOf(unit);
  const step = (by: number) => go(instances[(here + by + instances.length) % instances.length]);
  return (
    <div class="instances" data-section="instances">
      <p>
        Instance {here + 1} of {count(instances.length)}, together <span title={format.raw(sum)}>{format.share(sum)}</span>{" "}
        <button type="button" aria-label="Previous instance" title="Previous instance (,)" onClick={() => step(-1)}>
          ↑
        </button>
        <button type="button" aria-label="Next instance" title="Next instance (.)" onClick={() => step(1)}>
          ↓
        </button>
      </p>
      <details>
        <summary>All instances</summary>
        <ol>
          {instances.slice(0, LISTED_INSTANCES).map((one) => (
            <li key={one} class={one === unit ? "current" : ""}>
              <button type="button" onClick={() => go(one)}>
                {units.name(one)}
              </button>
              <span title={format.raw(scores[one])}>{format.share(scores[one])}</span>
            </li>
          ))}
        </ol>
        {instances.length > LISTED_INSTANCES && <p class="quiet">and {count(instances.length - LISTED_INSTANCES)} more</p>}
      </details>
    </div>
  );
}

const LINK_NAMES: Record<Links, string> = { both: "both", attended: "to", attending: "from", none: "none" };

function RelationLists(properties: { page: Page; picture: Picture; relations: Relations; go(unit: number): void }) {
  const { page, picture, relations, go } = properties;
  const { state, set } = page;
  if (relations.missing) return <p class="quiet" data-section="relations">{relations.missing}</p>;
  const where = [
    state.layers.length ? `layer ${state.layers.join(", ")}` : "all layers",
    state.heads.length ? `head ${state.heads.join(", ")}` : "mean over heads",
  ].join(", ");
  return (
    <div class="relations" data-section="relations">
      <p class="quiet">
        Attention, {where}.
      </p>
      <div class="row">
        <span class="quiet">lines</span>
        <Choice
          id="links"
          label="Lines drawn in the text"
          options={(Object.keys(LINK_NAMES) as Links[]).map((value) => ({ value, text: LINK_NAMES[value] }))}
          value={state.links}
          choose={(links) => set({ links })}
        />
      </div>
      {relations.lists && (
        <>
          <PartnerList title="Attends to" direction="attended" partners={relations.lists.attended} picture={picture} go={go} />
          <PartnerList title="Attended by" direction="attending" partners={relations.lists.attending} picture={picture} go={go} />
        </>
      )}
    </div>
  );
}

function PartnerList(properties: {
  title: string;
  direction: Direction;
  partners: Partner[];
  picture: Picture;
  go(unit: number): void;
}) {
  const { title, direction, partners, picture, go } = properties;
  const most = partners[0]?.[1] ?? 0;
  return (
    <>
      <h3 class={direction}>{title}</h3>
      <ol class="partners" data-direction={direction}>
        {partners.map(([unit, weight]) => (
          <li key={unit}>
            <button type="button" title={picture.units.name(unit)} onClick={() => go(unit)}>
              <bdi>{shortened(picture.units.text(unit), 40)}</bdi> <small>{picture.units.name(unit).replace(/\D+/, "")}</small>
            </button>
            <span class={`bar ${direction}`}>
              <i style={{ width: `${most ? (100 * weight) / most : 0}%` }} />
            </span>
            <span>{plainNumber(weight)}</span>
          </li>
        ))}
        {partners.length === 0 && <li class="quiet">none</li>}
      </ol>
    </>
  );
}

function Strongest({ page, picture, go }: DetailsProperties) {
  const [merge, setMerge] = useState(true);
  const { units, scores, listed, reading, format, scale } = picture;
  const all = useMemo(
    () => rows(scores, listed, (unit) => units.key(unit), (unit) => units.text(unit), merge),
    [picture, merge],
  );
  const { label } = explanationOf(page.source.payload, reading).target;
  const hue = `-${scale.starts.length}`;
  const sides = !reading.signed
    ? [{ name: "plain", title: reading.explanation === null ? "Most attention received" : `Most important for ${label}`, sign: 1 }]
    : [
        { name: "for", title: `For ${label}`, sign: 1 },
        { name: "against", title: `Against ${label}`, sign: -1 },
      ];
  const largest = all.reduce((most, row) => Math.max(most, Math.abs(row.score)), 0);
  const passages = units.level === "sentence" || units.level === "paragraph";
  return (
    <Section title={`Strongest ${units.level}s`} name="strongest" hint="Shares of the total of absolute word scores">
      {!passages && <Check id="merge" label="combine repeated words" checked={merge} change={setMerge} />}
      <div class={passages ? "sides passages-listed" : "sides"}>
        {sides.map(({ name, title, sign }) => {
          const best = all.filter((row) => row.score * sign > 0).sort((a, b) => Math.abs(b.score) - Math.abs(a.score) || a.unit - b.unit);
          return (
            <table key={name} data-side={name}>
              <caption>
                <i class={name + hue} />
                {title}
              </caption>
              <tbody>
                {best.slice(0, LISTED).map((row) => (
                  <StrongestRow key={row.unit} row={row} bar={Math.abs(row.score) / largest} hue={name + hue} format={format} whole={passages} go={go} />
                ))}
                {best.length === 0 && (
                  <tr>
                    <td class="quiet">none</td>
                  </tr>
                )}
              </tbody>
            </table>
          );
        })}
      </div>
      <p class="quiet">
        The {picture.peaks.length === 1 ? "strongest" : `${count(picture.peaks.length)} strongest`} of {plural(picture.order.length, units.level)}
        {units.level === "word" && ", punctuation marks included,"} {picture.peaks.length === 1 ? "has" : "have"} {percent(shareOfPeaks(picture))} of the
        total; spread evenly, {picture.peaks.length === 1 ? "it" : "they"} would have {percent(picture.peaks.length / Math.max(1, units.ordinary))}.
      </p>
      <p class="quiet" data-section="unit-of-shares">
        Shares of the total of absolute word scores, not of the probability.
      </p>
      <LeftOut page={page} picture={picture} />
    </Section>
  );
}

/** The switch for fillers in lists, and the share of the total that the list leaves out. */
export function LeftOut({ page: { state, set }, picture }: { page: Page; picture: Picture }) {
  const { scores, shown, listed, format } = picture;
  const share = format.of(totalOf(scores, shown) - totalOf(scores, listed));
  const kinds = picture.artefacts.size ? "stop words, punctuation and artefacts" : "stop words and punctuation";
  return (
    <p class="quiet left-out" data-section="left-out">
      {state.list === "content" && share > 0 && (
        <>The list leaves out {kinds}, {percent(Math.min(1, share))} of the total. </>
      )}
      {(state.list === "all" || share > 0) && (
        <Check id="list-all" label="list them too" checked={state.list === "all"} change={(on) => set({ list: on ? "all" : "content" })} />
      )}
    </p>
  );
}

function shareOfPeaks({ peaks, scores, format }: Picture): number {
  return format.of(peaks.reduce((sum, unit) => sum + Math.abs(scores[unit]), 0));
}

function StrongestRow(properties: { row: Row; bar: number; hue: string; format: ShareFormat; whole: boolean; go(unit: number): void }) {
  const { row, bar, hue, format, whole, go } = properties;
  return (
    <tr>
      <td>
        <button type="button" title={whole ? undefined : shortened(row.text, 200)} onClick={() => go(row.unit)}>
          <bdi>{whole ? shortened(row.text, LONGEST_PASSAGE) : shortened(row.text, 60)}</bdi>
          {row.count > 1 && <small> × {count(row.count)}</small>}
        </button>
        <i class={hue} style={{ width: `${100 * bar}%` }} />
      </td>
      <td title={format.raw(row.score)}>{format.share(row.score)}</td>
    </tr>
  );
}
