// Where the view reads from: one interface for a report (arrays inside the file), a notebook (buffers) and a server.

import { decode, fromBase64, inflate, type Numbers } from "./arrays";
import { checked, type Payload } from "./payload";

export interface RelationQuery {
  tokens: number[];
  /** Empty: all. */
  layers: number[];
  heads: number[];
  k: number;
}

/** Partners with their weights, strongest first. */
export type Partner = [position: number, weight: number];

export interface RelationLists {
  attended: Partner[];
  attending: Partner[];
}

export interface TileQuery {
  layer: number;
  head: number;
  rows: [start: number, stop: number];
  columns: [start: number, stop: number];
  size: number;
}

/** Mean weights of a part of a head's map, in C order. */
export interface Tile {
  rows: number;
  columns: number;
  values: Float32Array;
}

/** The prediction for an edited text. */
export interface EditedPrediction {
  label: string;
  probability: number;
  classes: { label: string; probability: number }[];
  /** The words and their scores, where they were asked for and can be had. */
  words?: { text: string; score: number }[] | null;
}

/** What is explained of an edited text: the same as of the document. */
export interface EditedQuestion {
  method: string;
  target: string;
}

export interface Source {
  readonly payload: Payload;
  /** Called when the first of several requests begins and when the last one ends. */
  onBusy?(busy: boolean): void;
  has(name: string): boolean;
  array(name: string): Promise<Numbers>;
  relations?(query: RelationQuery): Promise<RelationLists>;
  tile?(query: TileQuery): Promise<Tile>;
  /** A server also explains the edited text again, as `explain` says. */
  predict?(text: string, pair: string | null, explain: EditedQuestion | null): Promise<EditedPrediction>;
}

/** Keeps every array after the first time; subclasses say where the bytes come from. */
abstract class KeepingSource implements Source {
  onBusy?: Source["onBusy"];
  private readonly kept = new Map<string, Promise<Numbers>>();
  private pending = 0;

  constructor(readonly payload: Payload) {}

  has(name: string): boolean {
    return Object.hasOwn(this.payload.arrays, name);
  }

  array(name: string): Promise<Numbers> {
    const known = this.kept.get(name);
    if (known) return known;
    if (!this.has(name)) return Promise.reject(new Error(`This page has no array '${name}'.`));
    const made = this.track(this.bytes(name).then((bytes) => decode(bytes, this.payload.arrays[name])));
    this.kept.set(name, made);
    // A failed fetch may be tried again.
    made.catch(() => this.kept.delete(name));
    return made;
  }

  protected track<T>(request: Promise<T>): Promise<T> {
    if (!this.pending++) this.onBusy?.(true);
    const end = () => void (--this.pending || this.onBusy?.(false));
    request.then(end, end);
    return request;
  }

  protected abstract bytes(name: string): Promise<ArrayBuffer>;
}

class InlineSource extends KeepingSource {
  protected bytes(name: string): Promise<ArrayBuffer> {
    return inflate(fromBase64(this.payload.arrays[name].data ?? ""));
  }
}

class BufferSource extends KeepingSource {
  predict?: Source["predict"];

  constructor(
    payload: Payload,
    private readonly buffers: Record<string, DataView>,
    predict?: Source["predict"],
  ) {
    super(payload);
    if (payload.live?.predict) this.predict = predict;
  }

  protected async bytes(name: string): Promise<ArrayBuffer> {
    const view = this.buffers[name];
    // A copy, because a view into a larger message need not be aligned.
    return new Uint8Array(view.buffer, view.byteOffset, view.byteLength).slice().buffer as ArrayBuffer;
  }
}

class HttpSource extends KeepingSource {
  relations?: Source["relations"];
  tile?: Source["tile"];
  predict?: Source["predict"];

  constructor(
    payload: Payload,
    private readonly base: string,
  ) {
    super(payload);
    if (payload.live?.relations) this.relations = (query) => this.track(this.fetchRelations(query));
    if (payload.live?.tiles) this.tile = (query) => this.track(this.fetchTile(query));
    if (payload.live?.predict) this.predict = (text, pair, explain) => this.track(this.fetchPrediction(text, pair, explain));
  }

  protected async bytes(name: string): Promise<ArrayBuffer> {
    return (await answered(`${this.base}/arrays/${encodeURIComponent(name)}`)).arrayBuffer();
  }

  private async fetchRelations({ tokens, layers, heads, k }: RelationQuery): Promise<RelationLists> {
    const query = new URLSearchParams({ k: String(k) });
    for (const token of tokens) query.append("token", String(token));
    if (layers.length) query.set("layers", layers.join(","));
    if (heads.length) query.set("heads", heads.join(","));
    return (await answered(`${this.base}/relations?${query}`)).json() as Promise<RelationLists>;
  }

  private async fetchPrediction(text: string, pair: string | null, explain: EditedQuestion | null): Promise<EditedPrediction> {
    const asked = explain && { methods: [explain.method], target: explain.target };
    const init = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ text, pair, ...asked }) };
    return (await answered(`${this.base}/predict`, init)).json() as Promise<EditedPrediction>;
  }

  private async fetchTile({ layer, head, rows, columns, size }: TileQuery): Promise<Tile> {
    const query = new URLSearchParams({ rows: rows.join(":"), columns: columns.join(":"), size: String(size) });
    const answer = await answered(`${this.base}/heads/${layer}/${head}?${query}`);
    const shape = (answer.headers.get("X-Shape") ?? "").split(",").map(Number);
    const values = decode(await answer.arrayBuffer(), { dtype: "float16", shape }) as Float32Array;
    return { rows: shape[0], columns: shape[1], values };
  }
}

async function answered(address: string, init?: RequestInit): Promise<Response> {
  const answer = await fetch(address, init);
  if (answer.ok) return answer;
  const body = (await answer.json().catch(() => null)) as { error?: unknown } | null;
  throw new Error(typeof body?.error === "string" ? body.error : `The server answered ${answer.status}.`);
}

export function inlineSource(json: string): Source {
  return new InlineSource(checked(JSON.parse(json)));
}

export function bufferSource(payload: unknown, buffers: Record<string, DataView>, predict?: Source["predict"]): Source {
  return new BufferSource(checked(payload), buffers, predict);
}

/** A source at a server: `base` is the address below which payload, arrays, relations and tiles are. */
export async function httpSource(base: string): Promise<Source> {
  const address = base.replace(/\/+$/, "");
  return new HttpSource(checked(await (await answered(`${address}/payload`)).json()), address);
}
