// Tables of words for and against, per instance or added up per word, with the score of every method.

import { useMemo, useState } from "preact/hooks";
import { Choice } from "./choices";
import type { Cell } from "./csv";
import { count, NumberFormat, percent } from "./format";
import type { Page } from "./hooks";
import type { ViewProperties } from "./views";
import { rows as mergedRows } from "./ranking";
import { shownUnits, type Picture } from "./reading";
import { SortableTable, type Column } from "./sortable_table";

type By = "position" | "type";
const SIDES = ["both", "for", "against"] as const;
type Side = (typeof SIDES)[number];

export function WordsView({ page, picture, go }: ViewProperties) {
  const [by, setBy] = useState<By>("type");
  const [side, setSide] = useState<Side>("both");
  const found = useMemo(() => wordRows(page, picture, by, side), [page.source, page.model, picture, by, side]);
  return (
    <div class="words">
      <div class="row">
        <Choice
          id="by"
          label="Rows"
          options={[
            { value: "type", text: "by word", hint: "Sum over all instances of a word" },
            { value: "position", text: "by position", hint: "One row per instance" },
          ]}
          value={by}
          choose={(value) => setBy(value as By)}
        />
        {picture.reading.signed && (
          <Choice
            id="side"
            label="For or against"
            options={SIDES.map((value) => ({ value, text: value }))}
            value={side}
            choose={(value) => setSide(value)}
          />
        )}
      </div>
      <SortableTable
        key={by}
        caption={`${picture.units.level}s by ${picture.reading.name}, ${picture.reading.label}`}
        columns={found.columns}
        rows={found.rows}
        file={`${picture.units.level}s-${picture.reading.name}.csv`}
        sortBy={1}
        onRow={(row) => go(found.units[row])}
      />
    </div>
  );
}

interface WordRows {
  columns: Column[];
  rows: Cell[][];
  units: number[];
}

function wordRows({ source, model, state }: Page, picture: Picture, by: By, side: Side): WordRows {
  const { units, scores, total, reading, format } = picture;
  const { explanations } = source.payload;
  const shown = shownUnits(units, state.hide);
  const merged = mergedRows(scores, shown, (unit) => units.key(unit), (unit) => units.text(unit), by === "type");
  const chosen = merged.filter((row) => side === "both" || (side === "for" ? row.score > 0 : row.score < 0));
  // Beside the score that is shown, those of the other explanations.
  const others = explanations.flatMap((one, number) => (number === reading.explanation ? [] : [{ one, number }]));
  const sums = others.map(({ number }) => {
    const each = units.sums(model.scores[number]);
    const added = mergedRows(each, shown, (unit) => units.key(unit), () => "", by === "type");
    return new Map(added.map((row) => [by === "type" ? row.key : row.unit, row.score]));
  });
  const target = explanations[reading.explanation ?? 0].target.name;
  const columns: Column[] = [
    { name: units.level },
    { name: reading.name, write: (value) => format.full(value) },
    { name: "share", write: percent },
    ...(by === "type" ? [{ name: "count", write: count }] : [{ name: "position", write: String }]),
    ...others.map(({ one }, i) => {
      const own = new NumberFormat([...sums[i].values()].reduce((most, score) => Math.max(most, Math.abs(score)), 0), one.signed);
      const name = one.target.name === target ? one.method : `${one.method}, ${one.target.name}`;
      return { name, write: (value: number) => own.full(value) };
    }),
  ];
  const rows = chosen.map((row) => [
    row.text,
    row.score,
    total ? Math.abs(row.score) / total : 0,
    by === "type" ? row.count : units.tokens(row.unit)[0],
    ...sums.map((sum) => sum.get(by === "type" ? row.key : row.unit) ?? null),
  ]);
  return { columns, rows, units: chosen.map((row) => row.unit) };
}
