// Earlier explanations: titles and settings are stored in this browser, texts never.
//
// Texts stay in the session of this tab (sessionStorage, deleted when the tab is closed), so that a result that the
// server no longer has can be computed again with one click.

import type { ExplainRequest, Texts } from "./api";

const LIST = "sightline.history";
const TEXT = "sightline.text.";
const MOST = 30;
const LONGEST_TITLE = 60;

export interface Entry {
  id: string;
  title: string;
  /** Identifies the text without storing it. */
  hash: string;
  when: number;
  settings: Omit<ExplainRequest, keyof Texts>;
}

export function entries(storage: Storage = localStorage): Entry[] {
  try {
    const stored: unknown = JSON.parse(storage.getItem(LIST) ?? "[]");
    return Array.isArray(stored) ? stored.filter(isEntry) : [];
  } catch {
    return []; // damaged, or written by another program
  }
}

export function remember(id: string, request: ExplainRequest, now: number, storage: Storage = localStorage): void {
  const { text, pair, continuation, ...settings } = request;
  const entry: Entry = { id, title: titleOf(text), hash: hashOf(text, pair, continuation), when: now, settings };
  write(storage, LIST, JSON.stringify([entry, ...entries(storage).filter((entry) => entry.id !== id)].slice(0, MOST)));
}

export function forget(id: string, storage: Storage = localStorage): void {
  write(storage, LIST, JSON.stringify(entries(storage).filter((entry) => entry.id !== id)));
}

export function forgetAll(storage: Storage = localStorage, session: Storage = sessionStorage): void {
  storage.removeItem(LIST);
  for (const key of Object.keys(session)) if (key.startsWith(TEXT)) session.removeItem(key);
}

/** Store the texts of a request for this tab. */
export function keepTexts(request: ExplainRequest, session: Storage = sessionStorage): void {
  const { text, pair, continuation } = request;
  write(session, TEXT + hashOf(text, pair, continuation), JSON.stringify({ text, pair, continuation }));
}

export function textsOf(entry: Entry, session: Storage = sessionStorage): Texts | null {
  try {
    return JSON.parse(session.getItem(TEXT + entry.hash) ?? "null") as Texts | null;
  } catch {
    return null;
  }
}

/** The first line that is not blank, shortened. */
export function titleOf(text: string): string {
  const line = text.split(/\r?\n/).find((part) => part.trim())?.trim() ?? "";
  const characters = [...line];
  return characters.length > LONGEST_TITLE ? characters.slice(0, LONGEST_TITLE - 1).join("") + "…" : line;
}

/** A short fingerprint (FNV-1a, two lanes of 32 bits). */
export function hashOf(text: string, pair: string | null, continuation: string | null = null): string {
  let [a, b] = [0x811c9dc5, 0x1000193];
  const whole = text + (pair === null ? "" : `\0${pair}`) + (continuation === null ? "" : `\0\0${continuation}`);
  for (let i = 0; i < whole.length; i++) {
    a = Math.imul(a ^ whole.charCodeAt(i), 0x01000193);
    b = Math.imul(b ^ whole.charCodeAt(i), 0x85ebca6b) + i;
  }
  return [a, b].map((lane) => (lane >>> 0).toString(16).padStart(8, "0")).join("");
}

function write(storage: Storage, key: string, value: string): void {
  try {
    storage.setItem(key, value);
  } catch {
    // Storage is full or forbidden; the page works without it.
  }
}

function isEntry(value: unknown): value is Entry {
  const entry = value as Partial<Entry> | null;
  return (
    typeof entry?.id === "string" &&
    typeof entry.title === "string" &&
    typeof entry.hash === "string" &&
    typeof entry.when === "number" &&
    Array.isArray(entry.settings?.methods)
  );
}
