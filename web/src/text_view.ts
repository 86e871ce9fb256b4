// The document as one tree of spans for all levels: a paragraph holds sentences, these words, these tokens, and a unit that
// is the only part of another shares its span. Another level, method or mark changes class names and nothing else, so that
// the browser need not lay the text out again. One <p> a line, so that each finds its own direction. All text enters as
// text nodes.

import type { DocumentModel } from "./document";
import { LEVELS, type Level } from "./payload";
import { colourClass, type Picture } from "./reading";
import { stretches } from "./stretches";

export interface Marks {
  /** The clicked unit, −1 for none. */
  chosen: number;
  /** Units of the same word, and units found by searching. */
  same: Set<number>;
  found: Set<number>;
}

/** What stands in the text of one level. */
interface Layer {
  /** The spans of every unit: more than one where it goes over a line break or the border of a coarser unit. */
  parts: HTMLElement[][];
  unitOf: Map<Element, number>;
}

const COARSE_TO_FINE = [...LEVELS].reverse();

export class TextView {
  readonly element = document.createElement("div");
  private readonly layers: Record<Level, Layer>;
  private readonly places = new Map<Level, Float32Array>();
  private level: Level | null = null;

  constructor(private readonly model: DocumentModel) {
    const layer = (level: Level): [Level, Layer] => [
      level,
      { parts: Array.from({ length: model.units(level).count }, () => []), unitOf: new Map() },
    ];
    this.layers = Object.fromEntries(LEVELS.map(layer)) as Record<Level, Layer>;
    this.element.className = "text";
    const { segments } = model.data;
    segments.forEach((segment, number) => {
      const section = document.createElement("section");
      if (segments.length > 1) {
        const title = document.createElement("h3");
        title.textContent = segment.name;
        section.append(title);
      }
      section.append(this.block(segment, number));
      this.element.append(section);
    });
  }

  private block({ text, read }: { text: string; read: number }, number: number): HTMLElement {
    const body = document.createElement("div");
    body.className = "block";
    const levels = COARSE_TO_FINE.map((level) => this.model.units(level));
    let line: HTMLElement | null = null;
    // The unit that is open at each level, and the innermost element from there on outwards.
    let open: number[] = [];
    const inner: HTMLElement[] = [];
    for (const { start, end, units } of stretches(text, number, levels, read)) {
      if (!line) {
        line = document.createElement("p");
        body.append(line);
        open = [];
      }
      let same = 0;
      while (same < levels.length && units[same] === open[same]) same++;
      for (let i = same; i < levels.length; i++) {
        const parent = i ? inner[i - 1] : line;
        inner[i] = units[i] < 0 ? parent : this.part(parent, COARSE_TO_FINE[i], units[i]);
      }
      open = units;
      const innermost = inner[levels.length - 1];
      if (start === end) innermost.dataset.special = levels[levels.length - 1].text(units[levels.length - 1]);
      else innermost.append(start < read ? text.slice(start, end) : unread(text.slice(start, end)));
      if (text[end - 1] === "\n" && end > start) line = null;
    }
    // Last, because a browser looks for the direction again whenever a part is added.
    for (const each of body.children) (each as HTMLElement).dir = "auto";
    return body;
  }

  /** A span for a part of a unit: the parent itself where that shows the same characters. */
  private part(parent: HTMLElement, level: Level, unit: number): HTMLElement {
    const layer = this.layers[level];
    let span = parent;
    if (!this.shows(parent, level, unit)) {
      span = document.createElement("span");
      parent.append(span);
    }
    layer.parts[unit].push(span);
    layer.unitOf.set(span, unit);
    return span;
  }

  private shows(span: HTMLElement, level: Level, unit: number): boolean {
    const units = this.model.units(level);
    return COARSE_TO_FINE.some((other) => {
      const known = this.layers[other].unitOf.get(span);
      const { start, end } = this.model.units(other);
      return known !== undefined && start[known] === units.start[unit] && end[known] === units.end[unit];
    });
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
      if (marks.same.has(unit)) name += " same";
      if (marks.found.has(unit)) name += " found";
      if (unit === marks.chosen) name += " chosen";
      for (const span of parts[unit]) if (span.className !== name) span.className = name;
    }
  }

  /** Height above every unit's first line in the sheet that scrolls, in pixels; kept until the text is laid out anew. */
  tops(level: Level): Float32Array {
    const known = this.places.get(level);
    if (known) return known;
    const above = this.element.parentElement?.offsetTop ?? 0;
    const found = Float32Array.from(this.layers[level].parts, ([first]) => (first ? first.offsetTop + above : 0));
    this.places.set(level, found);
    return found;
  }

  forgetTops(): void {
    this.places.clear();
  }
}

function unread(text: string): HTMLElement {
  const part = document.createElement("i");
  part.className = "unread";
  part.textContent = text;
  return part;
}
