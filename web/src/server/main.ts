// The page of `sightline serve`: ask, wait, look; and what was asked before.
//
// The job is in the address (?job=…), so a reload comes back to it; the view keeps its own state after the #.

import type * as View from "../view";
import * as api from "./api";
import { byId, element } from "./dom";
import { Form } from "./form";
import * as memory from "./history";

// Not a literal, so that the bundler leaves it to the browser: the view is served beside this script.
const VIEW: string = "/static/view.js";

class Page {
  private readonly trouble = byId("trouble");
  private readonly asking = byId<HTMLDetailsElement>("asking");
  private readonly running = byId("running");
  private readonly shown = byId("view");
  private following = new AbortController();
  private close: (() => void) | null = null;

  constructor(private readonly form: Form) {
    byId<HTMLFormElement>("ask").addEventListener("submit", (event) => {
      event.preventDefault();
      void this.ask();
    });
    // The view takes keys from the whole window; what is typed here is not meant for it.
    byId("asking").addEventListener("keydown", (event) => event.stopPropagation());
    byId("cancel").addEventListener("click", () => void this.cancel());
    byId("forget").addEventListener("click", () => {
      memory.forgetAll();
      this.listHistory();
    });
    addEventListener("popstate", () => void this.fromAddress());
    this.listHistory();
  }

  /** Show the job the address names, if any. */
  async fromAddress(): Promise<void> {
    const id = new URLSearchParams(location.search).get("job");
    if (id === this.current) return;
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
    this.complain("");
    try {
      const request = this.form.request();
      const job = await api.submit(request);
      memory.keepTexts(request);
      memory.remember(job.id, request, Date.now());
      this.listHistory();
      this.leave();
      history.pushState(null, "", `?job=${encodeURIComponent(job.id)}`);
      await this.show(job.id);
    } catch (error) {
      this.complain((error as Error).message);
    }
  }

  private async cancel(): Promise<void> {
    if (!this.current) return;
    try {
      await api.cancel(this.current);
    } catch (error) {
      this.complain((error as Error).message);
    }
  }

  /** Follow a job to its end, then show it. */
  private async show(id: string): Promise<void> {
    this.following = new AbortController();
    const stop = this.following.signal;
    this.shown.dataset.job = id;
    try {
      const job = await api.follow(id, (one) => this.report(one), stop);
      if (stop.aborted) return;
      this.running.hidden = true;
      if (job.status === "done") await this.open(id);
      else this.complain(job.error ?? "The job did not finish.", this.againButton(id));
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
    if (total > 1) Object.assign(bar, { max: total, value: done });
    else bar.removeAttribute("value");
    const waiting = job.place ? `Waiting: ${job.place} before this one.` : "Starting …";
    const working = total > 1 ? `${stage}: ${done.toLocaleString("en")} of ${total.toLocaleString("en")}` : `${stage} …`;
    byId("stage").textContent = job.status === "queued" ? waiting : stage ? working : "Starting …";
  }

  private async open(id: string): Promise<void> {
    const view = (await import(VIEW)) as typeof View;
    const source = await view.httpSource(api.jobAddress(id));
    if (this.current !== id) return;
    const place = element("div");
    this.shown.replaceChildren(place);
    this.close = view.mount(place, source, { url: true });
    this.asking.open = false;
    document.title = `${source.payload.title} · Sightline`;
    this.shown.focus();
  }

  /** Leave what is shown or under way; a job under way goes on and can be found in the history. */
  private leave(): void {
    this.following.abort();
    this.close?.();
    this.close = null;
    delete this.shown.dataset.job;
    this.shown.replaceChildren();
    this.asking.open = true;
    this.running.hidden = true;
    this.complain("");
    document.title = "Sightline";
  }

  /** A way to compute a job again: at once where this tab still has the text, else with its settings in the form. */
  private againButton(id: string): HTMLButtonElement | null {
    const entry = memory.entries().find((one) => one.id === id);
    if (!entry) return null;
    const texts = memory.textsOf(entry);
    const button = element("button", { type: "button" }, texts ? "Run it again" : "Use its settings");
    button.addEventListener("click", () => {
      memory.forget(id);
      this.form.fill(entry.settings, texts);
      if (texts) void this.ask();
      else {
        this.complain(`The text is no longer in this browser. Paste “${entry.title}” again.`);
        byId("text").focus();
      }
    });
    return button;
  }

  private listHistory(): void {
    const found = memory.entries();
    byId("history").hidden = !found.length;
    byId("earlier").replaceChildren(
      ...found.map((entry) => {
        const link = element("a", { href: `?job=${encodeURIComponent(entry.id)}` }, entry.title || "Untitled");
        link.addEventListener("click", (event) => {
          if (event.ctrlKey || event.metaKey || event.shiftKey) return; // a new tab is the browser's business
          event.preventDefault();
          history.pushState(null, "", link.href);
          this.form.fill(entry.settings, memory.textsOf(entry));
          void this.fromAddress();
        });
        const facts = `${entry.settings.model} · ${entry.settings.methods.join(", ")} · ${new Date(entry.when).toLocaleString()}`;
        return element("li", {}, link, " ", element("small", {}, facts));
      }),
    );
  }
}

async function start(): Promise<void> {
  const [models, methods, limits] = await Promise.all([api.models(), api.methods(), api.limits()]);
  byId("kept").textContent = `The server keeps the latest ${limits.kept_jobs} results while it runs.`;
  const page: Page = new Page(new Form(models, methods, limits, (sentence) => page.complain(sentence)));
  byId<HTMLButtonElement>("explain").disabled = false;
  await page.fromAddress();
}

start().catch((error: unknown) => {
  byId("trouble").textContent = (error as Error).message;
  byId("trouble").hidden = false;
});
