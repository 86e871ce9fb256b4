// Lines from the clicked unit to its partners, drawn over the text: full lines to what it attends to, dashed ones from what
// attends to it, the stronger the wider.

import type { Direction } from "./relations";
import type { Partner } from "./source";
import type { TextView } from "./text_view";

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
      overlay.append(curve(from, to, direction, most ? weight / most : 0));
    }
  }
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

function curve(from: Point, to: Point, direction: Direction, share: number): SVGPathElement {
  const path = document.createElementNS(NAMESPACE, "path");
  // Words on one line are joined by an arc above it, others by a line that bends to the side.
  const level = Math.abs(from.y - to.y) < 4;
  const lift = level ? Math.min(60, 14 + Math.abs(to.x - from.x) / 5) : 0;
  const side = level ? 0 : direction === "attended" ? 28 : -28;
  const x = (from.x + to.x) / 2 + side;
  const y = (from.y + to.y) / 2 - lift;
  path.setAttribute("d", `M${from.x.toFixed(1)} ${from.y.toFixed(1)} Q${x.toFixed(1)} ${y.toFixed(1)} ${to.x.toFixed(1)} ${to.y.toFixed(1)}`);
  path.setAttribute("class", direction);
  path.setAttribute("stroke-width", (1 + 1.8 * share).toFixed(2));
  path.setAttribute("stroke-opacity", (0.3 + 0.6 * share).toFixed(2));
  return path;
}
