// The text: the answer, one line of tools, and the coloured document, alone or next to a second method, with minimap, arcs of
// attention and search. Everything scrolls together, so that the text has the room once the answer has been read.

import type { ComponentChild, RefObject } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Answer, Notices, Origin } from "./answer";
import { expectedByChance, writtenExpectation } from "./consensus";
import { find } from "./document";
import { count, plural, ranges, shortened } from "./format";
import type { Page, Relations } from "./hooks";
import { drawLinks } from "./links";
import { drawMinimap, scrollPlace } from "./minimap";
import { OutlineView } from "./outline_view";
import { Panel } from "./panel";
import { rankCorrelation } from "./ranking";
import { decidingTokens, type Picture } from "./reading";
import { resizedLines, type LineSize } from "./pieces";
import { readingNames } from "./state";
import { TextView, type Marks } from "./text_view";
import { whenIdle } from "./timing";
import { Toolbar } from "./toolbar";
import { Mark, verdictOf } from "./verdict";
import type { ViewProperties } from "./views";

/** A selected word closer than this to the edge of the text is scrolled to the middle, in pixels. */
const MARGIN = 40;
const MOST_TRIES = 4;
/** Strongest units of which two methods are said to share so many. */
const COMPARED = 20;

export function DocumentView(properties: ViewProperties) {
  const { page, pictures, unit, relations, away, dark, go, step } = properties;
  const { model, state } = page;
  const [first] = pictures;
  const { units } = first;
  const matches = useMemo(() => find(model.data, units, state.find), [model, units, state.find]);
  const marks = useMemo<Marks>(
    () => ({
      chosen: unit,
      same: new Set(unit >= 0 && units.level !== "paragraph" ? units.instances(unit) : []),
      found: new Set(matches.flat()),
      deciding: new Set(units.level === "word" ? decidingTokens(page, first).map((token) => units.of[token]) : []),
    }),
    [units, unit, matches, first.reading],
  );
  const scroller = useRef<HTMLDivElement>(null);
  // On narrow screens the lists lie over the lower edge, and are behind a button.
  const [listed, setListed] = useState(false);
  const outlined = state.layout === "outline";
  // Text that has never been shown cannot be measured.
  const drawn = useRef(false);
  drawn.current ||= !outlined;
  const behind = useRef(away);
  behind.current = away || outlined;
  // Behind another view everything stays as it is: a change would make the browser lay out what nobody sees.
  const content = useRef<ComponentChild>(null);
  if (!away) {
    content.current = (
      <>
        <Notices page={page} picture={first} />
        <Answer page={page} picture={first} />
        <Origin page={page} picture={first} />
        <Toolbar page={page} picture={first} unit={unit} matches={matches} go={go} step={step}>
          <button type="button" class="narrow" data-control="strongest" aria-expanded={listed} onClick={() => setListed(!listed)}>
            Strongest {units.level}s
          </button>
        </Toolbar>
        {pictures.length > 1 && <Agreement pictures={pictures} />}
        <div class="columns">
          {outlined && <OutlineView page={page} picture={first} />}
          {drawn.current && <Columns {...{ page, pictures, marks, relations, dark, go, scroller, behind }} away={outlined} />}
          <Panel {...properties} open={unit >= 0 || listed} clear={() => (setListed(false), properties.clear())} />
        </div>
      </>
    );
  }
  const place = useRef(0);
  useLayoutEffect(() => {
    if (!away) scroller.current!.scrollTop = place.current;
  }, [away]);
  return (
    <div
      class={`read scroller${away ? " away" : ""}${state.hide.includes("specials") ? " no-specials" : ""}`}
      ref={scroller}
      onScroll={(event) => !away && (place.current = event.currentTarget.scrollTop)}
    >
      {content.current}
    </div>
  );
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
  scroller: RefObject<HTMLDivElement>;
  /** Whether the text is behind something else. */
  behind: { current: boolean };
  page: Page;
  pictures: Picture[];
  marks: Marks;
  relations: Relations;
  away: boolean;
  dark: boolean;
  go(unit: number): void;
}

