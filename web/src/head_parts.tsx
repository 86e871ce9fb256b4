// What the two forms of an opened head share: the header, the colour scale, the strongest links.

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Choice } from "./choices";
import { percent, plainNumber, shortened } from "./format";
import { useArray, type Page } from "./hooks";
import { loadMap } from "./relations";

const STRONGEST = 12;
export type MapForm = "window" | "pairs";

export interface HeadProperties {
  page: Page;
  layer: number;
  head: number;
  /** The form of the map, and how to change it; left out where there is only one. */
  form?: { value: MapForm; choose(value: MapForm): void };
}

export function HeadHeader({ page, layer, head, form, children }: HeadProperties & { children?: ComponentChildren }) {
  const { source, set } = page;
  const inside = source.payload.inside!;
  const importance = useArray(source, "importance");
  const step = (by: number) => {
    const heads = inside.layers * inside.heads;
    const next = (layer * inside.heads + head + by + heads) % heads;
    set({ head: [Math.floor(next / inside.heads), next % inside.heads] });
  };
  return (
    <header>
      <h2>
        Layer {layer}, head {head}
        {importance && <small> {describeImportance(importance, layer * inside.heads + head)}</small>}
      </h2>
      <div class="tools">
        {form && (
          <Choice
            id="map-form"
            label="Form of the map"
            options={[
              { value: "window", text: "by distance", hint: "The window straightened: distance across, document down" },
              { value: "pairs", text: "all pairs", hint: "Attending tokens down, attended tokens across" },
            ]}
            value={form.value}
            choose={form.choose}
          />
        )}
        {children}
        <button type="button" aria-label="Previous head" title="Previous head" onClick={() => step(-1)}>‹</button>
        <button type="button" aria-label="Next head" title="Next head" onClick={() => step(1)}>›</button>
        <button type="button" onClick={() => set({ view: "text", layout: "text", layers: [layer], heads: [head] })}>
          show in the text
        </button>
        <button type="button" data-control="all-heads" onClick={() => set({ head: null })}>all heads</button>
      </div>
    </header>
  );
}

/** "importance 0.0021, 12 % of the most important head's". */
export function describeImportance(importance: ArrayLike<number>, head: number): string {
  const most = Math.max(...Array.from(importance));
  const share = most > 0 && importance[head] < most ? `${percent(importance[head] / most)} of the most important head's` : "the most important head";
  return `importance ${plainNumber(importance[head])}, ${share}`;
}

/** The colours of a map: they follow the square root of the weight, so half the colour is a quarter of the peak. */
export function MapScale({ peak }: { peak: number }) {
  return (
    <div class="map-scale" data-section="map-scale" role="img" aria-label={`Colours from 0 to ${plainNumber(peak)}`}>
      <i />
      <span>0</span>
      <span>{plainNumber(peak / 4)}</span>
      <span>{plainNumber(peak)}</span>
      <small>attention weight</small>
    </div>
  );
}

/** The strongest token pairs of this head, where its relations are stored. */
export function StrongestLinks({ page, layer, head }: { page: Page; layer: number; head: number }) {
  const { source, model, set } = page;
  const name = `head-${layer}-${head}`;
  const [links, keep] = useState<[from: number, to: number, weight: number][]>([]);
  useEffect(() => {
    if (!source.has(`relations.${name}.attended.partners`)) return keep([]);
    let wanted = true;
    loadMap(source, name, "attended").then(({ partners, weights, k }) => {
      const order = Array.from(weights.keys()).sort((a, b) => weights[b] - weights[a]).slice(0, STRONGEST);
      if (wanted) keep(order.map((at) => [Math.floor(at / k), partners[at], weights[at]]));
    }, () => undefined);
    return () => void (wanted = false);
  }, [source, name]);
  if (!links.length) return null;
  return (
    <>
      <h3>Strongest links</h3>
      <ol class="partners">
        {links.map(([from, to, weight]) => (
          <li key={`${from}.${to}`}>
            <button type="button" onClick={() => set({ view: "text", layout: "text", unit: from, layers: [layer], heads: [head] })}>
              <bdi>{shortened(model.tokenText(from), 20)}</bdi> → <bdi>{shortened(model.tokenText(to), 20)}</bdi> <small>{from} → {to}</small>
            </button>
            <span>{plainNumber(weight)}</span>
          </li>
        ))}
      </ol>
    </>
  );
}
