// The views of the page, one row per view. To add a view, write its component and add a row here.

import type { ComponentType } from "preact";
import { ChangeView } from "./change_view";
import { CompareView } from "./compare_view";
import { DocumentView } from "./document_view";
import type { Page, Relations } from "./hooks";
import { InsideView } from "./inside_view";
import type { Payload } from "./payload";
import type { Picture } from "./reading";
import { layerCount } from "./state";
import type { Trials } from "./trials";

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
  /** Clear the selection. */
  clear(): void;
}

export interface ViewEntry {
  /** In the address: `#view=inside`. */
  name: string;
  /** On the tab, and on the tab of a phone. */
  title: string;
  short: string;
  /** Whether a page with this data has the tab. */
  offered(payload: Payload): boolean;
  component: ComponentType<ViewProperties>;
  /** Once shown, the view stays in the page behind the others: laying out a long text again would take too long. */
  stays?: boolean;
}

export const VIEWS: readonly ViewEntry[] = [
  { name: "text", title: "Text", short: "Text", offered: () => true, component: DocumentView, stays: true },
  { name: "change", title: "What would change it", short: "What changes it", offered: () => true, component: ChangeView },
  { name: "compare", title: "Compare methods", short: "Compare", offered: () => true, component: CompareView },
  { name: "inside", title: "Inside the model", short: "Inside", offered: (payload) => layerCount(payload) > 0, component: InsideView },
];

export const VIEW_NAMES: readonly string[] = VIEWS.map(({ name }) => name);
