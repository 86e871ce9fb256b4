// What components need of the source: arrays and relations that arrive later, pictures that follow the state.

import { useEffect, useMemo, useState } from "preact/hooks";
import type { Numbers } from "./arrays";
import type { DocumentModel, Units } from "./document";
import { makePicture, neededArray, readingOf, rowsOf, tokenScores, wholeScores, type Picture } from "./reading";
import { hasMaps, mapNames, unitRelations } from "./relations";
import type { RelationLists, Source } from "./source";
import type { State } from "./state";

/** What every component works with. */
export interface Page {
  source: Source;
  model: DocumentModel;
  state: State;
  set(change: Partial<State>): void;
}

/** An optional array: null until it has arrived, or for ever if there is none. */
export function useArray(source: Source, name: string | null): Numbers | null {
  const [arrived, keep] = useState<{ name: string; values: Numbers } | null>(null);
  useEffect(() => {
    if (name === null || !source.has(name)) return;
    let wanted = true;
    source.array(name).then(
      (values) => wanted && keep({ name, values }),
      (error: unknown) => console.warn(String(error)),
    );
    return () => void (wanted = false);
  }, [source, name]);
  return arrived && arrived.name === name ? arrived.values : null;
}

/** The picture of a method (or of attention), or null for no name. */
export function usePicture(source: Source, model: DocumentModel, name: string, state: State): Picture | null {
  const { payload } = source;
  const reading = useMemo(() => (name ? readingOf(payload, name, state.target) : null), [payload, name, state.target]);
  const wanted = reading && neededArray(payload, reading, state);
  const needed = useArray(source, wanted);
  const { level, layers, heads, scale, gamma, range, threshold, hide, list } = state;
  return useMemo(() => {
    if (!reading) return null;
    const values = tokenScores(payload, model, reading, state, needed);
    const others =
      range !== "absolute" ? []
      : needed ? rowsOf(needed, model.data.tokens)
      : payload.explanations.flatMap((one, number) => (one.method === name ? [model.scores[number]] : []));
    const wholes = wholeScores(payload, model, reading, state, needed);
    return makePicture(payload, model, level, reading, values, state, others, wholes);
  }, [payload, model, reading, needed, level, layers, heads, scale, gamma, range, threshold, hide, list]);
}

export interface Relations {
  lists: RelationLists | null;
  /** Why there are none, as one sentence. */
  missing: string | null;
}

/** What a unit attends to and what attends to it; `unit` −1 for none. */
export function useRelations(source: Source, units: Units, unit: number, state: State): Relations {
  const [found, keep] = useState<{ key: string; relations: Relations } | null>(null);
  const { layers, heads } = state;
  const key = [units.level, unit, layers.join(), heads.join()].join("/");
  useEffect(() => {
    const { inside } = source.payload;
    if (unit < 0 || !inside) return;
    let wanted = true;
    const done = (relations: Relations) => wanted && keep({ key, relations });
    if (!hasMaps(source, mapNames(inside, layers, heads)) && !source.relations) {
      done({ lists: null, missing: "This page does not contain relations for these layers and heads." });
    } else {
      unitRelations(source, units, unit, layers, heads).then(
        (lists) => done({ lists, missing: null }),
        (error: unknown) => done({ lists: null, missing: String(error instanceof Error ? error.message : error) }),
      );
    }
    return () => void (wanted = false);
  }, [source, units, key]);
  if (!source.payload.inside) return { lists: null, missing: "This page contains no attention." };
  return found && found.key === key ? found.relations : { lists: null, missing: null };
}
