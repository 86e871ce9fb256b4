// The two ends of a cell of an attention map in the text: the attending and the attended tokens, with lines from the map.

import type { RefObject } from "preact";
import { useLayoutEffect } from "preact/hooks";
import type { Page } from "./hooks";
import type { DocumentModel } from "./document";

/** Characters of context around the ends, and the length of a gap that is left out. */
const CONTEXT = 90;
const GAP = 320;
const NAMESPACE = "http://www.w3.org/2000/svg";

export type Span = [first: number, last: number];

export interface Piece {
  text: string;
  from: boolean;
  to: boolean;
}

export function Ends({ page: { model }, from, to }: { page: Page; from: Span; to: Span }) {
  return (
    <p class="ends-text" dir="auto" data-section="ends">
      {endPieces(model, from, to).map(({ text, from: attends, to: attended }, i) =>
        attends || attended ? (
          <mark key={i} class={[attends ? "attends" : "", attended ? "attended" : ""].join(" ").trim()}>{text}</mark>
        ) : (
          <span key={i}>{text}</span>
        ),
      )}
    </p>
  );
}

/** The text around both ends in pieces, each in one, both or none of them; a long gap between the ends is left out. */
export function endPieces(model: DocumentModel, from: Span, to: Span): Piece[] {
  const [a, b] = [characters(model, from), characters(model, to)];
  const places = [a, b].filter((one): one is Place => one !== null);
  if (!places.length) return [];
  const pieces: Piece[] = [];
  for (const segment of [...new Set(places.map((one) => one.segment))].sort()) {
    const here = places.filter((one) => one.segment === segment).sort((one, other) => one.start - other.start);
    const { text } = model.data.segments[segment];
    const start = wordStart(text, Math.max(0, here[0].start - CONTEXT), here[0].start);
    const end = Math.min(text.length, Math.max(...here.map((one) => one.end)) + CONTEXT);
    const cuts = [...new Set([start, ...here.flatMap((one) => [one.start, one.end]), end])].sort((x, y) => x - y);
    const within = (place: Place | null, at: number) => place !== null && place.segment === segment && place.start <= at && at < place.end;
    if (start > 0) pieces.push({ text: "… ", from: false, to: false });
    for (let i = 0; i + 1 < cuts.length; i++) {
      const [attends, attended] = [within(a, cuts[i]), within(b, cuts[i])];
      let part = text.slice(cuts[i], cuts[i + 1]);
      const between = i > 0 && i + 2 < cuts.length && !attends && !attended;
      if (between && part.length > GAP) part = `${part.slice(0, CONTEXT)} […] ${part.slice(-CONTEXT)}`;
      pieces.push({ text: part, from: attends, to: attended });
    }
    if (end < text.length) pieces.push({ text: " …", from: false, to: false });
  }
  return pieces;
}

/** The first place from `at` on where a word begins, at most `limit`. */
function wordStart(text: string, at: number, limit: number): number {
  if (at === 0) return 0;
  const space = text.slice(at, limit).search(/\s\S/);
  return space < 0 ? at : at + space + 1;
}

interface Place {
  segment: number;
  start: number;
  end: number;
}

/** The characters of a span of tokens; null where it has none, as a special token. */
function characters(model: DocumentModel, [first, last]: Span): Place | null {
  const units = model.units("token");
  let place: Place | null = null;
  for (let token = first; token <= last; token++) {
    const unit = units.of[token];
    if (unit < 0 || units.end[unit] === units.start[unit]) continue;
    if (place === null) place = { segment: units.segment[unit], start: units.start[unit], end: units.end[unit] };
    else if (units.segment[unit] === place.segment) place.end = Math.max(place.end, units.end[unit]);
  }
  return place;
}

/** Draw lines from a point of the map, in shares of it, to both ends in the text below `body`. */
export function useEndLines(
  body: RefObject<HTMLElement>,
  canvas: RefObject<HTMLCanvasElement>,
  at: { x: number; y: number } | null,
): void {
  useLayoutEffect(() => {
    const host = body.current;
    host?.querySelector("svg.end-lines")?.remove();
    if (!host || !canvas.current || !at) return;
    const origin = host.getBoundingClientRect();
    const map = canvas.current.getBoundingClientRect();
    const point = { x: map.left + at.x * map.width - origin.left, y: map.top + at.y * map.height - origin.top };
    const lines = document.createElementNS(NAMESPACE, "svg");
    lines.setAttribute("class", "end-lines");
    lines.setAttribute("aria-hidden", "true");
    for (const name of ["attends", "attended"]) {
      const [box] = host.querySelector(`mark.${name}`)?.getClientRects() ?? [];
      if (!box) continue;
      const end = { x: box.left - origin.left, y: box.top + box.height / 2 - origin.top };
      const path = document.createElementNS(NAMESPACE, "path");
      const middle = (point.x + end.x) / 2;
      path.setAttribute("class", name);
      path.setAttribute("d", `M${point.x} ${point.y} C${middle} ${point.y} ${middle} ${end.y} ${end.x} ${end.y}`);
      lines.append(path);
    }
    host.append(lines);
  }, [at?.x, at?.y]);
}
