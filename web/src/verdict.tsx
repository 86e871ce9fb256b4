// How far to trust an explanation: a shape, two words and the reason. Python judges (sightline/view/words/sentences.py).

import type { Payload, VerdictData } from "./payload";
import { explanationOf, type Reading } from "./reading";
import { unbroken } from "./unbroken";

/** Attention is no explanation that could be checked. */
const ATTENTION: VerdictData = {
  level: "unchecked",
  words: "not checked",
  meaning: "",
  sentences: ["Received attention shows where the model looks, not why it decides. It is not compared with random words."],
};

export function verdictOf(payload: Payload, reading: Reading): VerdictData {
  return reading.explanation === null ? ATTENTION : explanationOf(payload, reading).verdict;
}

/** Outlines that differ, with a sign in each, so that no colour is needed to tell them apart; 16 × 16. */
const SHAPES: Record<VerdictData["level"], { outline: string; sign: string }> = {
  holds: { outline: "M8 .5a7.5 7.5 0 1 1 0 15a7.5 7.5 0 1 1 0-15z", sign: "M4.6 8.3l2.4 2.4 4.4-5" },
  weak: { outline: "M8 .8l7.6 14.2h-15.2z", sign: "M8 5.6v4.6M8 12v1" },
  poor: { outline: "M4.9.5h6.2l4.4 4.4v6.2l-4.4 4.4h-6.2l-4.4-4.4v-6.2z", sign: "M5.2 5.2l5.6 5.6M10.8 5.2l-5.6 5.6" },
  unchecked: { outline: "M8 1a7 7 0 1 1 0 14a7 7 0 1 1 0-14z", sign: "M5.7 6.2a2.3 2.3 0 1 1 3.4 2q-1.1.6-1.1 1.6M8 12.1v.1" },
};

/** Shape and words, and whether there is a warning. */
export function Mark({ verdict }: { verdict: VerdictData }) {
  const { outline, sign } = SHAPES[verdict.level];
  const told = [verdict.meaning, ...verdict.sentences, verdict.warning ?? ""].filter(Boolean);
  return (
    <span class={`mark ${verdict.level}`} data-verdict={verdict.level} title={told.join(" ")}>
      <svg viewBox="0 0 16 16" aria-hidden="true">
        <path class="outline" d={outline} />
        <path class="sign" d={sign} />
      </svg>
      {verdict.words}
      {verdict.warning ? ", with a warning" : ""}
    </span>
  );
}

/** The sentences behind the mark. */
export function Verdict({ verdict, note }: { verdict: VerdictData; note?: string }) {
  return (
    <div class={`verdict ${verdict.level}`}>
      {verdict.meaning && <p class="meaning">{unbroken(verdict.meaning)}</p>}
      {verdict.sentences.map((sentence) => (
        <p key={sentence}>{unbroken(sentence)}</p>
      ))}
      {verdict.warning && (
        <p class="warning">
          <b>Warning:</b> {unbroken(verdict.warning)}
        </p>
      )}
      {note && <p>{note}</p>}
    </div>
  );
}
