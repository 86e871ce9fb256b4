// What a unit attends to and what attends to it: lists of tokens from the arrays, added up to units.
//
// Attention to a word is the sum over its tokens, attention from a word the mean over its tokens (Clark et al. 2019).
// Several maps (layers, heads) are averaged. Lists hold the strongest partners only, so sums are lower bounds.

import type { Numbers } from "./arrays";
import type { Units } from "./document";
import type { InsideData } from "./payload";
import type { Partner, RelationLists, Source } from "./source";

export type Direction = "attended" | "attending";
export const DIRECTIONS: Direction[] = ["attended", "attending"];

/** The maps that a choice of layers and heads (empty: all) is made of. */
export function mapNames(inside: InsideData, layers: number[], heads: number[]): string[] {
  const every = (count: number) => Array.from({ length: count }, (_, i) => i);
  if (heads.length) {
    const chosen = layers.length ? layers : every(inside.layers);
    return chosen.flatMap((layer) => heads.map((head) => `head-${layer}-${head}`));
  }
  return layers.length ? layers.map((layer) => `layer-${layer}`) : ["all"];
}

export function hasMaps(source: Source, names: string[]): boolean {
  return names.every((name) => source.has(`relations.${name}.attended.partners`));
}

export interface MapArrays {
  partners: Numbers;
  weights: Numbers;
  k: number;
}

export async function loadMap(source: Source, name: string, direction: Direction): Promise<MapArrays> {
  const prefix = `relations.${name}.${direction}`;
  const [partners, weights] = await Promise.all([
    source.array(`${prefix}.partners`),
    source.array(`${prefix}.weights`),
  ]);
  return { partners, weights, k: source.payload.arrays[`${prefix}.partners`].shape[1] };
}

/** Partner tokens of `tokens` in several maps, weights added up over `tokens` and averaged over maps. */
export function partnersOf(maps: MapArrays[], tokens: ArrayLike<number>, documentTokens: number): Map<number, number> {
  const sums = new Map<number, number>();
  for (const { partners, weights, k } of maps) {
    for (let t = 0; t < tokens.length; t++) {
      for (let place = tokens[t] * k; place < (tokens[t] + 1) * k; place++) {
        const partner = partners[place];
        if (partner < 0 || partner >= documentTokens) break;
        sums.set(partner, (sums.get(partner) ?? 0) + weights[place] / maps.length);
      }
    }
  }
  return sums;
}

/** Relations of tokens → relations of units, strongest first. `from` is the number of tokens of the unit looked at. */
export function toUnits(sums: Map<number, number>, units: Units, direction: Direction, from: number): Partner[] {
  const found = new Map<number, number>();
  for (const [token, weight] of sums) {
    const unit = units.of[token];
    if (unit < 0) continue;
    // attended: mean over the attending tokens (ours); attending: mean over the attending tokens (the partner's).
    const divisor = direction === "attended" ? from : units.size(unit);
    found.set(unit, (found.get(unit) ?? 0) + weight / divisor);
  }
  return [...found].filter(([, weight]) => weight > 0).sort((a, b) => b[1] - a[1] || a[0] - b[0]);
}

/** The strongest partners of a unit in both directions, as units. */
export async function unitRelations(
  source: Source,
  units: Units,
  unit: number,
  layers: number[],
  heads: number[],
): Promise<RelationLists> {
  const inside = source.payload.inside!;
  const tokens = units.tokens(unit);
  const names = mapNames(inside, layers, heads);
  if (!hasMaps(source, names) && source.relations) {
    const lists = await source.relations({ tokens: [...tokens], layers, heads, k: inside.k });
    // The server has taken the mean over our tokens already.
    return {
      attended: toUnits(new Map(lists.attended), units, "attended", 1),
      attending: toUnits(new Map(lists.attending), units, "attending", 1),
    };
  }
  const lists = DIRECTIONS.map(async (direction) => {
    const maps = await Promise.all(names.map((name) => loadMap(source, name, direction)));
    const sums = partnersOf(maps, tokens, units.of.length);
    return toUnits(sums, units, direction, tokens.length).slice(0, inside.k);
  });
  const [attended, attending] = await Promise.all(lists);
  return { attended, attending };
}
