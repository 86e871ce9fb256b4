// Small helpers for elements. Strings from anywhere become text nodes, never HTML.

/** The element with this id; the page and this script belong together, so a missing one is a mistake of ours. */
export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found) throw new Error(`there is no #${id} in the page`);
  return found as T;
}

export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Partial<HTMLElementTagNameMap[K]> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

export function option(label: string, value: string): HTMLOptionElement {
  return element("option", { value }, label);
}
