// The document as one tree of spans for all levels: a paragraph holds sentences, these words, these tokens, and a unit that
// is the only part of another shares its span. Another level, method or mark changes class names and nothing else, so that
// the browser need not lay the text out again. One <p> a line, so that each finds its own direction, and lines in pieces.
// All text enters as text nodes.

import type { DocumentModel, Units } from "./document";
import { LEVELS, type Level } from "./payload";
import { Pieces, type LineSize, type Place } from "./pieces";
import { colourClass, type Picture } from "./reading";
import { stretches } from "./stretches";
import { markWindows } from "./windows";

export interface Marks {
  /** The clicked unit, −1 for none. */
  chosen: number;
  /** Units of the same word, units found by searching, and the words that were tested together. */
  same: Set<number>;
  found: Set<number>;
  deciding: Set<number>;
}

/** What stands in the text of one level. */
interface Layer {
  /** The spans of every unit: more than one where it goes over a line break or the border of a coarser unit. */
  parts: HTMLElement[][];
  /** Where every unit starts; nothing for one that shows no characters. */
  places: (Place | undefined)[];
  unitOf: Map<Element, number>;
}

const COARSE_TO_FINE = [...LEVELS].reverse();
const NOTHING: [start: number, end: number] = [-1, -1];

export class TextView {
  readonly element: HTMLElement;
  private readonly layers: Record<Level, Layer>;
  private readonly pieces: Pieces;
  private level: Level | null = null;

  /** The text of a document; quicker where there is another view of the same one, whose elements are copied. */
  constructor(model: DocumentModel, other?: TextView) {
    this.element = other ? (other.element.cloneNode(true) as HTMLElement) : document.createElement("div");
    if (other) {
      this.pieces = other.pieces.copiedTo(this.element);
      this.layers = copiedLayers(other.layers, other.element, this.element);
      this.level = other.level;
    } else {
      this.pieces = new Pieces();
      this.layers = byLevel((level) => ({
        parts: Array.from({ length: model.units(level).count }, () => []),
        places: [],
        unitOf: new Map(),
      }));
      this.build(model);
    }
  }

  private build(model: DocumentModel): void {
    this.element.className = "text";
    const { segments } = model.data;
    segments.forEach((segment, number) => {
      const section = document.createElement("section");
      if (segments.length > 1) {
        const title = document.createElement("h3");
        title.textContent = segment.name;
        section.append(title);
      }
      section.append(this.block(segment, COARSE_TO_FINE.map((level) => model.units(level)), number));
      this.element.append(section);
    });
    markWindows(model, (word) => this.layers.word.parts[word]);
    this.pieces.findDirections();
  }

  private block({ text, read }: { text: string; read: number }, levels: Units[], number: number): HTMLElement {
    const body = document.createElement("div");
    body.className = "block";
    let line: HTMLElement | null = null;
    // The unit that is open at each level, the innermost element from there on outwards, and the characters it shows.
    let open: number[] = [];
    const inner: HTMLElement[] = [];
    const shown: [start: number, end: number][] = [];
    const breaks = new LineBreaks(levels);
    for (const { start, end, units } of stretches(text, number, levels, read)) {
      if (!line || breaks.before(start, end, units)) {
        line = this.pieces.addLine(body);
        open = [];
      }
      let same = 0;
      while (same < levels.length && units[same] === open[same]) same++;
      for (let i = same; i < levels.length; i++) {
        const unit = units[i];
        inner[i] = i ? inner[i - 1] : line;
        shown[i] = i ? shown[i - 1] : NOTHING;
        if (unit < 0) continue;
        const [from, to] = [levels[i].start[unit], levels[i].end[unit]];
        if (shown[i][0] !== from || shown[i][1] !== to) {
          inner[i] = inner[i].appendChild(document.createElement("span"));
          shown[i] = [from, to];
        }
        this.addPart(COARSE_TO_FINE[i], unit, inner[i]);
      }
      open = units;
      const innermost = inner[levels.length - 1];
      if (start === end) innermost.dataset.special = levels[levels.length - 1].text(units[levels.length - 1]);
      else innermost.append(start < read ? text.slice(start, end) : unread(text.slice(start, end)));
      this.pieces.grow(end - start);
      if (text[end - 1] === "\n" && end > start) {
        line = null;
        breaks.newLine();
      }
    }
    return body;
  }

