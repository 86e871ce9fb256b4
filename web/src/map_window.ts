// The part of a map that is in view: a square of `size` tokens from (row, column), always inside the n × n map.

export interface MapWindow {
  row: number;
  column: number;
  size: number;
}

const SMALLEST = 8;

export function clampedWindow({ row, column, size }: MapWindow, n: number): MapWindow {
  const edge = Math.min(n, Math.max(Math.min(SMALLEST, n), size));
  const inside = (start: number) => Math.min(Math.max(0, start), n - edge);
  return { row: inside(row), column: inside(column), size: edge };
}

/** Zoom so that the point at shares (x, y) of the picture stays where it is. */
export function zoomedWindow(view: MapWindow, factor: number, x: number, y: number, n: number): MapWindow {
  const size = Math.min(n, Math.max(Math.min(SMALLEST, n), view.size * factor));
  return clampedWindow({ row: view.row + y * (view.size - size), column: view.column + x * (view.size - size), size }, n);
}

/** Move by shares of the picture. */
export function movedWindow(view: MapWindow, dx: number, dy: number, n: number): MapWindow {
  return clampedWindow({ ...view, row: view.row + dy * view.size, column: view.column + dx * view.size }, n);
}

/** First and last token of the pixel that a place falls on; the picture has `pixels` over `size` tokens from `start`. */
export function tokensAt(place: number, start: number, size: number, pixels: number, n: number): [number, number] {
  const pixel = Math.min(pixels - 1, Math.max(0, Math.floor(((place - start) * pixels) / size)));
  // Pixel p holds the tokens i with ⌊i·pixels/size⌋ = p.
  const first = start + Math.ceil((pixel * size) / pixels);
  const last = start + Math.ceil(((pixel + 1) * size) / pixels) - 1;
  return [Math.min(n - 1, first), Math.min(n - 1, Math.max(first, last))];
}

/** A straightened window: `rows` pixels over the tokens of the document, `columns` pixels over distances −reach … reach. */
export interface WindowShape {
  rows: number;
  columns: number;
  tokens: number;
  reach: number;
}

/** First and last of the attending tokens, of the distances and of the attended tokens of a pixel. */
export interface WindowPixel {
  from: [first: number, last: number];
  distance: [near: number, far: number];
  to: [first: number, last: number];
}

/** What a pixel of a straightened window stands for: pixel p holds the tokens from ⌊p·n/rows⌋ on. */
export function windowPixel({ rows, columns, tokens, reach }: WindowShape, row: number, column: number): WindowPixel {
  const part = (pixel: number, pixels: number, length: number): [number, number] => {
    const first = Math.floor((pixel * length) / pixels);
    return [first, Math.max(first, Math.floor(((pixel + 1) * length) / pixels) - 1)];
  };
  const from = part(row, rows, tokens);
  const distance = part(column, columns, 2 * reach + 1).map((place) => place - reach) as [number, number];
  const inside = (token: number) => Math.min(tokens - 1, Math.max(0, token));
  return { from, distance, to: [inside(from[0] + distance[0]), inside(from[1] + distance[1])] };
}
