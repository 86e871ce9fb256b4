// Read: the coloured document, alone or next to a second method, with minimap, relation lines and search.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { expectedByChance, writtenExpectation } from "./consensus";
import { find } from "./document";
import { count, plural, ranges, shortened } from "./format";
import type { Page, Relations } from "./hooks";
import { Legend } from "./legend";
import { drawLinks } from "./links";
import { drawMinimap, scrollPlace } from "./minimap";
import { rankCorrelation } from "./ranking";
import { explanationOf, type Picture } from "./reading";
import { Passages } from "./summary";
import { resizedLines, type LineSize } from "./pieces";
import { readingNames } from "./state";
import { TextView, type Marks } from "./text_view";
import { whenIdle } from "./timing";
import { Mark, verdictOf } from "./verdict";
import type { ViewProperties } from "./views";

/** A selected word closer than this to the edge of the text is scrolled to the middle, in pixels. */
const MARGIN = 40;
const MOST_TRIES = 4;
/** Strongest units of which two methods are said to share so many. */
const COMPARED = 20;

export function ReadView({ page, pictures, unit, relations, away, dark, go, step }: ViewProperties) {
  const { source, model, state } = page;
  const [first] = pictures;
  const { units } = first;
  const matches = useMemo(() => find(model.data, units, state.find), [model, units, state.find]);
  const marks = useMemo<Marks>(
    () => ({
      chosen: unit,
      same: new Set(unit >= 0 && units.level !== "paragraph" ? units.instances(unit) : []),
      found: new Set(matches.flat()),
    }),
    [units, unit, matches],
  );
  const { notices } = explanationOf(source.payload, first.reading);
  return (
    <div class={away ? "read away" : "read"}>
      {!away && <Toolbar page={page} picture={first} unit={unit} matches={matches} go={go} step={step} />}
      {!away && notices.length > 0 && (
        <div class="notices" role="note" aria-label="Notices">
          {notices.map((sentence) => (
            <p key={sentence}>{sentence}</p>
          ))}
        </div>
      )}
      {!away && pictures.length > 1 && <Agreement pictures={pictures} />}
      <Columns {...{ page, pictures, marks, relations, away, dark, go }} />
    </div>
  );
}

function Toolbar(properties: {
  page: Page;
  picture: Picture;
  unit: number;
  matches: number[][];
  go(unit: number): void;
  step(by: number): void;
}) {
  const { page, picture, unit, matches, go, step } = properties;
  const { state, set } = page;
  // Belongs to the matches it counts: a reset after the next frame would undo an Enter typed right after the query.
  const [stepped, setStepped] = useState<{ matches: number[][]; match: number } | null>(null);
  const match = stepped?.matches === matches ? stepped.match : -1;
  const stepMatch = (by: number) => {
    if (!matches.length) return;
    const next = (Math.max(match, by > 0 ? -1 : 0) + by + matches.length) % matches.length;
    setStepped({ matches, match: next });
    go(matches[next][0]);
  };
  return (
    <div class="toolbar" role="toolbar" aria-label="Navigate the document">
      <span class="steps" role="group" aria-label={`Strong ${picture.units.level}s`}>
        <button type="button" data-control="previous" title={`Previous strong ${picture.units.level} (key p)`} onClick={() => step(-1)}>
          <span aria-hidden="true">↑</span> Previous
        </button>
        <button type="button" data-control="next" title={`Next strong ${picture.units.level} (key n)`} onClick={() => step(1)}>
          <span aria-hidden="true">↓</span> Next strong {picture.units.level}
        </button>
      </span>
      <form
        role="search"
        onSubmit={(event) => {
          event.preventDefault();
          stepMatch(1);
        }}
      >
        <input
          type="search"
          data-control="find"
          aria-label="Find in the document"
          placeholder="Find  /"
          value={state.find}
          onInput={(event) => set({ find: event.currentTarget.value })}
          onKeyDown={(event) => {
            if (event.key === "Enter" && event.shiftKey) {
              event.preventDefault();
              stepMatch(-1);
            }
          }}
        />
        {state.find && (
          <>
            <button type="button" aria-label="Previous match" onClick={() => stepMatch(-1)}>↑</button>
            <button type="submit" aria-label="Next match">↓</button>
            <span class="matches">{describeMatches(picture, matches, match, state.find)}</span>
          </>
        )}
      </form>
      <span class="status" role="status" aria-live="polite">
        {sentence(picture, unit)}
      </span>
    </div>
  );
}

