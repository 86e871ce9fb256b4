// The part of the server's API that this page uses; docs/guides/server.md describes the whole API.

export interface Model {
  name: string;
  task: string;
  labels: string[];
  max_tokens: number;
  default_methods: string[];
}

export interface MethodOption {
  default: unknown;
  /** The possible values, in words. */
  values: string;
  /** The possible values, if they can be listed. */
  choices: unknown[] | null;
}

export interface Method {
  name: string;
  /** The name for people. */
  title: string;
  kind: string;
  plain_summary: string;
  cost: string;
  use: string;
  options: Record<string, MethodOption>;
}

export interface Limits {
  max_characters: number;
  timeout: number;
  kept_jobs: number;
}

export type Class = string | number;

export interface ExplainRequest {
  text: string;
  pair: string | null;
  /** For decoders: the text whose words are explained. */
  continuation: string | null;
  /** For decoders: the most tokens that the model writes, to be explained. */
  max_new_tokens: number | null;
  model: string;
  methods: string[];
  target: Class | [Class, Class] | null;
  quantity: string | null;
  seed: number | null;
  check: boolean;
  options: Record<string, Record<string, unknown>>;
}

/** The texts of a request, which are kept in this tab only. */
export type Texts = Pick<ExplainRequest, "text" | "pair" | "continuation">;

export interface Job {
  id: string;
  kind: "explanation" | "continuation";
  status: "queued" | "running" | "done" | "failed" | "cancelled";
  progress: { stage: string; done: number; total: number };
  place: number;
  seconds: number;
  notes: string[];
  error: string | null;
}

/** An error answer: its status and the sentence of the server. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    sentence: string,
  ) {
    super(sentence);
  }
}

export const UNREACHABLE = "The server does not answer. Check that it is still running.";

async function request<T>(address: string, init?: RequestInit): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(address, init);
  } catch {
    throw new Refusal(0, UNREACHABLE);
  }
  const body: unknown = await answer.json().catch(() => null);
  if (answer.ok) return body as T;
  const sentence = (body as { error?: unknown } | null)?.error;
  throw new Refusal(answer.status, typeof sentence === "string" ? sentence : `The server answered ${answer.status}.`);
}

export const models = (): Promise<Model[]> => request("/api/models");
export const methods = (): Promise<Method[]> => request("/api/methods");
export interface Health {
  /** Whether the server shows the results of a run. */
  corpus: boolean;
  limits: Limits;
}

export const health = (): Promise<Health> => request("/api/health");
export const job = (id: string): Promise<Job> => request(jobAddress(id));
export const cancel = (id: string): Promise<Job> => request(jobAddress(id), { method: "DELETE" });

/** The text of a document, and what of the file is not in it. */
export const readDocument = (file: File): Promise<{ text: string; notices: string[] }> =>
  request(`/api/document?name=${encodeURIComponent(file.name.slice(0, 200))}`, {
    method: "POST",
    headers: { "Content-Type": "application/octet-stream" },
    body: file,
  });

/** Exchange the token of the server for a cookie. */
export const signIn = (token: string): Promise<unknown> =>
  request("/api/session", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token }) });

export function jobAddress(id: string): string {
  return `/api/jobs/${encodeURIComponent(id)}`;
}

/** Queue a request. The view needs relations, and this page follows the job instead of waiting for the answer. */
export function submit(body: ExplainRequest): Promise<Job> {
  return request("/api/explain", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ...body, relations: true, wait: false }),
  });
}

/** Call `changed` after every change of a job; resolves with its final state. */
export function follow(id: string, changed: (job: Job) => void, stop: AbortSignal): Promise<Job> {
  return new Promise((resolve, reject) => {
    const stream = new EventSource(`${jobAddress(id)}/events`);
    stop.addEventListener("abort", () => stream.close());
    stream.addEventListener("progress", (event) => changed(JSON.parse((event as MessageEvent<string>).data) as Job));
    stream.addEventListener("end", (event) => {
      stream.close();
      resolve(JSON.parse((event as MessageEvent<string>).data) as Job);
    });
    stream.addEventListener("error", () => {
      // The browser reconnects by itself unless the server refused; then the job says why.
      if (stream.readyState === EventSource.CLOSED) job(id).then(resolve, reject);
    });
  });
}
