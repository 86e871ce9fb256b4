// The windows of a document that is longer than the model reads: a list with what each predicts by itself, and a mark in the
// text where each begins.

import type { DocumentModel } from "./document";
import { percent } from "./format";
import type { DocumentData, WindowData } from "./payload";

/** What a window predicts, in words; nothing where the model does not classify documents. */
function says({ label, probability }: WindowData): string {
  return label === undefined || probability === undefined ? "" : `${label}, ${percent(probability)}`;
}

/** One row per window: its number, what it predicts by itself and how much it counts. */
export function WindowList({ data }: { data: DocumentData }) {
  const windows = data.windows ?? [];
  if (windows.length < 2) return null;
  return (
    <details class="windows">
      <summary>{windows.length} windows</summary>
      <ol aria-label="Windows">
        {windows.map((window, number) => (
          <li key={number} title={`Counts ${percent(window.share)}`}>
            {says(window) || `counts ${percent(window.share)}`}
          </li>
        ))}
      </ol>
    </details>
  );
}

/** Mark the first word of every window but the first; `parts` returns the spans of a word. */
export function markWindows(model: DocumentModel, parts: (word: number) => HTMLElement[]): void {
  const { data } = model;
  const words = model.units("word");
  data.windows?.forEach((window, number) => {
    const [word] = words.touching(window.segment, window.start, window.end);
    const span = number > 0 && word !== undefined ? parts(word)[0] : undefined;
    if (!span) return;
    const prediction = says(window);
    span.dataset.window = String(number + 1);
    span.title = `Window ${number + 1} of ${data.windows?.length} begins here${prediction && `: ${prediction}`}`;
  });
}