/** "3 of 13 matches, 11 of them whole words": a search also finds parts of words, a list of instances does not. */
function describeMatches({ units }: Picture, matches: number[][], match: number, query: string): string {
  if (!matches.length) return "no match";
  const key = query.trim().toLowerCase();
  const whole = matches.filter((touched) => touched.length === 1 && units.key(touched[0]) === key).length;
  const place = match >= 0 ? `${match + 1} of ` : "";
  const parts = whole && whole < matches.length ? `, ${count(whole)} of them whole ${units.level}s` : "";
  return `${place}${count(matches.length)} match${matches.length === 1 ? "" : "es"}${parts}`;
}

/** One line about the selected unit, or about the document. */
function sentence(picture: Picture, unit: number): string {
  const { units, scores, ranks, format, order, peaks } = picture;
  // A reader's count of words leaves punctuation out; ranks do not.
  const marks = units.level === "word" ? " and punctuation marks" : "";
  if (unit < 0) return `${plural(peaks.length, `strong ${units.level}`)} in ${plural(order.length, units.level)}${marks}. Click one.`;
  const rank = ranks[unit] ? `rank ${count(ranks[unit])} of ${count(order.length)}` : "excluded";
  const peak = peaks.indexOf(unit);
  const which = peak >= 0 ? `, strong ${units.level} ${peak + 1} of ${peaks.length}` : "";
  return `“${shortened(units.text(unit), 24)}” ${format.share(scores[unit])} of the total, ${rank}${which}`;
}

function Agreement({ pictures: [a, b] }: { pictures: Picture[] }) {
  // After the texts are drawn: sorting thousands of scores would keep them waiting.
  const [correlation, setCorrelation] = useState<{ a: Picture; b: Picture; rho: number | null } | null>(null);
  useEffect(
    () => whenIdle(() => setCorrelation({ a, b, rho: rankCorrelation(a.scores.map(Math.abs), b.scores.map(Math.abs), a.shown) })),
    [a, b],
  );
  const k = Math.min(COMPARED, a.order.length);
  const shared = useMemo(() => {
    const best = new Set(a.order.slice(0, k));
    return b.order.slice(0, k).filter((unit) => best.has(unit)).length;
  }, [a, b]);
  return (
    <p class="agreement quiet">
      {a.reading.title} and {b.reading.title} share {shared} of their {plural(k, `strongest ${a.units.level}`)}; by chance,{" "}
      {writtenExpectation(expectedByChance(a.order.length, k, 2))} would be expected. Rank correlation of absolute scores:{" "}
      {correlation?.a !== a || correlation.b !== b ? "…"
        : correlation.rho === null ? "undefined, because all scores of one method are equal."
        : `ρ = ${correlation.rho.toFixed(2)} (0 by chance, 1 for the same ranking).`}
    </p>
  );
}

interface ColumnsProperties {
  page: Page;
  pictures: Picture[];
  marks: Marks;
  relations: Relations;
  away: boolean;
  dark: boolean;
  go(unit: number): void;
}

