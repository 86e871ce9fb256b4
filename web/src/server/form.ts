// The form: its choices come from the server, its content becomes a request.

import { readDocument } from "./api";
import type { Class, ExplainRequest, Method, MethodOption, Model, Texts } from "./api";
import { byId, element, option } from "./dom";

/** Headings of the list of methods, in order. */
const KINDS: Record<string, string> = {
  gradients: "Gradients",
  attention: "Attention",
  decomposition: "Decomposition",
  relevance: "Relevance propagation",
  perturbation: "Perturbation",
  baseline: "Baseline",
  other: "Other",
};
const PREDICTED = "";
const RESERVED = ["all", "entities"];
/** The server refuses larger files; an upload that large need not be tried. */
const LARGEST_FILE = 20_000_000;

export class Form {
  private readonly text = byId<HTMLTextAreaElement>("text");
  private readonly pair = byId<HTMLTextAreaElement>("pair");
  private readonly continuation = byId<HTMLTextAreaElement>("continuation");
  private readonly newTokens = byId<HTMLInputElement>("max-new-tokens");
  private readonly file = byId<HTMLInputElement>("file");
  private readonly fileName = byId("file-name");
  private readonly model = byId<HTMLSelectElement>("model");
  private readonly target = byId<HTMLSelectElement>("target");
  private readonly against = byId<HTMLSelectElement>("against");
  private readonly quantity = byId<HTMLSelectElement>("quantity");
  private readonly seed = byId<HTMLInputElement>("seed");
  private readonly check = byId<HTMLInputElement>("check");
  private readonly boxes = new Map<string, HTMLInputElement>();
  private readonly titles: Map<string, string>;
  /** Fulfilled when the chosen file is in the text box. */
  private reading = Promise.resolve();

  constructor(
    private readonly models: Model[],
    methods: Method[],
    private readonly complain: (sentence: string) => void,
  ) {
    this.model.replaceChildren(...models.map(({ name, task }) => option(`${name} (${task.replace(/_/g, " ")})`, name)));
    this.model.addEventListener("change", () => {
      this.offerChoices();
      this.selectDefaults();
    });
    this.offerChoices();
    this.titles = new Map(methods.map((method) => [method.name, method.title || method.name]));
    // The default methods of the first model come first, so that the list opens with what is chosen.
    const defaults = this.defaults();
    const group = (title: string, of: Method[]) => {
      const rows = of.map((method) => this.methodRow(method));
      if (rows.length) byId("methods").append(element("li", { className: "kind" }, element("h3", {}, title), element("ul", {}, ...rows)));
    };
    group("Recommended", defaults.flatMap((name) => methods.filter((method) => method.name === name)));
    const others = methods.filter((method) => !defaults.includes(method.name));
    for (const kind of Object.keys(KINDS)) group(KINDS[kind], others.filter((method) => kindOf(method) === kind));
    byId("methods").addEventListener("change", () => this.showChosen());
    this.showChosen();
    this.file.addEventListener("change", () => (this.reading = this.readFile()));
  }

  /** The name of a method for people. */
  titleOf(name: string): string {
    return this.titles.get(name) ?? name;
  }

  private showChosen(): void {
    const chosen = [...this.boxes].filter(([, box]) => box.checked).map(([name]) => this.titleOf(name));
    byId("chosen").textContent = chosen.join(", ") || "choose at least one method";
  }

  /** The request in the form, with the file chosen last; throws an Error whose message says what is missing. */
  async request(): Promise<ExplainRequest> {
    await this.reading;
    // The result opens with the first selected method.
    const defaults = this.defaults();
    const rank = (name: string) => defaults.indexOf(name) + 1 || defaults.length + 1;
    const chosen = [...this.boxes].filter(([, box]) => box.checked).map(([name]) => name).sort((a, b) => rank(a) - rank(b));
    if (!this.text.value.trim()) throw new Error("Paste a text or choose a file first.");
    if (!chosen.length) throw new Error("Choose at least one method.");
    const continues = this.decodes() && Boolean(this.continuation.value || this.newTokens.value);
    if (continues && this.continuation.value && this.newTokens.value) {
      throw new Error("Give either a continuation or the number of tokens to write, not both.");
    }
    return {
      // The line break at the end of a file is not what a language model is to continue.
      text: this.decodes() ? this.text.value.replace(/\n$/, "") : this.text.value,
      pair: continues ? null : this.pair.value || null,
      continuation: continues ? this.continuation.value || null : null,
      max_new_tokens: continues && this.newTokens.value ? Number(this.newTokens.value) : null,
      model: this.model.value,
      methods: chosen,
      target: continues ? null : this.chosenTarget(),
      quantity: this.quantity.value || null,
      seed: this.seed.value ? Number(this.seed.value) : null,
      check: this.check.checked && !continues,
      options: this.chosenOptions(chosen),
    };
  }

  /** Restore settings, and texts if they are available. */
  fill(settings: Omit<ExplainRequest, keyof Texts>, texts: Texts | null): void {
    if (texts) {
      this.text.value = texts.text;
      this.pair.value = texts.pair ?? "";
      this.continuation.value = texts.continuation ?? "";
    }
    this.newTokens.value = String(settings.max_new_tokens ?? "");
    if (this.models.some((model) => model.name === settings.model)) this.model.value = settings.model;
    this.offerChoices();
    const [first, second] = Array.isArray(settings.target) ? settings.target : [settings.target, null];
    this.target.value = first === null ? PREDICTED : String(first);
    this.against.value = second === null ? PREDICTED : String(second);
    this.quantity.value = settings.quantity ?? "";
    this.seed.value = settings.seed === null ? "" : String(settings.seed);
    this.check.checked = settings.check ?? true; // entries of older versions lack it
    for (const [name, box] of this.boxes) {
      box.checked = settings.methods.includes(name);
      box.dispatchEvent(new Event("change"));
      for (const field of this.fields(name)) field.value = formatValue(settings.options[name]?.[field.name]);
    }
    this.showChosen();
  }

