// The document: its tokens and the units (tokens, words, sentences, paragraphs) that they make up.

import type { Numbers } from "./arrays";
import { count } from "./format";
import { FLAG, LEVELS, type DocumentData, type Level } from "./payload";
import type { Source } from "./source";

/** The units of one level, in document order. */
export class Units {
  readonly count: number;
  private readonly first: Int32Array;
  private readonly members: Int32Array;
  private keys: string[] | null = null;
  private readonly numbers: Int32Array;
  /** Units that are not specials. */
  readonly ordinary: number;

  constructor(
    readonly level: Level,
    private readonly document: DocumentData,
    readonly start: Numbers,
    readonly end: Numbers,
    readonly segment: Numbers,
    /** The unit of every token, −1 for none. */
    readonly of: Numbers,
    private readonly tokenFlags: Numbers,
  ) {
    this.count = start.length;
    this.first = new Int32Array(this.count + 1);
    for (const unit of of) if (unit >= 0) this.first[unit + 1]++;
    for (let unit = 0; unit < this.count; unit++) this.first[unit + 1] += this.first[unit];
    const next = this.first.slice();
    this.members = new Int32Array(this.first[this.count]);
    of.forEach((unit: number, token: number) => {
      if (unit >= 0) this.members[next[unit]++] = token;
    });
    this.numbers = new Int32Array(this.count);
    let ordinary = 0;
    for (let unit = 0; unit < this.count; unit++) if (!this.isSpecial(unit)) this.numbers[unit] = ++ordinary;
    this.ordinary = ordinary;
  }

  /** "word 17", counted from 1 without the specials; "special token" for those. */
  name(unit: number): string {
    return this.numbers[unit] ? `${this.level} ${count(this.numbers[unit])}` : "special token";
  }

  /** Token positions of a unit, ascending. */
  tokens(unit: number): Int32Array {
    return this.members.subarray(this.first[unit], this.first[unit + 1]);
  }

  size(unit: number): number {
    return this.first[unit + 1] - this.first[unit];
  }

  /** The characters of a unit, or the name of a special. */
  text(unit: number): string {
    if (this.end[unit] > this.start[unit]) {
      return this.document.segments[this.segment[unit]].text.slice(this.start[unit], this.end[unit]);
    }
    const token = this.members[this.first[unit]];
    return this.document.specials.find(([position]) => position === token)?.[1] ?? "";
  }

  /** What instances of one word have in common. */
  key(unit: number): string {
    this.keys ??= Array.from({ length: this.count }, (_, one) => this.text(one).toLowerCase());
    return this.keys[unit];
  }

  /** A unit is a stop word or punctuation if all of its tokens are. */
  flags(unit: number): number {
    let flags = 255;
    for (const token of this.tokens(unit)) flags &= this.tokenFlags[token];
    return flags;
  }

  isSpecial(unit: number): boolean {
    return (this.flags(unit) & FLAG.special) !== 0;
  }

  instances(unit: number): number[] {
    const found: number[] = [];
    const wanted = this.key(unit);
    for (let other = 0; other < this.count; other++) if (this.key(other) === wanted) found.push(other);
    return found;
  }

  /** Scores of tokens added up: (n,) → (U,). */
  sums(scores: ArrayLike<number>): Float64Array {
    const found = new Float64Array(this.count);
    for (let token = 0; token < this.of.length; token++) {
      const unit = this.of[token];
      if (unit >= 0) found[unit] += scores[token];
    }
    return found;
  }

  /** The units that a stretch of characters touches: units stand in document order, so the first is found by halving. */
  touching(segment: number, from: number, to: number): number[] {
    let [low, high] = [0, this.count];
    while (low < high) {
      const middle = (low + high) >> 1;
      const before = this.segment[middle] < segment || (this.segment[middle] === segment && this.end[middle] <= from);
      if (before) low = middle + 1;
      else high = middle;
    }
    const found: number[] = [];
    for (let unit = low; unit < this.count && this.segment[unit] === segment && this.start[unit] < to; unit++) found.push(unit);
    return found;
  }
}

export class DocumentModel {
  private constructor(
    readonly data: DocumentData,
    private readonly make: (level: Level) => Units,
    readonly scores: Float32Array[],
  ) {}

  private readonly made = new Map<Level, Units>();

  /** The units of a level, made when they are first asked for. */
  units(level: Level): Units {
    const known = this.made.get(level) ?? this.make(level);
    this.made.set(level, known);
    return known;
  }

  static async load(source: Source): Promise<DocumentModel> {
    const { document, explanations } = source.payload;
    const flags = await source.array("tokens.flags");
    const names = (level: Level) => ["start", "end", "segment", "of"].map((part) => `units.${level}.${part}`);
    const [loaded, scores] = await Promise.all([
      Promise.all(LEVELS.map((level) => Promise.all(names(level).map((name) => source.array(name))))),
      Promise.all(explanations.map((_, number) => source.array(`scores.${number}`))),
    ]);
    const make = (level: Level) => {
      const [start, end, segment, of] = loaded[LEVELS.indexOf(level)];
      return new Units(level, document, start, end, segment, of, flags);
    };
    return new DocumentModel(document, make, scores as Float32Array[]);
  }

  /** What a token is called: its characters, or the name of a special. */
  tokenText(token: number): string {
    const units = this.units("token");
    const unit = units.of[token];
    return unit >= 0 ? units.text(unit) : "␣";
  }
}

/** Places where a query stands in the text, whatever the case: the units each of them touches. */
export function find(document: DocumentData, units: Units, query: string): number[][] {
  if (!query) return [];
  const found: number[][] = [];
  document.segments.forEach(({ text }, segment) => {
    const lower = text.toLowerCase();
    // Some capitals have longer small forms; then places would shift, and the case counts.
    const same = lower.length === text.length;
    const haystack = same ? lower : text;
    const needle = same ? query.toLowerCase() : query;
    for (let at = haystack.indexOf(needle); at >= 0; at = haystack.indexOf(needle, at + needle.length)) {
      const touched = units.touching(segment, at, at + needle.length);
      if (touched.length) found.push(touched);
    }
  });
  return found;
}
