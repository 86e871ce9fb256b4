// A strip beside the text: where in the document the colour is, what is chosen or found, and which part is in view.

import { Palette, pen } from "./colours";
import type { Picture } from "./reading";
import type { Marks } from "./text_view";

export function drawMinimap(
  canvas: HTMLCanvasElement,
  scroller: HTMLElement,
  sheet: HTMLElement,
  tops: Float32Array,
  picture: Picture,
  marks: Marks,
): void {
  const { context, width, height } = pen(canvas);
  const palette = new Palette(canvas);
  const whole = sheet.offsetHeight || 1;
  context.clearRect(0, 0, width, height);
  const y = (unit: number) => (tops[unit] / whole) * height;

  const marked: number[] = [];
  for (let unit = 0; unit < picture.steps.length; unit++) if (Math.abs(picture.steps[unit]) > 1) marked.push(unit);
  marked.sort((a, b) => Math.abs(picture.steps[a]) - Math.abs(picture.steps[b]));
  const { signed } = picture.reading;
  const steps = picture.scale.starts.length;
  for (const unit of marked) {
    const step = picture.steps[unit];
    const share = 0.4 + (0.6 * Math.abs(step)) / steps;
    const middle = width / 2;
    context.fillStyle = palette.step(step, signed);
    // For to the left, against to the right: the sign can be seen without the colour.
    if (!signed) context.fillRect(2, y(unit), (width - 4) * share, 3);
    else context.fillRect(step > 0 ? middle - (middle - 2) * share : middle, y(unit), (middle - 2) * share, 3);
  }

  context.fillStyle = palette.variable("accent");
  for (const unit of [...marks.same, ...marks.found]) context.fillRect(0, y(unit), 4, 2);
  if (marks.chosen >= 0) {
    context.fillStyle = palette.variable("mark");
    context.fillRect(0, y(marks.chosen) - 1, width, 3);
  }
  context.strokeStyle = palette.variable("quiet");
  const [start, end] = [hidden(scroller, sheet), hidden(scroller, sheet) + scroller.clientHeight].map((at) => Math.min(1, Math.max(0, at / whole)));
  context.strokeRect(0.5, start * height + 0.5, width - 1, Math.max(6, (end - start) * height) - 1);
}

/** Pixels of the sheet that are scrolled away; less than zero where something stands above it. */
function hidden(scroller: HTMLElement, sheet: HTMLElement): number {
  return scroller.getBoundingClientRect().top - sheet.getBoundingClientRect().top;
}

/** The place in the text that a place on the strip stands for. */
export function scrollPlace(canvas: HTMLElement, scroller: HTMLElement, sheet: HTMLElement, clientY: number): number {
  const box = canvas.getBoundingClientRect();
  const above = scroller.scrollTop - hidden(scroller, sheet);
  return above + ((clientY - box.top) / box.height) * sheet.offsetHeight - scroller.clientHeight / 2;
}
