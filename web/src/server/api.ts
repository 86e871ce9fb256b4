// The server's API as this page uses it; docs/guides/server.md describes all of it.

export interface Model {
  name: string;
  task: string;
  labels: string[];
  max_tokens: number;
}

export interface MethodOption {
  default: unknown;
  /** What it may be, in words. */
  values: string;
  /** All it may be, where that can be listed. */
  choices: unknown[] | null;
}

export interface Method {
  name: string;
  summary: string;
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
  model: string;
  methods: string[];
  target: Class | [Class, Class] | null;
  quantity: string | null;
  seed: number | null;
  check: boolean;
  options: Record<string, Record<string, unknown>>;
}

export interface Job {
  id: string;
  status: "queued" | "running" | "done" | "failed" | "cancelled";
  progress: { stage: string; done: number; total: number };
  place: number;
  seconds: number;
  error: string | null;
}

/** An answer other than success: its status and the server's sentence. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    sentence: string,
  ) {
    super(sentence);
  }
}

export const UNREACHABLE = "The server does not answer. Is it still running?";

async function asked<T>(address: string, init?: RequestInit): Promise<T> {
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

export const models = (): Promise<Model[]> => asked("/api/models");
export const methods = (): Promise<Method[]> => asked("/api/methods");
export const limits = async (): Promise<Limits> => (await asked<{ limits: Limits }>("/api/health")).limits;
export const job = (id: string): Promise<Job> => asked(jobAddress(id));
export const cancel = (id: string): Promise<Job> => asked(jobAddress(id), { method: "DELETE" });

export function jobAddress(id: string): string {
  return `/api/jobs/${encodeURIComponent(id)}`;
}

/** Queue a request; the view wants relations, and this page follows the job instead of waiting for an answer. */
export function submit(request: ExplainRequest): Promise<Job> {
  return asked("/api/explain", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ...request, relations: true, wait: false }),
  });
}

/** Tell `changed` whenever a job is further, until it is over; resolves with its last state. */
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
      // The browser tries again by itself unless the server refused; then the job itself says why.
      if (stream.readyState === EventSource.CLOSED) job(id).then(resolve, reject);
    });
  });
}
