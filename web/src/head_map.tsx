// One head, large: wheel or buttons zoom, dragging or arrow keys move, the two tokens under the pointer are named.
//
// A report holds one picture of the whole map, the finest that it had room for. A server sends the part in view in as much
// detail as there is. How fine the picture is stands beside it.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Numbers } from "./arrays";
import { mapImage, Palette } from "./colours";
import { Ends, useEndLines } from "./ends";
import { count, plainNumber, shortened } from "./format";
import { HeadHeader, MapScale, StrongestLinks, type HeadProperties } from "./head_parts";
import { useArray, type Page } from "./hooks";
import { clampedWindow, movedWindow, tokensAt, zoomedWindow, type MapWindow } from "./map_window";

const TILE = 256;

/** A picture of a part of the map: q = 255·√(weight / peak). */
interface Part {
  window: MapWindow;
  rows: number;
  columns: number;
  values: ArrayLike<number>;
  peak: number;
}

export function HeadMap(properties: HeadProperties) {
  const { page, layer, head } = properties;
  const { model } = page;
  const n = model.data.tokens;
  const whole = useMemo<MapWindow>(() => ({ row: 0, column: 0, size: n }), [n]);
  const [view, setView] = useState(whole);
  const [hover, setHover] = useState<{ row: number; column: number } | null>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const body = useRef<HTMLDivElement>(null);
  const overview = useOverview(page, layer, head);
  const tile = useTile(page, layer, head, view);
  const part = tile ?? overview;

  useEffect(() => {
    if (canvas.current && part) draw(canvas.current, part, view);
  }, [part, view]);

  const cell = hover && part ? cellTokens(model.data.tokens, part, hover.row, hover.column) : null;
  useEndLines(body, canvas, hover && { x: (hover.column - view.column) / view.size, y: (hover.row - view.row) / view.size });

  const place = (event: MouseEvent) => {
    const box = event.currentTarget instanceof Element ? event.currentTarget.getBoundingClientRect() : new DOMRect();
    return { x: (event.clientX - box.left) / box.width, y: (event.clientY - box.top) / box.height };
  };
  const zoom = (factor: number, x = 0.5, y = 0.5) => setView((now) => zoomedWindow(now, factor, x, y, n));
  const move = (dx: number, dy: number) => setView((now) => movedWindow(now, dx, dy, n));
  const keys = (event: KeyboardEvent) => {
    const act = KEYS[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act(zoom, move);
  };
  return (
    <section class="head" aria-label={`Layer ${layer}, head ${head}`} data-section="head">
      <HeadHeader {...properties}>
        <button type="button" aria-label="Zoom in" onClick={() => zoom(0.5)}>+</button>
        <button type="button" aria-label="Zoom out" onClick={() => zoom(2)}>−</button>
        <button type="button" onClick={() => setView(whole)}>show all</button>
      </HeadHeader>
      <div class="opened" ref={body}>
        <div class="plot square">
          <span class="down">attending tokens {count(Math.round(view.row))}–{count(Math.round(view.row + view.size) - 1)} ↓</span>
        <canvas
          ref={canvas}
          tabIndex={0}
          role="img"
          aria-label={`Attention map, tokens ${view.row} to ${view.row + view.size - 1} attending. Plus and minus zoom, arrow keys move.`}
          onKeyDown={keys}
          onWheel={(event) => {
            event.preventDefault();
            const { x, y } = place(event);
            zoom(event.deltaY < 0 ? 0.8 : 1.25, x, y);
          }}
          onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
          onPointerMove={(event) => {
            const box = event.currentTarget.getBoundingClientRect();
            if (event.buttons) move(-event.movementX / box.width, -event.movementY / box.height);
            const { x, y } = place(event);
            setHover({ row: view.row + y * view.size, column: view.column + x * view.size });
          }}
          onPointerLeave={() => setHover(null)}
        />
          <span class="across">
            attended tokens {count(Math.round(view.column))}–{count(Math.round(view.column + view.size) - 1)} →
          </span>
        </div>
        <div class="beside">
          {part && <MapScale peak={part.peak} />}
          <p class="named" role="status" aria-live="polite" data-section="named">
            {hover && part ? named(page, part, hover.row, hover.column) : <span class="quiet">Rows attend, columns are attended to.</span>}
          </p>
          {part && <p class="quiet" data-section="resolution">{resolution(part, page.source.tile !== undefined)}</p>}
          {cell ? <Ends page={page} from={cell.rows} to={cell.columns} /> : <StrongestLinks page={page} layer={layer} head={head} />}
        </div>
      </div>
    </section>
  );
}

type Zoom = (factor: number) => void;
type Move = (dx: number, dy: number) => void;
const KEYS: Record<string, (zoom: Zoom, move: Move) => void> = {
  "+": (zoom) => zoom(0.5),
  "=": (zoom) => zoom(0.5),
  "-": (zoom) => zoom(2),
  ArrowLeft: (_, move) => move(-0.2, 0),
  ArrowRight: (_, move) => move(0.2, 0),
  ArrowUp: (_, move) => move(0, -0.2),
  ArrowDown: (_, move) => move(0, 0.2),
};

/** The picture of the whole map: the finest that is there, at worst the thumbnail. */
function useOverview({ source, model }: Page, layer: number, head: number): Part | null {
  const { heads } = source.payload.inside!;
  const at = layer * heads + head;
  const fine = `fine.${layer}.${head}`;
  const image = `image.${layer}.${head}`;
  // The array of the picture, the array of its peak, and which of their rows is this head.
  const [name, peakName, row] =
    source.has(fine) ? [fine, `${fine}.peak`, 0] as const
    : source.has(image) ? [image, "images.peak", at] as const
    : ["thumbnails", "thumbnails.peak", at] as const;
  const pictures = useArray(source, name);
  const peaks = useArray(source, peakName);
  return useMemo(() => {
    if (!pictures || !peaks) return null;
    const edge = source.payload.arrays[name].shape.at(-1)!;
    const start = name === "thumbnails" ? at * edge * edge : 0;
    const values = (pictures as Numbers).subarray(start, start + edge * edge);
    return { window: { row: 0, column: 0, size: model.data.tokens }, rows: edge, columns: edge, values, peak: peaks[row] };
  }, [pictures, peaks, name, at]);
}

/** The part in view from a server, where there is one. */
function useTile({ source, model }: Page, layer: number, head: number, view: MapWindow): Part | null {
  const [tile, keep] = useState<Part | null>(null);
  useEffect(() => {
    if (!source.tile) return;
    let wanted = true;
    const window = clampedWindow({ row: Math.floor(view.row), column: Math.floor(view.column), size: Math.ceil(view.size) }, model.data.tokens);
    // Wait until the hand rests: a drag passes through many windows.
    const timer = setTimeout(async () => {
      const found = await source.tile!({
        layer,
        head,
        rows: [window.row, window.row + window.size],
        columns: [window.column, window.column + window.size],
        size: TILE,
      }).catch(() => null);
      if (!found || !wanted) return;
      const peak = found.values.reduce((most, value) => Math.max(most, value), 0);
      const values = Uint8Array.from(found.values, (value) => (peak ? Math.round(255 * Math.sqrt(Math.max(0, value) / peak)) : 0));
      keep({ window, rows: found.rows, columns: found.columns, values, peak });
    }, 80);
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [source, layer, head, view]);
  return tile;
}

function draw(canvas: HTMLCanvasElement, part: Part, view: MapWindow): void {
  const picture = document.createElement("canvas");
  picture.width = part.columns;
  picture.height = part.rows;
  const ramp = new Palette(canvas).ramp();
  picture.getContext("2d")!.putImageData(mapImage(part.values, part.columns, part.rows, ramp), 0, 0);
  const edge = Math.round(canvas.clientWidth * devicePixelRatio) || 1;
  canvas.width = canvas.height = edge;
  const pen = canvas.getContext("2d")!;
  pen.imageSmoothingEnabled = false;
  const { window } = part;
  const across = part.columns / window.size;
  const down = part.rows / window.size;
  pen.drawImage(
    picture,
    (view.column - window.column) * across,
    (view.row - window.row) * down,
    view.size * across,
    view.size * down,
    0,
    0,
    edge,
    edge,
  );
}

/** The resolution of a map, in sentences. */
function resolution({ rows, columns, window: { size } }: Part, live: boolean): string {
  if (rows >= size && columns >= size) return "Each pixel is one pair of tokens.";
  const [across, down] = [columns, rows].map((pixels) => plainNumber(size / pixels));
  const rest = live ? "" : " This page stores no finer resolution; sightline serve shows every cell.";
  return `${columns} × ${rows} pixels, each the mean over about ${down} × ${across} token pairs.${rest}`;
}

/** The attending and the attended tokens at a position of the map. */
function cellTokens(n: number, part: Part, row: number, column: number) {
  return {
    rows: tokensAt(row, part.window.row, part.window.size, part.rows, n),
    columns: tokensAt(column, part.window.column, part.window.size, part.columns, n),
  };
}

/** The tokens at a position of the map and the attention between them. */
function named({ model }: Page, part: Part, row: number, column: number) {
  const { rows, columns } = cellTokens(model.data.tokens, part, row, column);
  const text = ([first, last]: [number, number]) => {
    const words = model.tokenText(first) + (last > first ? ` … ${model.tokenText(last)}` : "");
    return { words: shortened(words, 40), places: last > first ? `tokens ${first}–${last}` : `token ${first}` };
  };
  const [from, to] = [text(rows), text(columns)];
  const pixel = Math.floor(((row - part.window.row) * part.rows) / part.window.size) * part.columns +
    Math.floor(((column - part.window.column) * part.columns) / part.window.size);
  const weight = part.peak * ((part.values[pixel] ?? 0) / 255) ** 2;
  return (
    <>
      <b><bdi>{from.words}</bdi></b> <small>({from.places})</small> attends to <b><bdi>{to.words}</bdi></b> <small>({to.places})</small> with {plainNumber(weight)}
    </>
  );
}
