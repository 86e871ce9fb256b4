// The page of `sightline serve`: form, progress, result and history.
//
// The address contains the job (?job=…), so that a reload returns to it; the view keeps its own state after the #.

import type * as View from "../view";
import * as api from "./api";
import { byId, element } from "./dom";
import { Form } from "./form";
import * as memory from "./history";
import { fileName } from "./file_name";

// Not a literal, so that the bundler leaves the import to the browser; the server also serves the view.
const VIEW: string = "/static/view.js";

class Page {
  private readonly trouble = byId("trouble");
  private readonly asking = byId<HTMLDetailsElement>("asking");
  private readonly earlier = byId<HTMLDetailsElement>("history");
  private readonly running = byId("running");
  private readonly shown = byId("view");
  private readonly saving = byId("saving");
  private following = new AbortController();
  private close: (() => void) | null = null;
  private submitting = false;
  /** Whether the form has been changed since it was sent: then a result that arrives leaves it open. */
  private edited = false;

  constructor(private readonly form: Form) {
    byId<HTMLFormElement>("ask").addEventListener("submit", (event) => {
      event.preventDefault();
      void this.ask();
    });
    // The view listens to keys in the whole window; keys typed in the form are not meant for it.
    this.asking.addEventListener("keydown", (event) => event.stopPropagation());
    this.asking.addEventListener("input", () => (this.edited = true));
    byId("cancel").addEventListener("click", () => void this.cancel());
    byId("forget").addEventListener("click", () => {
      memory.forgetAll();
      this.listHistory();
    });
    addEventListener("popstate", () => void this.fromAddress());
    this.listHistory();
  }

  /** Show the job in the address, if any. */
  async fromAddress(): Promise<void> {
    const id = new URLSearchParams(location.search).get("job");
    if (id === this.current) return;
    this.edited = false;
    this.leave();
    if (id) await this.show(id);
  }

  complain(sentence: string, again: HTMLButtonElement | null = null): void {
    this.trouble.replaceChildren(sentence, ...(again ? [" ", again] : []));
    this.trouble.hidden = !sentence;
  }

  private get current(): string | null {
    return this.shown.dataset.job ?? null;
  }

  private async ask(): Promise<void> {
    if (this.submitting) return; // a second click
    this.submitting = true;
    this.edited = false;
    this.complain("");
    try {
      const id = await this.submit();
      this.leave();
      history.pushState(null, "", `?job=${encodeURIComponent(id)}`);
      void this.show(id);
    } catch (error) {
      this.complain((error as Error).message);
    }
    this.submitting = false;
  }

  /** Send the form; returns the id of the job. */
  private async submit(): Promise<string> {
    const request = await this.form.request();
    const { id } = await api.submit(request);
    memory.keepTexts(request);
    memory.remember(id, request, Date.now());
    this.listHistory();
    return id;
  }

  private async cancel(): Promise<void> {
    if (!this.current) return;
    try {
      await api.cancel(this.current);
    } catch (error) {
      this.complain((error as Error).message);
    }
  }

  /** Follow a job until it is over, then show its result. */
  private async show(id: string): Promise<void> {
    this.following = new AbortController();
    const stop = this.following.signal;
    this.shown.dataset.job = id;
    this.listHistory();
    try {
      const job = await api.follow(id, (progress) => this.report(progress), stop);
      if (stop.aborted) return;
      this.running.hidden = true;
      if (job.status === "done" && job.kind === "continuation") this.openContinuation(job);
      else if (job.status === "done") await this.open(id);
      else this.complain(job.error ?? "The job was not finished.", this.againButton(id));
    } catch (error) {
      if (stop.aborted) return;
      this.running.hidden = true;
      this.complain((error as Error).message, this.againButton(id));
    }
  }

  private report(job: api.Job): void {
    const { stage, done, total } = job.progress;
    const bar = byId<HTMLProgressElement>("bar");
    this.running.hidden = false;
    // A bar that stays empty for a minute looks like one that has stopped; without a value it moves.
    if (total > 1 && done > 0) Object.assign(bar, { max: total, value: done });
    else bar.removeAttribute("value");
    const waiting = job.place ? `Waiting for ${job.place} other ${job.place === 1 ? "explanation" : "explanations"}.` : "Starting …";
    const title = this.form.titleOf(stage);
    const working = total > 1 && done > 0 ? `${title}: ${done.toLocaleString("en")} of ${total.toLocaleString("en")}` : `${title} …`;
    byId("stage").textContent = job.status === "queued" ? waiting : stage ? working : "Starting …";
  }

  private async open(id: string): Promise<void> {
    const view = (await import(VIEW)) as typeof View;
    const source = await view.httpSource(api.jobAddress(id));
    if (this.current !== id) return;
    const place = element("div");
    this.shown.replaceChildren(place);
    this.close = view.mount(place, source, { url: true });
    this.offerDownloads(id, source.payload.title);
    document.title = `${source.payload.title} · Sightline`;
    if (this.edited) return; // somebody is writing the next request
    this.asking.open = false;
    this.shown.focus();
  }

