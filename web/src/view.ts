// The one module of the view. In a report it draws the data it finds in its page; a notebook uses the default export
// (anywidget), a server `mount` and `httpSource`.

import { mount } from "./mount";
import { bufferSource, httpSource, inlineSource } from "./source";

export { httpSource, mount };

/** What anywidget hands over. */
interface WidgetModel {
  get(name: "payload"): unknown;
  get(name: "arrays"): Record<string, DataView>;
}

export default {
  render({ model, el }: { model: WidgetModel; el: HTMLElement }): () => void {
    keepKeys(el);
    return mount(el, bufferSource(model.get("payload"), model.get("arrays")));
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
