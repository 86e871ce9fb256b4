// Arcs from the clicked unit to its partners, drawn over the text: full lines to what it attends to, dashed ones from what
// attends to it, the stronger the wider. A disc marks the clicked unit, a ring every partner.

import type { Direction } from "./relations";
import type { Partner } from "./source";
import type { TextView } from "./text_view";

/** Arcs keep this far from the edges of the text, in pixels. */
const EDGE = 6;
const NAMESPACE = "http://www.w3.org/2000/svg";

export function drawLinks(
  overlay: SVGSVGElement,
  view: TextView,
  unit: number,
  lists: Partial<Record<Direction, Partner[]>>,
): void {
  overlay.replaceChildren();
  const from = middle(overlay, view, unit);
  if (!from) return;
  for (const direction of ["attended", "attending"] as const) {
    const partners = (lists[direction] ?? []).filter(([partner]) => partner !== unit);
    const most = Math.max(0, ...partners.map(([, weight]) => weight));
    for (const [partner, weight] of partners) {
      const to = middle(overlay, view, partner);
      if (!to) continue;
      overlay.append(curve(from, to, direction, most ? weight / most : 0, overlay.clientWidth), end(to, direction, 3.5));
    }
  }
  if (overlay.childElementCount) overlay.append(end(from, "from", 3));
}

interface Point {
  x: number;
  y: number;
}

function middle(overlay: SVGSVGElement, view: TextView, unit: number): Point | null {
  const box = view.box(unit);
  if (!box) return null;
  const origin = overlay.getBoundingClientRect();
  return { x: box.left + box.width / 2 - origin.left, y: box.top + box.height / 2 - origin.top };
}

function curve(from: Point, to: Point, direction: Direction, share: number, width: number): SVGPathElement {
  const path = document.createElementNS(NAMESPACE, "path");
  // Words on one line are joined by an arc above it, others by an arc to the right (attended) or left (attending), the
  // wider the farther apart they are, so that arcs do not run along the words between.
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const level = Math.abs(dy) < 4;
  const lift = level ? -Math.min(60, 14 + Math.abs(dx) / 5) : 0;
  const bulge = level ? 0 : (direction === "attended" ? 1 : -1) * Math.min(160, 30 + Math.abs(dy) / 2.5);
  const inside = (x: number) => Math.min(width - EDGE, Math.max(EDGE, x));
  const control = (share: number) => `${inside(from.x + dx * share + bulge).toFixed(1)} ${(from.y + dy * share + lift).toFixed(1)}`;
  path.setAttribute("d", `M${from.x.toFixed(1)} ${from.y.toFixed(1)} C${control(0.15)} ${control(0.85)} ${to.x.toFixed(1)} ${to.y.toFixed(1)}`);
  path.setAttribute("class", direction);
  path.setAttribute("stroke-width", (1 + 1.8 * share).toFixed(2));
  path.setAttribute("stroke-opacity", (0.3 + 0.6 * share).toFixed(2));
  return path;
}

function end(at: Point, name: string, radius: number): SVGCircleElement {
  const circle = document.createElementNS(NAMESPACE, "circle");
  circle.setAttribute("class", name);
  circle.setAttribute("cx", at.x.toFixed(1));
  circle.setAttribute("cy", at.y.toFixed(1));
  circle.setAttribute("r", String(radius));
  return circle;
}