  /** Show the page of a continuation in a frame, in which its scripts run without access to this server. */
  private openContinuation(job: api.Job): void {
    const title = memory.entries().find((entry) => entry.id === job.id)?.title || "Continuation";
    const frame = element("iframe", { src: `${api.jobAddress(job.id)}/frame`, title: "Words behind the continuation" });
    frame.setAttribute("sandbox", "allow-scripts");
    this.shown.replaceChildren(...job.notes.map((note) => element("p", {}, note)), frame);
    this.offerDownloads(job.id, title);
    this.asking.open = false;
    document.title = `${title} · Sightline`;
    this.shown.focus();
  }

  /** Links that save the result under a name made from its title. */
  private offerDownloads(id: string, title: string): void {
    for (const [link, address, suffix] of [["save-page", "page", "html"], ["save", "result", "json"]]) {
      Object.assign(byId<HTMLAnchorElement>(link), { href: `${api.jobAddress(id)}/${address}`, download: fileName(title, suffix) });
    }
    this.saving.hidden = false;
    document.body.classList.add("shown");
  }

  /** Close the result; a running job continues and stays in the history. */
  private leave(): void {
    this.following.abort();
    this.close?.();
    this.close = null;
    delete this.shown.dataset.job;
    this.shown.replaceChildren();
    this.saving.hidden = true;
    document.body.classList.remove("shown");
    this.asking.open = true;
    this.running.hidden = true;
    this.complain("");
    document.title = "Sightline";
  }

  /** A button that repeats a job: at once if this tab still has the text, otherwise by restoring its settings. */
  private againButton(id: string): HTMLButtonElement | null {
    const entry = memory.entries().find((candidate) => candidate.id === id);
    if (!entry) return null;
    const texts = memory.textsOf(entry);
    const button = element("button", { type: "button" }, texts ? "Run it again" : "Restore its settings");
    button.addEventListener("click", () => {
      memory.forget(id);
      this.form.fill(entry.settings, texts);
      if (texts) void this.ask();
      else {
        this.complain(`The text is no longer available in this browser. Paste “${entry.title}” again.`);
        byId("text").focus();
      }
    });
    return button;
  }

  private listHistory(): void {
    const entries = memory.entries();
    this.earlier.hidden = !entries.length;
    byId("earlier-count").textContent = String(entries.length);
    byId("earlier").replaceChildren(
      ...entries.map((entry) => {
        const link = element("a", { href: `?job=${encodeURIComponent(entry.id)}` }, entry.title || "Untitled");
        link.addEventListener("click", (event) => {
          if (event.ctrlKey || event.metaKey || event.shiftKey) return; // the browser opens a new tab or window
          event.preventDefault();
          history.pushState(null, "", link.href);
          this.earlier.open = false;
          this.form.fill(entry.settings, memory.textsOf(entry));
          void this.fromAddress();
        });
        if (entry.id === this.current) link.setAttribute("aria-current", "page");
        const facts = `${entry.settings.model} · ${entry.settings.methods.map((name) => this.form.titleOf(name)).join(", ")} · ${whenText(entry.when)}`;
        return element("li", {}, link, element("small", {}, facts));
      }),
    );
  }
}

/** The time of day for today, otherwise the date. */
function whenText(when: number): string {
  const date = new Date(when);
  const today = date.toDateString() === new Date().toDateString();
  return today ? date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" }) : date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
}

async function start(): Promise<void> {
  const [models, methods, { corpus, limits }] = await Promise.all([api.models(), api.methods(), api.health()]);
  byId("corpus").hidden = !corpus;
  byId("kept").textContent = `The server keeps the latest ${limits.kept_jobs} results while it runs.`;
  const page: Page = new Page(new Form(models, methods, (sentence) => page.complain(sentence)));
  byId<HTMLButtonElement>("explain").disabled = false;
  await page.fromAddress();
}

/** Start the page; ask for the token first if the server requires one. */
async function startOrSignIn(): Promise<void> {
  const signIn = byId<HTMLFormElement>("sign-in");
  try {
    showError(""); // before the start: what a job in the address has to say must stay
    await start();
    signIn.hidden = true;
  } catch (error) {
    const refused = error instanceof api.Refusal && error.status === 401;
    signIn.hidden = !refused;
    byId("asking").hidden = refused;
    if (refused) byId("token").focus();
    else showError((error as Error).message);
  }
}

function showError(sentence: string): void {
  byId("trouble").textContent = sentence;
  byId("trouble").hidden = !sentence;
}

byId<HTMLFormElement>("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  const token = byId<HTMLInputElement>("token");
  api.signIn(token.value).then(
    () => {
      token.value = "";
      byId("asking").hidden = false;
      return startOrSignIn();
    },
    (error: unknown) => showError((error as Error).message),
  );
});
void startOrSignIn();
