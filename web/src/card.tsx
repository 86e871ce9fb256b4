// The selected word: its score under every method, its instances, and what it attends to.

import { useMemo } from "preact/hooks";
import { count, ShareFormat, percent, plainNumber, plural, ranges, shortened } from "./format";
import type { Page, Relations } from "./hooks";
import { explanationOf, shownUnits, wordTotal, type Picture } from "./reading";
import { order } from "./ranking";
import type { Direction } from "./relations";
import type { Partner } from "./source";
import { difference, withoutUnits, type Trials } from "./trials";

const LISTED_INSTANCES = 30;

export interface CardProperties {
  page: Page;
  picture: Picture;
  /** The selected unit, −1 for none. */
  unit: number;
  relations: Relations;
  trials: Trials;
  go(unit: number): void;
  clear(): void;
}

export function UnitCard(properties: CardProperties) {
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
      <Tested page={page} picture={picture} unit={unit} />
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
function WithoutUnit({ page, picture: { units, reading }, unit, trials }: CardProperties) {
  const { source } = page;
  const { prediction } = explanationOf(source.payload, reading);
  const texts = withoutUnits(source, [{ segment: units.segment[unit], start: units.start[unit], end: units.end[unit] }]);
  const now = trials.of(texts)?.prediction?.classes.find((one) => one.label === prediction.label)?.probability;
  return (
    <p class="without-unit" data-section="without-unit">
      <button type="button" data-control="try-without" disabled={trials.running} onClick={() => trials.run(texts)}>
        Try without it
      </button>{" "}
      {now !== undefined && `“${prediction.label}” ${percent(prediction.probability)} → ${percent(now)} (${difference(now - prediction.probability)})`}
      {trials.error}
    </p>
  );
}

/** What was measured without the words that were tested together with this one. */
function Tested({ page, picture, unit }: Pick<CardProperties, "page" | "picture" | "unit">) {
  const { smallest_set: found } = explanationOf(page.source.payload, picture.reading).verdict;
  if (picture.reading.explanation === null || !found?.words.some(({ tokens }) => picture.units.of[tokens[0]] === unit)) return null;
  return (
    <p data-section="tested">
      {found.words.length === 1 ? "Without it" : `Without it and ${plural(found.words.length - 1, "other tested word")}`} the model
      says <b>{found.label}</b> ({percent(found.probability)}).
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

function RelationLists(properties: { page: Page; picture: Picture; relations: Relations; go(unit: number): void }) {
  const { page, picture, relations, go } = properties;
  const { state } = page;
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