function Columns({ scroller, behind, page, pictures, marks, relations, away, dark, go }: ColumnsProperties) {
  const { model, state } = page;
  const [{ units }] = pictures;
  const sheet = useRef<HTMLDivElement>(null);
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
  const redrawStrip = () => {
    // Checked now, not when the timer was set: measuring a hidden view would force a layout.
    if (behind.current || !strip.current || !scroller.current) return;
    fitBeside(scroller.current);
    drawMinimap(strip.current, scroller.current, sheet.current!, views[0].tops(units.level), pictures[0], marks);
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
  const width = useRef(0);
  const refit = () => {
    const { clientWidth } = scroller.current!;
    // Hidden text cannot be measured; it is when it is shown again.
    if (behind.current || clientWidth === width.current) return;
    width.current = clientWidth;
    measure();
  };
  useEffect(refit);
  useEffect(() => {
    const observer = new ResizeObserver(refit);
    observer.observe(scroller.current!);
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
    const watched = sheet.current!;
    watched.addEventListener("contentvisibilityautostatechange", moved);
    return () => {
      cancelAnimationFrame(frame);
      watched.removeEventListener("contentvisibilityautostatechange", moved);
    };
  }, []);
  // What is beside the text ends where the view does.
  useEffect(() => {
    const scrolled = () => {
      setTip(null);
      redrawStrip();
    };
    const watched = scroller.current!;
    watched.addEventListener("scroll", scrolled, { passive: true });
    return () => watched.removeEventListener("scroll", scrolled);
  });
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
      scroller.current.scrollTop = scrollPlace(strip.current, scroller.current, sheet.current!, event.clientY);
    }
  };
  return (
    <>
      <div class={`sheet${pictures.length > 1 ? " two" : ""}${away ? " away" : ""}`} ref={sheet}>
        {pictures.map((picture, i) => (
          <article key={i} aria-label={`The document, coloured by ${picture.reading.title}`}>
            {pictures.length > 1 && (
              <header>
                <h2>{picture.reading.title}</h2>
                <Mark verdict={verdictOf(page.source.payload, picture.reading)} />
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
    </>
  );
}

/** Let minimap and lists end at the lower edge of the view, wherever the text is scrolled to. */
function fitBeside(scroller: HTMLElement): void {
  const room = scroller.getBoundingClientRect().bottom - topOfText(scroller);
  for (const one of scroller.querySelectorAll<HTMLElement>(".strip, .details")) one.style.setProperty("--room", `${Math.round(room)}px`);
}

/** Where the text begins in the window: below the tools, which may stay at the top. */
function topOfText(scroller: HTMLElement): number {
  const tools = scroller.querySelector(".toolbar")!.getBoundingClientRect();
  return Math.max(scroller.getBoundingClientRect().top, tools.bottom);
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
    const [top, bottom] = visiblePart(box);
    box.scrollTop += span.getBoundingClientRect().top - (top + bottom) / 2;
    // Pieces that have become visible may be taller than estimated.
    if (tries > 1) frame = requestAnimationFrame(() => scroll(tries - 1));
  };
  scroll(MOST_TRIES);
  return () => cancelAnimationFrame(frame);
}

function inView(scroller: HTMLElement, span: HTMLElement): boolean {
  const [top, bottom] = visiblePart(scroller);
  const place = span.getBoundingClientRect();
  return place.top > top + MARGIN && place.bottom < bottom - MARGIN;
}

/** Upper and lower edge of the visible text; on narrow screens the details cover its lower part. */
function visiblePart(scroller: HTMLElement): [top: number, bottom: number] {
  const details = scroller.querySelector(".details")!;
  const covered = getComputedStyle(details).position === "fixed" && details.getBoundingClientRect().height;
  const { bottom } = scroller.getBoundingClientRect();
  return [topOfText(scroller), covered ? Math.min(bottom, details.getBoundingClientRect().top) : bottom];
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
