// One head of a long document, its window straightened: the distance to the attended token runs across, the document down.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Numbers } from "./arrays";
import { mapImage, Palette } from "./colours";
import { count, plainNumber } from "./format";
import { Ends, useEndLines } from "./ends";
import { HeadHeader, MapScale, StrongestLinks, type HeadProperties } from "./head_parts";
import { useArray, type Page } from "./hooks";
import { windowPixel, type WindowShape } from "./map_window";

/** Rows that are named by a word. */
const NAMED_ROWS = 9;
const TICKS = [-1, -0.5, 0, 0.5, 1];

interface Straight {
  shape: WindowShape;
  values: ArrayLike<number>;
  peak: number;
}

export function WindowMap(properties: HeadProperties) {
  const { page, layer, head } = properties;
  const { model, set } = page;
  const map = useStraight(page, layer, head);
  const [place, setPlace] = useState<{ row: number; column: number } | null>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const body = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (canvas.current && map) draw(canvas.current, map);
  }, [map]);
  const pixel = map && place && windowPixel(map.shape, place.row, place.column);
  useEndLines(body, canvas, map && place ? { x: (place.column + 0.5) / map.shape.columns, y: (place.row + 0.5) / map.shape.rows } : null);

  const point = (event: PointerEvent) => {
    if (!map || !canvas.current) return;
    const box = canvas.current.getBoundingClientRect();
    setPlace(clamped(map.shape, ((event.clientY - box.top) / box.height) * map.shape.rows, ((event.clientX - box.left) / box.width) * map.shape.columns));
  };
  const keys = (event: KeyboardEvent) => {
    const by = ARROWS[event.key];
    if (!by || !map) return;
    event.preventDefault();
    event.stopPropagation();
    const now = place ?? { row: 0, column: Math.floor(map.shape.columns / 2) };
    setPlace(clamped(map.shape, now.row + by[0], now.column + by[1]));
  };
  const reach = map?.shape.reach ?? 0;
  return (
    <section class="head" aria-label={`Layer ${layer}, head ${head}`} data-section="head">
      <HeadHeader {...properties} />
      <div class="opened" ref={body}>
        <div class="plot">
          <span class="down">document ↓</span>
          <div class="rows" aria-hidden="true">
            {map && range(NAMED_ROWS).map((i) => <RowName key={i} page={page} share={i / (NAMED_ROWS - 1)} />)}
          </div>
          <div class="picture">
            <canvas
              ref={canvas}
              tabIndex={0}
              role="img"
              aria-label={`Attention by distance, ${count(model.data.tokens)} tokens from top to bottom, distances −${reach} to ${reach} from left to right. Arrow keys move.`}
              onPointerMove={point}
              onPointerLeave={() => setPlace(null)}
              onKeyDown={keys}
              onClick={() => pixel && set({ view: "text", layout: "text", unit: pixel.from[0], layers: [layer], heads: [head] })}
            />
            <i class="zero" />
          </div>
          <div class="distances" aria-hidden="true">
            {TICKS.map((share) => (
              <span key={share} style={{ left: `${50 + 50 * share}%` }}>{distance(Math.round(share * reach))}</span>
            ))}
          </div>
          <span class="across">distance to the attended token, in tokens</span>
        </div>
        <div class="beside">
          {map && <MapScale peak={map.peak} />}
          <p class="named" role="status" aria-live="polite" data-section="named">
            {map && pixel && place ? (
              <>
                {tokens(pixel.from)} {pixel.from[1] > pixel.from[0] ? "attend" : "attends"} to {described(pixel.distance)} with{" "}
                {plainNumber(map.peak * (map.values[place.row * map.shape.columns + place.column] / 255) ** 2)}
                {pixel.from[1] > pixel.from[0] ? " on average" : ""}
              </>
            ) : (
              <span class="quiet">Point at the map: a vertical line is attention to a fixed distance. Click to read the place in the text.</span>
            )}
          </p>
          {pixel && <Ends page={page} from={pixel.from} to={pixel.to} />}
          {!pixel && <StrongestLinks page={page} layer={layer} head={head} />}
        </div>
      </div>
    </section>
  );
}

const ARROWS: Record<string, [rows: number, columns: number]> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
};

/** The word at a share of the document, beside the map. */
function RowName({ page: { model }, share }: { page: Page; share: number }) {
  const token = Math.round(share * (model.data.tokens - 1));
  const text = model.tokenText(token);
  return (
    <span style={{ top: `${100 * share}%` }}>
      <bdi>{text.length > 9 ? `${text.slice(0, 8)}…` : text}</bdi> <small>{count(token)}</small>
    </span>
  );
}

/** The straightened window of a head, the finest that is there, at worst the thumbnail. */
function useStraight({ source, model }: Page, layer: number, head: number): Straight | null {
  const { heads, reach } = source.payload.inside!;
  const at = layer * heads + head;
  const fine = source.has(`window.${layer}.${head}`);
  const name = fine ? `window.${layer}.${head}` : "windows";
  const pictures = useArray(source, name);
  const peaks = useArray(source, fine ? "window.peaks" : "windows.peak");
  return useMemo(() => {
    if (!pictures || !peaks) return null;
    const [rows, columns] = source.payload.arrays[name].shape.slice(-2);
    const start = fine ? 0 : at * rows * columns;
    const values = (pictures as Numbers).subarray(start, start + rows * columns);
    return { shape: { rows, columns, tokens: model.data.tokens, reach: reach![layer] }, values, peak: peaks[at] };
  }, [pictures, peaks, name, at]);
}

function draw(canvas: HTMLCanvasElement, { shape: { rows, columns }, values }: Straight): void {
  canvas.width = columns;
  canvas.height = rows;
  canvas.getContext("2d")!.putImageData(mapImage(values, columns, rows, new Palette(canvas).ramp()), 0, 0);
}

function clamped({ rows, columns }: WindowShape, row: number, column: number): { row: number; column: number } {
  const inside = (value: number, length: number) => Math.min(length - 1, Math.max(0, Math.floor(value)));
  return { row: inside(row, rows), column: inside(column, columns) };
}

function tokens([first, last]: [number, number]): string {
  return last > first ? `Tokens ${count(first)}–${count(last)}` : `Token ${count(first)}`;
}

/** "the token itself", "the token 3 before", "tokens 4 to 5 after". */
function described([near, far]: [number, number]): string {
  if (near === 0 && far === 0) return "themselves (distance 0)";
  const side = far <= 0 ? "before" : near >= 0 ? "after" : "";
  const [low, high] = [Math.min(Math.abs(near), Math.abs(far)), Math.max(Math.abs(near), Math.abs(far))];
  if (!side) return `distances ${distance(near)} to ${distance(far)}`;
  return low === high ? `the token ${low} ${side}` : `the tokens ${low} to ${high} ${side}`;
}

function distance(value: number): string {
  return value < 0 ? `−${count(-value)}` : value > 0 ? `+${count(value)}` : "0";
}

function range(length: number): number[] {
  return Array.from({ length }, (_, i) => i);
}