  private addPart(level: Level, unit: number, span: HTMLElement): void {
    const layer = this.layers[level];
    layer.parts[unit].push(span);
    layer.places[unit] ??= this.pieces.here();
    layer.unitOf.set(span, unit);
  }

  /** The spans of a unit of the level that is painted. */
  parts(unit: number): HTMLElement[] {
    return (this.level && this.layers[this.level].parts[unit]) ?? [];
  }

  /** The unit of the level that is painted and its span, under an event's target. */
  at(target: EventTarget | null): { unit: number; span: HTMLElement } | null {
    const span = target instanceof Element ? target.closest<HTMLElement>(".unit") : null;
    const unit = span && this.level ? this.layers[this.level].unitOf.get(span) : undefined;
    return span && unit !== undefined ? { unit, span } : null;
  }

  paint(picture: Picture, marks: Marks): void {
    const { level } = picture.units;
    if (this.level && this.level !== level) {
      const { unitOf } = this.layers[level];
      for (const span of this.layers[this.level].unitOf.keys()) if (!unitOf.has(span)) span.className = "";
    }
    this.level = level;
    const { signed } = picture.reading;
    const { parts } = this.layers[level];
    for (let unit = 0; unit < parts.length; unit++) {
      let name = `${colourClass(picture.steps[unit], signed)} unit`.trimStart();
      if (picture.artefacts.has(unit)) name += " artefact";
      if (marks.deciding.has(unit)) name += " deciding";
      if (marks.same.has(unit)) name += " same";
      if (marks.found.has(unit)) name += " found";
      if (unit === marks.chosen) name += " chosen";
      for (const span of parts[unit]) if (span.className !== name) span.className = name;
    }
  }

  measured(): LineSize {
    return this.pieces.measured();
  }

  /** Call when the text has got another width, with what was measured then in this text or in one beside it. */
  resized(size: LineSize): void {
    this.pieces.estimate(size);
  }

  /** Height above every unit in the sheet, in pixels; near the truth, without laying anything out. */
  tops(level: Level): Float32Array {
    const above = this.element.parentElement?.offsetTop ?? 0;
    return this.pieces.tops(this.layers[level].places).map((top) => top + above);
  }

  /** The box of a unit's first line in the window; a point near it where the text is not laid out. */
  box(unit: number): DOMRect | undefined {
    const [first] = this.parts(unit);
    const place = this.level && this.layers[this.level].places[unit];
    if (!first || !place) return undefined;
    return this.pieces.isLaidOut(place) ? first.getClientRects()[0] : this.pieces.about(place);
  }
}

/** Characters from which a line is broken before a sentence, and from which before any word. */
const LONG_LINE = 1500;
const ENDLESS_LINE = 2 * LONG_LINE;

/** Where a text without line breaks is broken all the same: a browser could not leave parts of one long line out. */
class LineBreaks {
  private length = 0;
  private readonly last: number[] = [];

  constructor(private readonly levels: Units[]) {}

  newLine(): void {
    this.length = 0;
  }

  /** Whether a new line begins at a stretch. */
  before(start: number, end: number, units: number[]): boolean {
    const begins = this.levels.map(({ level }, i) => {
      const first = units[i] >= 0 && units[i] !== this.last[i];
      if (units[i] >= 0) this.last[i] = units[i];
      return first && ((level === "sentence" && this.length >= LONG_LINE) || (level === "word" && this.length >= ENDLESS_LINE));
    });
    const breaks = begins.includes(true);
    this.length = (breaks ? 0 : this.length) + end - start;
    return breaks;
  }
}

function byLevel(layer: (level: Level) => Layer): Record<Level, Layer> {
  return Object.fromEntries(LEVELS.map((level) => [level, layer(level)])) as Record<Level, Layer>;
}

/** The same layers with the spans of a copied element. */
function copiedLayers(layers: Record<Level, Layer>, from: Element, to: Element): Record<Level, Layer> {
  const copies = to.getElementsByTagName("span");
  const copy = new Map(Array.from(from.getElementsByTagName("span"), (span, i) => [span as HTMLElement, copies[i] as HTMLElement]));
  return byLevel((level) => {
    const { parts, places, unitOf } = layers[level];
    return {
      parts: parts.map((spans) => spans.map((span) => copy.get(span)!)),
      places,
      unitOf: new Map(Array.from(unitOf, ([span, unit]) => [copy.get(span as HTMLElement)!, unit])),
    };
  });
}

function unread(text: string): HTMLElement {
  const part = document.createElement("i");
  part.className = "unread";
  part.textContent = text;
  return part;
}
