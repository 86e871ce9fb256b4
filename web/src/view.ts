// The one module of the view. In a report it draws the data it finds in its page; a notebook uses the default export
// (anywidget), a server `mount` and `httpSource`.

import { mount } from "./mount";
import { bufferSource, httpSource, inlineSource, type EditedPrediction, type Source } from "./source";

export { httpSource, mount };

/** What anywidget hands over. */
interface WidgetModel {
  get(name: "payload"): unknown;
  get(name: "arrays"): Record<string, DataView>;
  send?(content: unknown): void;
  on?(event: "msg:custom", listen: (content: Answer) => void): void;
}

/** The kernel's answer to a question with the same number. */
type Answer = EditedPrediction & { id: number; error?: string };

let questions = 0;

/** Ask the kernel for the prediction of an edited text. */
function kernelPrediction(model: WidgetModel): Source["predict"] {
  if (!model.send || !model.on) return undefined;
  const waiting = new Map<number, (answer: Answer) => void>();
  model.on("msg:custom", (answer) => {
    waiting.get(answer.id)?.(answer);
    waiting.delete(answer.id);
  });
  return (text, pair) =>
    new Promise((resolve, reject) => {
      const id = ++questions;
      waiting.set(id, (answer) => (answer.error ? reject(new Error(answer.error)) : resolve(answer)));
      model.send!({ about: "predict", id, text, pair });
    });
}

export default {
  render({ model, el }: { model: WidgetModel; el: HTMLElement }): () => void {
    keepKeys(el);
    return mount(el, bufferSource(model.get("payload"), model.get("arrays"), kernelPrediction(model)));
  },
};

/** Let a notebook leave keys alone that are meant for the view; in JupyterLab a press on an output focuses its cell. */
function keepKeys(el: HTMLElement): void {
  // JupyterLab looks for the mark on what has the focus before it looks further out.
  el.addEventListener("focusin", (event) => ((event.target as HTMLElement).dataset.lmSuppressShortcuts = "true"));
  el.addEventListener("click", () => {
    if (!el.contains(document.activeElement)) el.querySelector<HTMLElement>(".host")?.focus({ preventScroll: true });
  });
}

const data = document.getElementById("sightline-data");
if (data) {
  const element = document.createElement("div");
  document.body.append(element);
  mount(element, inlineSource(data.textContent ?? ""), { url: true });
}
