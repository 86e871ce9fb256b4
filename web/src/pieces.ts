// The text in pieces of whole lines. A browser styles, lays out and paints only the pieces near the view
// (content-visibility: auto), so that a change costs what is seen of it, however long the document is. The others have an
// estimated height, and a place in one of them is told by the share of its characters that stand before.

/** Characters from which a piece is long enough; more make scrolling less smooth, fewer cost more boxes. */
const ENOUGH = 1500;
/** What a line counts beyond its characters: about the half line that is empty at its end. */
const LINE = 30;
/** Characters that a line is on average short of its width, because words are not cut. */
const RAGGED = 3;
/** Characters by which the width of one is measured. */
const SAMPLE = 400;

/** A place in the text: in which piece, and how much of it stands before. */
export interface Place {
  piece: number;
  before: number;
}

export interface LineSize {
  characters: number;
  height: number;
}

/** About the lines of a text in columns that are `narrower` times as narrow. */
export function resizedLines({ characters, height }: LineSize, narrower: number): LineSize {
  return { characters: Math.max(1, (characters + RAGGED) / narrower - RAGGED), height };
}

interface Piece {
  element: HTMLElement;
  /** Characters of every line. */
  lines: number[];
  size: number;
}

export class Pieces {
  private readonly made: Piece[] = [];

  /** The same pieces in a copy of the element that holds them all. */
  copiedTo(copy: Element): Pieces {
    const copied = new Pieces();
    const elements = copy.querySelectorAll<HTMLElement>(".piece");
    copied.made.push(...this.made.map((piece, i) => ({ ...piece, element: elements[i] })));
    return copied;
  }

  /** Add an empty line to the end of `body`. */
  addLine(body: HTMLElement): HTMLElement {
    let last = this.made.at(-1);
    if (!last || last.size >= ENOUGH || last.element.parentElement !== body) {
      last = { element: document.createElement("div"), lines: [], size: 0 };
      last.element.className = "piece";
      body.append(last.element);
      this.made.push(last);
    }
    const line = document.createElement("p");
    last.element.append(line);
    last.lines.push(0);
    last.size += LINE;
    return line;
  }

  /** Note that the last line has got longer. */
  grow(characters: number): void {
    const last = this.made.at(-1)!;
    last.lines[last.lines.length - 1] += characters;
    last.size += characters;
  }

  /** The place that has been reached. */
  here(): Place {
    return { piece: this.made.length - 1, before: this.made.at(-1)!.size };
  }

  /** Let a browser find the direction of every line: last, because it looks again whenever a part is added. */
  findDirections(): void {
    for (const { element } of this.made) for (const line of element.children) (line as HTMLElement).dir = "auto";
  }

  /** How many characters a line has and how high it is; makes the browser lay out what it has been given. */
  measured(): LineSize {
    const [first] = this.made;
    if (!first) return { characters: 1, height: 0 };
    const { width, font, lineHeight } = getComputedStyle(first.element.parentElement!);
    const characters = Math.max(1, parseFloat(width) / widthOfCharacter(first.element, font) - RAGGED);
    return { characters, height: parseFloat(lineHeight) };
  }

  /** Tell the browser how high the pieces will be that it has not laid out. */
  estimate(size: LineSize): void {
    for (const { element, lines } of this.made) {
      const height = lines.reduce((sum, length) => sum + Math.max(1, Math.ceil(length / size.characters)), 0) * size.height;
      element.style.containIntrinsicBlockSize = `auto ${Math.round(height)}px`;
    }
  }

  /** Pixels from the top of the positioned element around the pieces down to each place. */
  tops(places: (Place | undefined)[]): Float32Array {
    const boxes = this.made.map(({ element: { offsetTop, offsetHeight }, size }) => [offsetTop, offsetHeight / size]);
    return Float32Array.from(places, (place) => (place ? boxes[place.piece][0] + boxes[place.piece][1] * place.before : 0));
  }

  /** Whether the browser has laid out what is at a place; asking further would make it do so. */
  isLaidOut({ piece }: Place): boolean {
    return this.made[piece].element.firstElementChild!.checkVisibility({ contentVisibilityAuto: true });
  }

  /** About where a place is in the window. */
  about({ piece, before }: Place): DOMRect {
    const { element, size } = this.made[piece];
    const { left, top, width, height } = element.getBoundingClientRect();
    return new DOMRect(left + width / 2, top + (height * before) / size, 0, 0);
  }
}

function widthOfCharacter(element: HTMLElement, font: string): number {
  const sample = element.textContent!.slice(0, SAMPLE) || "n";
  const context = document.createElement("canvas").getContext("2d")!;
  context.font = font;
  return context.measureText(sample).width / sample.length || 1;
}
