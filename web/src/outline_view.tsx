// The document as an outline: bars of its paragraphs; a paragraph opens to its sentences, a sentence to its words.

import { useMemo, useState } from "preact/hooks";
import type { Level } from "./payload";
import type { Units } from "./document";
import { shortened } from "./format";
import type { ViewProperties } from "./views";

const LEVELS: Level[] = ["paragraph", "sentence", "word"];
const LONGEST = 160;

interface OutlineProperties extends Pick<ViewProperties, "page" | "picture"> {
  units: Units[];
  scores: Float64Array[];
  largest: number[];
}

/** Shares are of the total of absolute word scores at every level, so that a paragraph, its sentences and its words can be compared. */
export function OutlineView({ page, picture }: Pick<ViewProperties, "page" | "picture">) {
  const { model } = page;
  const outline = useMemo(() => {
    const units = LEVELS.map((level) => model.units(level));
    const scores = units.map((each) => each.sums(picture.tokens));
    const largest = scores.map((each, i) => each.reduce((most, score, unit) => (units[i].isSpecial(unit) ? most : Math.max(most, Math.abs(score))), 0));
    return { units, scores, largest };
  }, [model, picture]);
  // A text without line breaks is one paragraph, whose bar says nothing.
  const depth = outline.units[0].ordinary > 1 ? 0 : 1;
  const { level, count } = outline.units[depth];
  return (
    <div class="outline">
      <p class="quiet">
        One bar per {level}, in the order of the document: the sum of the scores of its words, as a share of the total of absolute
        word scores. Open {depth ? "a sentence" : "a paragraph for its sentences and a sentence"} for its words. Words of both signs cancel.
      </p>
      <ol>
        {Array.from({ length: count }, (_, unit) => (
          <Branch key={`${level} ${unit}`} page={page} picture={picture} {...outline} depth={depth} unit={unit} />
        ))}
      </ol>
    </div>
  );
}

function Branch(properties: OutlineProperties & { depth: number; unit: number }) {
  const { page, picture, units, scores, largest, depth, unit } = properties;
  const { format } = picture;
  const [open, setOpen] = useState(false);
  const own = units[depth];
  const score = scores[depth][unit];
  const hue = !picture.reading.signed ? "plain" : score < 0 ? "against" : "for";
  const children = useMemo(() => (open && depth < 2 ? childrenOf(own, units[depth + 1], unit) : []), [open, own, unit]);
  const text = shortened(own.text(unit).replace(/\s+/g, " "), LONGEST);
  return (
    <li class={`level-${own.level}`} data-level={own.level}>
      <div class="branch">
        {depth < 2 ? (
          <button type="button" class="toggle" aria-expanded={open} aria-label={`${open ? "Close" : "Open"} ${own.name(unit)}`} onClick={() => setOpen(!open)}>
            {open ? "▾" : "▸"}
          </button>
        ) : (
          <span class="toggle" />
        )}
        <span class="amount" title={format.raw(score)}>{format.share(score)}</span>
        <span class="bar">
          <i class={`${hue}-8`} style={{ width: `${largest[depth] ? (100 * Math.abs(score)) / largest[depth] : 0}%` }} />
        </span>
        <button type="button" class="quote" dir="auto" title="Show in the text" onClick={() => page.set({ view: "text", layout: "text", unit: own.tokens(unit)[0] })}>
          {text}
        </button>
      </div>
      {children.length > 0 && (
        <ol>
          {children.map((child) => (
            <Branch key={child} {...properties} depth={depth + 1} unit={child} />
          ))}
        </ol>
      )}
    </li>
  );
}

/** The units of the next level whose first token lies in a unit, in document order. */
export function childrenOf(own: Units, finer: Units, unit: number): number[] {
  const found = new Set<number>();
  for (const token of own.tokens(unit)) if (finer.of[token] >= 0 && !finer.isSpecial(finer.of[token])) found.add(finer.of[token]);
  return [...found];
}
