// Helpers for DOM elements. Strings always become text nodes, never HTML.

/** The element with this id; a missing one is a programming error. */
export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  const match = document.getElementById(id);
  if (!match) throw new Error(`The page has no element #${id}.`);
  return match as T;
}

export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Partial<HTMLElementTagNameMap[K]> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const created = Object.assign(document.createElement(tag), properties);
  created.append(...children);
  return created;
}

export function option(label: string, value: string): HTMLOptionElement {
  return element("option", { value }, label);
}
