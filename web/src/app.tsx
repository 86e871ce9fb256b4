// The whole view: its state, the address, the keys, and which part is shown.

import { Fragment } from "preact";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Controls } from "./controls";
import { CurvesView } from "./curves_view";
import { Details } from "./details";
import type { DocumentModel } from "./document";
import { percent } from "./format";
import { HeadsView } from "./heads_view";
import { usePicture, useRelations, type Page } from "./hooks";
import { LayersView } from "./layers_view";
import { explanationOf } from "./reading";
import { ReadView } from "./read_view";
import type { Source } from "./source";
import { fromHash, initialState, layerCount, readingNames, toHash, VIEWS, type State, type View } from "./state";
import { untilDrawn } from "./timing";
import { Mark, verdictOf } from "./verdict";
import { WordsView } from "./words_view";

const VIEW_NAMES: Record<View, string> = { read: "Read", heads: "Heads", words: "Words", layers: "Layers", curves: "Curves" };

export interface AppProperties {
  source: Source;
  model: DocumentModel;
  /** Keep the state in the address and take keys from the whole window. */
  url: boolean;
  root: HTMLElement;
}

export function App({ source, model, url, root }: AppProperties) {
  const { payload } = source;
  const [state, setState] = useState<State>(() => (url ? fromHash(location.hash, payload) : initialState(payload)));
  const started = useRef<number | null>(null);
  const set = useCallback((change: Partial<State>) => {
    started.current ??= performance.now();
    if (change.view && change.view !== "read") dropCaret(root);
    setState((now) => ({ ...now, ...change }));
  }, []);
  useLayoutEffect(() => {
    if (started.current !== null) untilDrawn("sightline:change", started.current);
    started.current = null;
  }, [state]);
  useAddress(url, state, setState, source);
  const [dark, setDark] = useTheme(root);
  // In a narrow view the settings lie behind a button.
  const [settings, setSettings] = useState(false);

  // Once the text has been laid out it stays, behind the other views.
  const read = useRef(false);
  read.current ||= state.view === "read";

  const page: Page = { source, model, state, set };
  const units = model.units(state.level);
  const first = usePicture(source, model, state.method, state)!;
  const second = usePicture(source, model, state.compare, state);
  const pictures = useMemo(() => (second ? [first, second] : [first]), [first, second]);
  const unit = state.unit === null ? -1 : units.of[state.unit];
  const { prediction } = explanationOf(payload, first.reading);
  const relations = useRelations(source, units, state.view === "read" ? unit : -1, state);

  const go = useCallback((to: number) => set({ view: "read", unit: units.tokens(to)[0] ?? null }), [units]);
  const clear = useCallback(() => set({ unit: null }), []);
  const step = (by: number) => {
    const to = neighbour(first.peaks, unit, by);
    if (to !== null) go(to);
  };
  useKeys(url ? window : root, (event) => {
    const act = keyAction(event, { page, unit, go, step, root });
    if (act) act();
    return act !== null;
  });

  return (
    <>
      <a class="skip" href="#sightline-document" onClick={(event) => skip(event, root)}>
        Skip to the document
      </a>
      <header class="top">
        <p class="brand">Sightline</p>
        <h1 dir="auto">{payload.title}</h1>
        <p class="brief">
          <b>{prediction.label}</b> {percent(prediction.probability)}, by {first.reading.name}{" "}
          <Mark verdict={verdictOf(payload, first.reading)} />{" "}
          <button type="button" data-control="settings" aria-expanded={settings} onClick={() => setSettings(!settings)}>
            Settings
          </button>
        </p>
        <Tabs page={page} />
        <ThemeButton dark={dark} choose={setDark} />
      </header>
      <div class={settings ? "body settings" : "body"}>
        <Controls page={page} picture={first} />
        <main aria-label={VIEW_NAMES[state.view]} data-view={state.view}>
          {read.current && (
            <ReadView {...{ page, pictures, unit, relations, dark, go, step }} away={state.view !== "read"} />
          )}
          {/* Canvases take their colours from the style sheet: another theme draws them anew. */}
          <Fragment key={String(dark)}>
            {state.view === "heads" && <HeadsView page={page} />}
            {state.view === "words" && <WordsView page={page} picture={first} go={go} />}
            {state.view === "layers" && <LayersView page={page} picture={first} go={go} />}
            {state.view === "curves" && <CurvesView curves={payload.curves} />}
          </Fragment>
        </main>
        {state.view === "read" && (
          <Details page={page} picture={first} unit={unit} relations={relations} go={go} clear={clear} />
        )}
      </div>
    </>
  );
}

