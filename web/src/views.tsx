// The views of the page, one row per view. To add a view, write its component and add a row here.

import type { ComponentType } from "preact";
import { ConsensusView } from "./consensus_view";
import { CurvesView } from "./curves_view";
import { HeadsView } from "./heads_view";
import type { Page, Relations } from "./hooks";
import { LayersView } from "./layers_view";
import { OutlineView } from "./outline_view";
import type { Payload } from "./payload";
import type { Picture } from "./reading";
import { ReadView } from "./read_view";
import { layerCount } from "./state";
import { TrialsView, type Trials } from "./trials";
import { WordsView } from "./words_view";

/** What every view is given. */
export interface ViewProperties {
  page: Page;
  /** The scores of the chosen method as colours. */
  picture: Picture;
  /** The same, followed by the method chosen for comparison, if any. */
  pictures: Picture[];
  /** The selected unit, −1 for none. */
  unit: number;
  relations: Relations;
  trials: Trials;
  dark: boolean;
  /** Whether another view is in front; only for views that stay. */
  away: boolean;
  /** Show a unit in the text. */
  go(unit: number): void;
  /** Go to the next (1) or previous (−1) strong unit. */
  step(by: number): void;
}

/** The settings that a view can use; the panel shows only those. */
export type Setting = "method" | "compare" | "legend" | "units" | "colours" | "exclude" | "inside";

export interface ViewEntry {
  /** In the address: `#view=heads`. */
  name: string;
  /** On the tab. */
  title: string;
  /** Whether a page with this data has the tab. */
  offered(payload: Payload): boolean;
  component: ComponentType<ViewProperties>;
  uses: readonly Setting[];
  /** Once shown, the view stays in the page behind the others: laying out a long text again would take too long. */
  stays?: boolean;
}

export const VIEWS: readonly ViewEntry[] = [
  { name: "read", title: "Read", offered: () => true, component: ReadView, stays: true, uses: ["method", "compare", "legend", "units", "colours", "exclude", "inside"] },
  { name: "outline", title: "Outline", offered: (payload) => payload.arrays["units.sentence.start"].shape[0] > 1, component: OutlineView, uses: ["method"] },
  { name: "heads", title: "Heads", offered: (payload) => payload.inside !== null, component: HeadsView, uses: [] },
  { name: "words", title: "Words", offered: () => true, component: WordsView, uses: ["method", "units", "exclude"] },
  { name: "consensus", title: "Consensus", offered: (payload) => Boolean(payload.consensus), component: ConsensusView, uses: [] },
  { name: "layers", title: "Layers", offered: (payload) => layerCount(payload) > 0, component: LayersView, uses: ["method", "units", "colours", "exclude"] },
  { name: "curves", title: "Curves", offered: (payload) => payload.curves.length > 0, component: CurvesView, uses: [] },
  { name: "trials", title: "What if", offered: ({ live, explanations }) => Boolean(live?.predict) || explanations.some((one) => one.removal), component: TrialsView, uses: [] },
];

export const VIEW_NAMES: readonly string[] = VIEWS.map(({ name }) => name);
