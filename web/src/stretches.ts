// The text cut at every border of a unit of any level and at the end of every line. A stretch lies within one unit a level
// at most, so that one tree of elements can show all levels.

import type { Units } from "./document";

export interface Stretch {
  start: number;
  /** Equal to `start` for a special, which has no characters. */
  end: number;
  /** The unit at each level, −1 for none. */
  units: number[];
}

/** The stretches of one segment in order, specials between them; `levels` from coarse to fine, `cut` is one more border. */
export function* stretches(text: string, segment: number, levels: Units[], cut: number): Generator<Stretch> {
  const own = levels.map((units) => unitsOf(units, segment));
  const next = levels.map(() => 0);
  const finest = levels[levels.length - 1];
  const specials = unitsOf(finest, segment, true);
  let special = 0;
  let line = 0;
  for (let at = 0; at <= text.length; ) {
    for (; special < specials.length && (finest.start[specials[special]] <= at || at === text.length); special++) {
      const [token] = finest.tokens(specials[special]);
      yield { start: at, end: at, units: levels.map((units) => units.of[token]) };
    }
    if (at === text.length) return;
    if (at === line) line = text.indexOf("\n", at) + 1 || text.length;
    let end = at < cut && cut < line ? cut : line;
    if (special < specials.length) end = Math.min(end, finest.start[specials[special]]);
    const units = levels.map((level, i) => {
      while (next[i] < own[i].length && level.end[own[i][next[i]]] <= at) next[i]++;
      if (next[i] === own[i].length) return -1;
      const unit = own[i][next[i]];
      const inside = level.start[unit] <= at;
      end = Math.min(end, inside ? level.end[unit] : level.start[unit]);
      return inside ? unit : -1;
    });
    yield { start: at, end, units };
    at = end;
  }
}

/** Units of a segment that have characters, or those that have none. */
function unitsOf(units: Units, segment: number, empty = false): number[] {
  const found: number[] = [];
  for (let unit = 0; unit < units.count; unit++) {
    if (units.segment[unit] === segment && (units.start[unit] === units.end[unit]) === empty) found.push(unit);
  }
  return found;
}
