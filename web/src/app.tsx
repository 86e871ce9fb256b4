// The application: its state, the address, keyboard shortcuts, and the view that is shown.

import { Fragment } from "preact";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { DocumentModel } from "./document";
import { usePicture, useRelations, type Page } from "./hooks";
import type { Source } from "./source";
import { fromHash, initialState, readingNames, toHash, type State } from "./state";
import { untilDrawn } from "./timing";
import { useTrials } from "./trials";
import { VIEW_NAMES, VIEWS, type ViewEntry, type ViewProperties } from "./views";

export interface AppProperties {
  source: Source;
  model: DocumentModel;
  /** Store the state in the address and listen to keys in the whole window. */
  url: boolean;
  root: HTMLElement;
}

export function App({ source, model, url, root }: AppProperties) {
  const { payload } = source;
  const [state, setState] = useState<State>(() => (url ? fromHash(location.hash, payload, VIEW_NAMES) : initialState(payload)));
  const started = useRef<number | null>(null);
  const set = useCallback((change: Partial<State>) => {
    started.current ??= performance.now();
    if (change.view && change.view !== "text") dropCaret(root);
    setState((now) => ({ ...now, ...change }));
  }, []);
  useLayoutEffect(() => {
    if (started.current !== null) untilDrawn("sightline:change", started.current);
    started.current = null;
  }, [state]);
  useAddress(url, state, setState, source);
  const [dark, setDark] = useTheme(root);
  useFloating(root);

  const page: Page = { source, model, state, set };
  const units = model.units(state.level);
  const first = usePicture(source, model, state.method, state)!;
  const second = usePicture(source, model, state.compare, state);
  const pictures = useMemo(() => (second ? [first, second] : [first]), [first, second]);
  const unit = state.unit === null ? -1 : units.of[state.unit];
  const relations = useRelations(source, units, state.view === "text" ? unit : -1, state);

  const trials = useTrials(page);
  const go = useCallback((to: number) => set({ view: "text", layout: "text", unit: units.tokens(to)[0] ?? null }), [units]);
  const clear = useCallback(() => set({ unit: null }), []);
  const step = (by: number) => {
    const to = neighbour(first.peaks, unit, by);
    if (to !== null) go(to);
  };
  const find = useFindBox(root, state.view === "text" && state.layout === "text", () => set({ view: "text", layout: "text" }));
  useKeys(url ? window : root, (event) => {
    const act = keyAction(event, { page, unit, go, step, find, root });
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
        <h1 dir="auto" title={payload.title}>{payload.title}</h1>
        <Tabs page={page} />
        <ThemeButton dark={dark} choose={setDark} />
      </header>
      <Views current={state.view} properties={{ page, picture: first, pictures, unit, relations, trials, dark, go, step, clear }} />
    </>
  );
}

/** The current view, and behind it those that stay once they have been shown. */
function Views({ current, properties }: { current: string; properties: Omit<ViewProperties, "away"> }) {
  const shown = useRef(new Set<string>());
  shown.current.add(current);
  const draw = ({ name, component: View }: ViewEntry) => <View key={name} {...properties} away={name !== current} />;
  const title = VIEWS.find(({ name }) => name === current)?.title;
  return (
    <main aria-label={title} data-view={current}>
      {VIEWS.filter(({ name, stays }) => stays && shown.current.has(name)).map(draw)}
      {/* Canvases take their colours from the style sheet, so a change of theme draws them again. */}
      <Fragment key={String(properties.dark)}>{VIEWS.filter(({ name, stays }) => !stays && name === current).map(draw)}</Fragment>
    </main>
  );
}

function Tabs({ page: { source, state, set } }: { page: Page }) {
  return (
    <nav class="tabs" aria-label="Views">
      {VIEWS.filter(({ offered }) => offered(source.payload)).map(({ name, title, short }) => (
        <button type="button" key={name} aria-current={state.view === name ? "page" : undefined} onClick={() => set({ view: name })}>
          <span class="full">{title}</span>
          <span class="short">{short}</span>
        </button>
      ))}
    </nav>
  );
}

function ThemeButton({ dark, choose }: { dark: boolean; choose(dark: boolean): void }) {
  const offered = dark ? "Switch to light colours" : "Switch to dark colours";
  return (
    <button type="button" class="theme" aria-label={offered} title={offered} onClick={() => choose(!dark)}>
      ◐
    </button>
  );
}

/** Close what lies over the page when something else is clicked. */
function useFloating(root: HTMLElement): void {
  useEffect(() => {
    const close = ({ target }: Event) => closeFloating(root, target as Node);
    root.addEventListener("click", close);
    return () => root.removeEventListener("click", close);
  }, [root]);
}

function closeFloating(root: HTMLElement, except: Node | null = null): void {
  for (const one of root.querySelectorAll<HTMLDetailsElement>("details.floating[open]")) if (!one.contains(except)) one.open = false;
}

/** Whether dark colours are used: as the system is set, until the user chooses. */
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

/** Remove the caret that a click has left in the text; otherwise the browser would lay out the hidden text. */
function dropCaret(root: HTMLElement): void {
  const selection = getSelection();
  if (selection?.isCollapsed && root.contains(selection.anchorNode)) selection.removeAllRanges();
}

/** Synchronise the address and the state, in both directions. */
function useAddress(url: boolean, state: State, setState: (state: State) => void, source: Source): void {
  useEffect(() => {
    if (!url) return;
    const hash = toHash(state, source.payload);
    if (hash === location.hash.replace(/^#/, "")) return;
    try {
      history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
    } catch {
      // Some viewers forbid this; the page works without it.
    }
  }, [url, state]);
  useLayoutEffect(() => {
    if (!url) return;
    const read = () => setState(fromHash(location.hash, source.payload, VIEW_NAMES));
    addEventListener("hashchange", read);
    return () => removeEventListener("hashchange", read);
  }, [url]);
}

/** The next (or previous) unit of a list in document order, relative to the selected one, wrapping around. */
export function neighbour(list: number[], unit: number, by: number): number | null {
  if (!list.length) return null;
  const place = list.indexOf(unit);
  if (place >= 0) return list[(place + by + list.length) % list.length];
  const next = by > 0 ? list.find((other) => other > unit) : list.findLast((other) => other < unit);
  return next ?? (by > 0 ? list[0] : list[list.length - 1]);
}

interface Here {
  page: Page;
  unit: number;
  go(unit: number): void;
  step(by: number): void;
  find(): void;
  root: HTMLElement;
}

function keyAction(event: KeyboardEvent, { page, unit, go, step, find, root }: Here): (() => void) | null {
  const { model, state, set, source } = page;
  const target = event.target as HTMLElement | null;
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  if (event.key === "Escape") {
    return () => {
      // Back to the text, so that the next key is a command and not typed into the box.
      if (target?.matches("input[type=search]")) root.querySelector<HTMLElement>(".host")?.focus({ preventScroll: true });
      closeFloating(root);
      set({ unit: null, find: "", head: null });
    };
  }
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
      return find;
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

/** Put the focus into the find box as soon as it is there: what is typed before the next frame must reach it. */
function useFindBox(root: HTMLElement, shown: boolean, show: () => void): () => void {
  const wanted = useRef(false);
  const focus = () => root.querySelector<HTMLElement>("[data-control=find]")?.focus();
  useLayoutEffect(() => {
    if (shown && wanted.current) focus();
    wanted.current = false;
  }, [shown]);
  return () => {
    if (shown) return focus();
    wanted.current = true;
    show();
  };
}

function useKeys(target: Window | HTMLElement, act: (event: KeyboardEvent) => boolean): void {
  const latest = useRef(act);
  latest.current = act;
  // Not a frame later: the first key may come as soon as the page is there.
  useLayoutEffect(() => {
    const listen = (event: Event) => {
      if (latest.current(event as KeyboardEvent)) event.preventDefault();
    };
    target.addEventListener("keydown", listen);
    return () => target.removeEventListener("keydown", listen);
  }, [target]);
}

function skip(event: Event, root: HTMLElement): void {
  // The address holds the state of the page, so the link must not change it.
  event.preventDefault();
  root.querySelector<HTMLElement>(".host")?.focus();
}