  private selectedModel(): Model | undefined {
    return this.models.find((model) => model.name === this.model.value);
  }

  /** Whether the selected model is a decoder that writes text. */
  private decodes(): boolean {
    return this.selectedModel()?.task === "causal_lm";
  }

  /** The default methods of the selected model. */
  private defaults(): string[] {
    return this.selectedModel()?.default_methods ?? [];
  }

  /** Tick the default methods of another model, unless the choice was changed. */
  private selectDefaults(): void {
    const ticked = [...this.boxes].filter(([, box]) => box.checked).map(([name]) => name).sort();
    const known = this.models.some((model) => [...model.default_methods].sort().join() === ticked.join());
    if (!known) return;
    for (const [name, box] of this.boxes) {
      box.checked = this.defaults().includes(name);
      box.dispatchEvent(new Event("change"));
    }
    this.showChosen();
  }

  /** Offer what the selected model has: its classes, and continuations if it writes text. */
  private offerChoices(): void {
    byId("continuing").hidden = !this.decodes();
    const labels = this.selectedModel()?.labels ?? [];
    // By name: where classes are named by numbers, a number would be a name. RESERVED names stand for several targets.
    const options = (): HTMLOptionElement[] =>
      labels.map((label, index) => option(label, RESERVED.includes(label) ? String(index) : label));
    this.target.replaceChildren(option("predicted class", PREDICTED), ...options());
    this.against.replaceChildren(option("none", PREDICTED), ...options());
  }

  private chosenTarget(): Class | [Class, Class] | null {
    const [first, second] = [this.target.value, this.against.value];
    if (second === PREDICTED) return first === PREDICTED ? null : first;
    if (first === PREDICTED) throw new Error("Choose the class to explain before the class to contrast it with.");
    return [first, second];
  }

  private methodRow(method: Method): HTMLElement {
    const box = element("input", { type: "checkbox", checked: this.defaults().includes(method.name), name: "method" });
    box.value = method.name;
    this.boxes.set(method.name, box);
    const label = element("label", { title: `${method.name}: ${method.use} Cost: ${method.cost}.` }, box, " ", element("b", {}, method.title || method.name));
    const row = element("li", {}, label, " ", element("small", {}, method.plain_summary));
    const names = Object.keys(method.options);
    if (names.length) {
      const details = element("details", { hidden: !box.checked }, element("summary", {}, "options"));
      details.append(...names.map((name) => optionField(method.name, name, method.options[name])));
      row.append(details);
      box.addEventListener("change", () => (details.hidden = !box.checked));
    }
    return row;
  }

  private fields(method: string): (HTMLInputElement | HTMLSelectElement)[] {
    const row = this.boxes.get(method)?.closest("li");
    return [...(row?.querySelectorAll<HTMLInputElement | HTMLSelectElement>("[data-option]") ?? [])];
  }

  private chosenOptions(methods: string[]): ExplainRequest["options"] {
    const chosen: ExplainRequest["options"] = {};
    for (const method of methods) {
      const set = this.fields(method).filter((field) => field.value !== "");
      if (set.length) chosen[method] = Object.fromEntries(set.map((field) => [field.name, parseValue(field.value)]));
    }
    return chosen;
  }

  private async readFile(): Promise<void> {
    const file = this.file.files?.[0];
    if (!file) return;
    try {
      if (file.size > LARGEST_FILE) throw new Error(`“${file.name}” is larger than ${LARGEST_FILE / 1e6} MB.`);
      this.fileName.textContent = `Reading “${file.name}” …`;
      const { text, notices } = await readDocument(file);
      this.text.value = text;
      this.fileName.textContent = [`“${file.name}” loaded.`, ...notices].join(" ");
      this.complain("");
    } catch (error) {
      this.fileName.textContent = "";
      this.complain((error as Error).message);
    }
    this.file.value = ""; // allows the same file to be chosen again
  }
}

/** A field for one option; an empty field, or the first choice of a list, means the default. */
function optionField(method: string, name: string, facts: MethodOption): HTMLElement {
  const label = `${name.replace(/_/g, " ")}`;
  const field = facts.choices
    ? element("select", {}, option(`default (${formatValue(facts.default)})`, ""), ...facts.choices.map((choice) => option(formatValue(choice), formatValue(choice))))
    : element("input", { type: "text", placeholder: formatValue(facts.default), title: `Must be ${facts.values}.` });
  field.name = name;
  field.id = `option-${method}-${name}`;
  field.dataset.option = method;
  return element("label", { htmlFor: field.id }, `${label} `, field);
}

/** The value of typed text: JSON if it is valid JSON, a list for "1, 2", otherwise the text itself. */
export function parseValue(text: string): unknown {
  for (const form of [text, `[${text}]`]) {
    try {
      return JSON.parse(form) as unknown;
    } catch {
      continue;
    }
  }
  return text;
}

/** A method of a kind that this page does not know is listed under “Other”. */
function kindOf({ kind }: Method): string {
  return Object.hasOwn(KINDS, kind) ? kind : "other";
}

function formatValue(value: unknown): string {
  if (value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}
