// The form: its choices come from the server, its content becomes a request.

import type { Class, ExplainRequest, Limits, Method, MethodOption, Model } from "./api";
import { byId, element, option } from "./dom";
import { textOf } from "./upload";

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

export class Form {
  private readonly text = byId<HTMLTextAreaElement>("text");
  private readonly pair = byId<HTMLTextAreaElement>("pair");
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
    private readonly limits: Limits,
    private readonly complain: (sentence: string) => void,
  ) {
    this.model.replaceChildren(...models.map((one) => option(`${one.name} (${one.task.replace(/_/g, " ")})`, one.name)));
    this.model.addEventListener("change", () => {
      this.showLabels();
      this.selectDefaults();
    });
    this.showLabels();
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
    byId("chosen").textContent = chosen.length ? `Chosen: ${chosen.join(", ")}` : "Choose at least one";
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
    return {
      text: this.text.value,
      pair: this.pair.value || null,
      model: this.model.value,
      methods: chosen,
      target: this.chosenTarget(),
      quantity: this.quantity.value || null,
      seed: this.seed.value ? Number(this.seed.value) : null,
      check: this.check.checked,
      options: this.chosenOptions(chosen),
    };
  }

  /** Restore settings, and texts if they are available. */
  fill(settings: Omit<ExplainRequest, "text" | "pair">, texts: { text: string; pair: string | null } | null): void {
    if (texts) {
      this.text.value = texts.text;
      this.pair.value = texts.pair ?? "";
    }
    if (this.models.some((one) => one.name === settings.model)) this.model.value = settings.model;
    this.showLabels();
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

  /** The default methods of the selected model. */
  private defaults(): string[] {
    return this.models.find((one) => one.name === this.model.value)?.default_methods ?? [];
  }

  /** Tick the default methods of another model, unless the choice was changed. */
  private selectDefaults(): void {
    const ticked = [...this.boxes].filter(([, box]) => box.checked).map(([name]) => name).sort();
    const known = this.models.some((one) => [...one.default_methods].sort().join() === ticked.join());
    if (!known) return;
    for (const [name, box] of this.boxes) {
      box.checked = this.defaults().includes(name);
      box.dispatchEvent(new Event("change"));
    }
    this.showChosen();
  }

  private showLabels(): void {
    const labels = this.models.find((one) => one.name === this.model.value)?.labels ?? [];
    const options = (): HTMLOptionElement[] => labels.map((label, index) => option(label, String(index)));
    this.target.replaceChildren(option("predicted class", PREDICTED), ...options());
    this.against.replaceChildren(option("none", PREDICTED), ...options());
  }

  private chosenTarget(): Class | [Class, Class] | null {
    const [first, second] = [this.target.value, this.against.value];
    if (second === PREDICTED) return first === PREDICTED ? null : Number(first);
    if (first === PREDICTED) throw new Error("Choose the class to explain before the class to contrast it with.");
    return [Number(first), Number(second)];
  }

  private methodRow(method: Method): HTMLElement {
    const box = element("input", { type: "checkbox", checked: this.defaults().includes(method.name), name: "method" });
    box.value = method.name;
    this.boxes.set(method.name, box);
    const label = element("label", { title: `${method.name}: ${method.use} Cost: ${method.cost}.` }, box, " ", element("b", {}, method.title || method.name));
    const row = element("li", {}, label, " ", element("small", {}, method.summary));
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
      this.text.value = await textOf(file, this.limits.max_characters);
      this.fileName.textContent = `“${file.name}” loaded`;
      this.complain("");
    } catch (error) {
      this.complain((error as Error).message);
    }
    this.file.value = ""; // allows the same file to be chosen again
  }
}

/** A field for one option; an empty field, or the first choice of a list, means the default. */
function optionField(method: string, name: string, facts: MethodOption): HTMLElement {
  const label = `${name.replace(/_/g, " ")}`;
  const field = facts.choices
    ? element("select", {}, option(`default (${formatValue(facts.default)})`, ""), ...facts.choices.map((one) => option(formatValue(one), formatValue(one))))
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