function Tabs({ page: { source, state, set } }: { page: Page }) {
  const { payload } = source;
  const offered: Record<View, boolean> = {
    read: true,
    heads: payload.inside !== null,
    words: true,
    layers: layerCount(payload) > 0,
    curves: payload.curves.length > 0,
  };
  return (
    <nav class="tabs" aria-label="Views">
      {VIEWS.filter((view) => offered[view]).map((view) => (
        <button type="button" key={view} aria-current={state.view === view ? "page" : undefined} onClick={() => set({ view })}>
          {VIEW_NAMES[view]}
        </button>
      ))}
    </nav>
  );
}

function ThemeButton({ dark, choose }: { dark: boolean; choose(dark: boolean): void }) {
  const offered = dark ? "Light colours" : "Dark colours";
  return (
    <button type="button" class="theme" aria-label={offered} title={offered} onClick={() => choose(!dark)}>
      ◐
    </button>
  );
}

/** Whether the colours are the dark ones: as the system says, until somebody chooses. */
function useTheme(root: HTMLElement): [dark: boolean, choose: (dark: boolean) => void] {
  const system = useMemo(() => matchMedia("(prefers-color-scheme: dark)"), []);
  const [dark, setDark] = useState(system.matches);
  useEffect(() => {
    const follow = () => !root.dataset.theme && setDark(system.matches);
    system.addEventListener("change", follow);
    return () => system.removeEventListener("change", follow);
  }, [system]);
  const choose = (wanted: boolean) => {
    root.dataset.theme = wanted ? "dark" : "light";
    setDark(wanted);
  };
  return [dark, choose];
}

/** Take away a caret that a click has left in the text: for its sake a browser would lay out the text behind a view. */
function dropCaret(root: HTMLElement): void {
  const selection = getSelection();
  if (selection?.isCollapsed && root.contains(selection.anchorNode)) selection.removeAllRanges();
}

/** Keep the address and the state in step, in both directions. */
function useAddress(url: boolean, state: State, setState: (state: State) => void, source: Source): void {
  useEffect(() => {
    if (!url) return;
    const hash = toHash(state, source.payload);
    if (hash === location.hash.replace(/^#/, "")) return;
    try {
      history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
    } catch {
      // Some viewers forbid it; the page works without.
    }
  }, [url, state]);
  useEffect(() => {
    if (!url) return;
    const read = () => setState(fromHash(location.hash, source.payload));
    addEventListener("hashchange", read);
    return () => removeEventListener("hashchange", read);
  }, [url]);
}

/** The next of some units in document order after (or before) the chosen one, round and round. */
export function neighbour(list: number[], unit: number, by: number): number | null {
  if (!list.length) return null;
  const place = list.indexOf(unit);
  if (place >= 0) return list[(place + by + list.length) % list.length];
  const found = by > 0 ? list.find((one) => one > unit) : list.findLast((one) => one < unit);
  return found ?? (by > 0 ? list[0] : list[list.length - 1]);
}

interface Here {
  page: Page;
  unit: number;
  go(unit: number): void;
  step(by: number): void;
  root: HTMLElement;
}

function keyAction(event: KeyboardEvent, { page, unit, go, step, root }: Here): (() => void) | null {
  const { model, state, set, source } = page;
  const target = event.target as HTMLElement | null;
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  if (event.key === "Escape") return () => set({ unit: null, find: "", head: null });
  if (target?.matches("input[type=search], select, textarea")) return null;
  const units = model.units(state.level);
  const beside = (by: number) => () => {
    const next = neighbour(Array.from({ length: units.count }, (_, i) => i).filter((one) => !units.isSpecial(one) || !state.hide.includes("specials")), unit, by);
    if (next !== null) go(next);
  };
  switch (event.key) {
    case "n":
      return () => step(1);
    case "p":
      return () => step(-1);
    case ".":
    case ",":
      return unit < 0 ? null : () => go(neighbour(units.instances(unit), unit, event.key === "." ? 1 : -1)!);
    case "/":
      return () => {
        set({ view: "read" });
        requestAnimationFrame(() => root.querySelector<HTMLElement>("[data-control=find]")?.focus());
      };
    case "ArrowRight":
    case "ArrowLeft":
      return target?.matches(".host") ? beside(event.key === "ArrowRight" ? 1 : -1) : null;
  }
  if (/^[1-9]$/.test(event.key)) {
    const method = readingNames(source.payload)[Number(event.key) - 1];
    return method ? () => set({ method }) : null;
  }
  return null;
}

function useKeys(target: Window | HTMLElement, act: (event: KeyboardEvent) => boolean): void {
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => {
    const listen = (event: Event) => {
      if (latest.current(event as KeyboardEvent)) event.preventDefault();
    };
    target.addEventListener("keydown", listen);
    return () => target.removeEventListener("keydown", listen);
  }, [target]);
}

function skip(event: Event, root: HTMLElement): void {
  // The address holds the state of the view, so the link must not change it.
  event.preventDefault();
  root.querySelector<HTMLElement>(".host")?.focus();
}
