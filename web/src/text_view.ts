// The document as plain spans: one paragraph a line, so that each finds its own direction, one span for every part of a
// unit on a line. Built once a level, recoloured by changing class names; all text enters as text nodes.

import type { Units } from "./document";
import type { DocumentData } from "./payload";
import { colourClass, type Picture } from "./reading";

export interface Marks {
  /** The clicked unit, −1 for none. */
  chosen: number;
  /** Units of the same word, and units found by searching. */
  same: Set<number>;
  found: Set<number>;
}

export const NO_MARKS: Marks = { chosen: -1, same: new Set(), found: new Set() };

export class TextView {
  readonly element = document.createElement("div");
  /** The spans of every unit: more than one where it goes over a line break. */
  readonly spans: HTMLElement[][];
  private readonly unitOf = new WeakMap<Node, number>();

  constructor(
    data: DocumentData,
    readonly units: Units,
  ) {
    this.element.className = "text";
    this.spans = Array.from({ length: units.count }, () => []);
    data.segments.forEach((segment, number) => {
      const section = document.createElement("section");
      if (data.segments.length > 1) {
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
    let paragraph: HTMLElement | null = null;
    const line = () => {
      if (!paragraph) {
        paragraph = document.createElement("p");
        body.append(paragraph);
      }
      return paragraph;
    };
    const put = (from: number, to: number, unit: number) => {
      while (from < to) {
        const newline = text.indexOf("\n", from);
        const stop = newline >= 0 && newline < to ? newline + 1 : to;
        const part = text.slice(from, stop);
        if (unit >= 0) line().append(this.span(unit, part));
        else if (from >= read) line().append(unread(part));
        else line().append(part);
        if (stop === newline + 1) paragraph = null;
        from = stop;
      }
    };
    const { start, end, segment } = this.units;
    let at = 0;
    for (let unit = 0; unit < this.units.count; unit++) {
      if (segment[unit] !== number) continue;
      put(at, start[unit], -1);
      if (start[unit] === end[unit]) line().append(this.special(unit));
      else put(start[unit], end[unit], unit);
      at = end[unit];
    }
    put(at, read, -1);
    put(Math.max(at, read), text.length, -1);
    // Last, because a browser looks for the direction again whenever a part is added.
    for (const each of body.children) (each as HTMLElement).dir = "auto";
    return body;
  }

  private span(unit: number, text: string): HTMLElement {
    const span = document.createElement("span");
    span.textContent = text;
    this.spans[unit].push(span);
    this.unitOf.set(span, unit);
    return span;
  }

  /** A special has no characters: its name is drawn by the style sheet, so that the text stays the original. */
  private special(unit: number): HTMLElement {
    const span = this.span(unit, "");
    span.dataset.special = this.units.text(unit);
    return span;
  }

  /** The unit under an event's target, −1 for none. */
  unitAt(target: EventTarget | null): number {
    return (target instanceof Node ? this.unitOf.get(target) : undefined) ?? -1;
  }

  paint(picture: Picture, marks: Marks): void {
    const { signed } = picture.reading;
    for (let unit = 0; unit < this.spans.length; unit++) {
      let name = colourClass(picture.steps[unit], signed);
      if (marks.same.has(unit)) name += " same";
      if (marks.found.has(unit)) name += " found";
      if (unit === marks.chosen) name += " chosen";
      for (const span of this.spans[unit]) if (span.className !== name) span.className = name;
    }
  }

  /** Height in the text of every unit's first line, in pixels. */
  tops(): Float32Array {
    return Float32Array.from(this.spans, (parts) => parts[0]?.offsetTop ?? 0);
  }
}

function unread(text: string): HTMLElement {
  const part = document.createElement("i");
  part.className = "unread";
  part.textContent = text;
  return part;
}