function Columns({ page, pictures, marks, relations, away, dark, go }: ColumnsProperties) {
  const { model, state } = page;
  const [{ units }] = pictures;
  const scroller = useRef<HTMLDivElement>(null);
  const strip = useRef<HTMLCanvasElement>(null);
  const overlay = useRef<SVGSVGElement>(null);
  const hosts = useRef<(HTMLDivElement | null)[]>([]);
  const [tip, setTip] = useState<{ unit: number; box: DOMRect; picture: number } | null>(null);
  const [layout, relayout] = useState(0);
  const made = useRef<TextView[]>([]);
  const views = useMemo(
    () => pictures.map((_, i) => (made.current[i] ??= new TextView(model, made.current[0]))),
    [model, pictures.length],
  );

  const drawn = useRef<{ columns: number; size: LineSize } | null>(null);
  const resizeAll = (size: LineSize) => made.current.forEach((view) => view.resized(size));
  const measure = () => {
    drawn.current!.size = made.current[0].measured();
    resizeAll(drawn.current!.size);
    relayout((count) => count + 1);
  };

  // The copy for a second method is made while nothing else is to be done, so that it appears at once when chosen.
  useEffect(() => {
    if (readingNames(page.source.payload).length < 2) return;
    return whenIdle(() => void (made.current[1] ??= new TextView(model, made.current[0])));
  }, [model]);

  useLayoutEffect(() => {
    views.forEach((view, i) => {
      if (view.element.parentElement !== hosts.current[i]) hosts.current[i]?.replaceChildren(view.element);
    });
    // Measuring would lay out all columns before the frame that does so anyway: halve or double what is known already,
    // and measure when they have been drawn.
    const { current: known } = drawn;
    drawn.current = { columns: views.length, size: known ? resizedLines(known.size, views.length / known.columns) : views[0].measured() };
    resizeAll(drawn.current.size);
    return known ? whenIdle(measure) : undefined;
  }, [views]);
  useLayoutEffect(() => {
    if (!away) views.forEach((view, i) => view.paint(pictures[i], marks));
  }, [views, pictures, marks, away]);

  // The minimap needs the positions of the pieces, which are known only after the text has been laid out. It is drawn a
  // moment later, so that the text appears first.
  const behind = useRef(away);
  behind.current = away;
  const redrawStrip = () => {
    // Checked now, not when the timer was set: measuring a hidden view would force a layout.
    if (behind.current || !strip.current || !scroller.current) return;
    drawMinimap(strip.current, scroller.current, views[0].tops(units.level), pictures[0], marks);
  };
  useEffect(() => {
    const timer = setTimeout(redrawStrip, 20);
    return () => clearTimeout(timer);
  }, [views, layout, state.hide, pictures, marks, away, dark]);
  useEffect(() => {
    if (away || !overlay.current) return;
    const { links } = state;
    const lists = relations.lists;
    if (marks.chosen < 0 || links === "none" || !lists) return overlay.current.replaceChildren();
    drawLinks(overlay.current, views[0], marks.chosen, {
      attended: links === "attending" ? [] : lists.attended,
      attending: links === "attended" ? [] : lists.attending,
    });
  }, [relations, state.links, views, layout, marks.chosen, state.hide, away]);
  useEffect(() => {
    const watched = scroller.current!;
    let width = 0;
    const observer = new ResizeObserver(() => {
      if (watched.clientWidth !== width) measure();
      width = watched.clientWidth;
    });
    observer.observe(watched);
    return () => observer.disconnect();
  }, []);
  // A piece of text that scrolls into view gets its true height, which moves everything below it.
  useEffect(() => {
    let frame = 0;
    const moved = () => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        relayout((count) => count + 1);
      });
    };
    const sheet = scroller.current!;
    sheet.addEventListener("contentvisibilityautostatechange", moved);
    return () => {
      cancelAnimationFrame(frame);
      sheet.removeEventListener("contentvisibilityautostatechange", moved);
    };
  }, []);
  // Scroll to the selected unit, also when the page opens with one.
  useEffect(() => {
    const [span] = away ? [] : views[0].parts(marks.chosen);
    return span && bringIntoView(scroller.current!, span);
  }, [views, marks.chosen, away]);

  const hover = (i: number) => (event: MouseEvent) => {
    const under = views[i].at(event.target);
    setTip(under && { unit: under.unit, box: boxUnder(under.span, event), picture: i });
  };
  const click = (i: number) => (event: MouseEvent) => {
    const under = views[i].at(event.target);
    if (under && String(getSelection()) === "") go(under.unit);
  };
  const drag = (event: PointerEvent) => {
    if (event.buttons && scroller.current && strip.current) {
      scroller.current.scrollTop = scrollPlace(strip.current, scroller.current, event.clientY);
    }
  };
  return (
    <div class="columns">
      <div
        class={`scroller${pictures.length > 1 ? " two" : ""}${state.hide.includes("specials") ? " no-specials" : ""}`}
        ref={scroller}
        onScroll={() => {
          setTip(null);
          redrawStrip();
        }}
      >
        {/* Side by side, the texts themselves come first. */}
        {!away && pictures.length === 1 && <Passages page={page} picture={pictures[0]} />}
        {!away && pictures.length === 1 && <FirstLegend picture={pictures[0]} />}
        <div class="sheet">
          {pictures.map((picture, i) => (
            <article key={i} aria-label={`The document, coloured by ${picture.reading.title}`}>
              {pictures.length > 1 && (
                <header>
                  <div class="row">
                    <h2>{picture.reading.title}</h2>
                    <Mark verdict={verdictOf(page.source.payload, picture.reading)} />
                  </div>
                  <Legend picture={picture} />
                </header>
              )}
              <div
                class="host"
                id={i === 0 ? "sightline-document" : undefined}
                tabIndex={0}
                role="document"
                aria-label="Text. Use the arrow keys to move from word to word."
                ref={(element) => void (hosts.current[i] = element)}
                onMouseOver={hover(i)}
                onMouseLeave={() => setTip(null)}
                onClick={click(i)}
              />
            </article>
          ))}
          <svg class="links" aria-hidden="true" ref={overlay} />
        </div>
      </div>
      <canvas
        class="strip"
        aria-hidden="true"
        ref={strip}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          drag(event);
        }}
        onPointerMove={drag}
      />
      {tip && <Tip picture={pictures[tip.picture]} unit={tip.unit} box={tip.box} />}
    </div>
  );
}

const SEEN = "sightline.legend-seen";

/** What the colours mean, above the text until it has been read once. */
function FirstLegend({ picture: { reading } }: { picture: Picture }) {
  const [seen, setSeen] = useState(wasSeen);
  if (seen) return null;
  const dismiss = () => {
    setSeen(true);
    try {
      localStorage.setItem(SEEN, "yes");
    } catch {
      // Without storage the legend comes back with the next visit.
    }
  };
  return (
    <p class="first-legend" data-section="first-legend">
      {reading.signed ? (
        <>
          <mark class="for-5">Blue</mark> words speak for {reading.label}, <mark class="against-5">orange</mark> words against it.
        </>
      ) : (
        <>
          <mark class="plain-5">Violet</mark> words are important.
        </>
      )}{" "}
      The stronger the colour, the larger the share of the score. Click a word for details.
      <button type="button" class="close" aria-label="Hide this legend" onClick={dismiss}>×</button>
    </p>
  );
}

function wasSeen(): boolean {
  try {
    return localStorage.getItem(SEEN) === "yes";
  } catch {
    return false;
  }
}

/** The box of the line of a span that is under the pointer. */
function boxUnder(span: HTMLElement, { clientY }: MouseEvent): DOMRect {
  const boxes = [...span.getClientRects()];
  return boxes.find((box) => box.top <= clientY && clientY <= box.bottom) ?? boxes[0];
}

/** Scroll until a span is visible; the returned function cancels scrolling. */
function bringIntoView(box: HTMLElement, span: HTMLElement): () => void {
  let frame = 0;
  const scroll = (tries: number) => {
    if (inView(box, span)) return;
    // Scroll only the text; in a notebook the surrounding page must not move.
    box.scrollTop += span.getBoundingClientRect().top - box.getBoundingClientRect().top - visibleHeight(box) / 2;
    // Pieces that have become visible may be taller than estimated.
    if (tries > 1) frame = requestAnimationFrame(() => scroll(tries - 1));
  };
  scroll(MOST_TRIES);
  return () => cancelAnimationFrame(frame);
}

function inView(scroller: HTMLElement, span: HTMLElement): boolean {
  const [box, place] = [scroller.getBoundingClientRect(), span.getBoundingClientRect()];
  return place.top > box.top + MARGIN && place.bottom < box.top + visibleHeight(scroller) - MARGIN;
}

/** Height of the visible text; on narrow screens the details cover its lower part. */
function visibleHeight(scroller: HTMLElement): number {
  const details = scroller.closest(".sightline")!.querySelector(".details.open");
  const covered = details && getComputedStyle(details).position === "absolute";
  const { top, height } = scroller.getBoundingClientRect();
  return covered ? Math.min(height, details.getBoundingClientRect().top - top) : height;
}

function Tip({ picture, unit, box }: { picture: Picture; unit: number; box: DOMRect }) {
  const { units, scores, ranks, format, reading, order, shown } = picture;
  const element = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const tip = element.current!;
    const { offsetWidth: width, offsetHeight: height } = tip;
    // Positions are relative to the view, which can be anywhere in a notebook.
    const view = tip.closest(".sightline")!.getBoundingClientRect();
    const left = box.left + box.width / 2 - width / 2 - view.left;
    const above = box.top - view.top - height - 8;
    tip.style.left = `${Math.max(8, Math.min(left, view.width - width - 8))}px`;
    tip.style.top = `${above > 8 ? above : box.bottom - view.top + 8}px`;
  });
  const score = scores[unit];
  const direction = reading.signed && score !== 0 ? ` ${score > 0 ? "for" : "against"} ${reading.label}` : "";
  return (
    <div class="tip" role="tooltip" ref={element}>
      <b dir="auto">{shortened(units.text(unit), 80)}</b>
      <div>{format.share(score)} of the total{direction}</div>
      <div>{shown[unit] ? `rank ${count(ranks[unit])} of ${count(order.length)}` : "excluded"}, {format.raw(score)}</div>
      <div>
        {units.name(unit)}, token position {ranges(units.tokens(unit))}
      </div>
    </div>
  );
}
