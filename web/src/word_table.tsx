// Tables of words for and against, per instance or added up per word, with the score of every method.

import { useMemo, useState } from "preact/hooks";
import { Choice } from "./choices";
import type { Cell } from "./csv";
import { LeftOut } from "./panel";
import { commonExponent, count, ShareFormat } from "./format";
import type { Page } from "./hooks";
import type { ViewProperties } from "./views";
import { rows as mergedRows } from "./ranking";
import { wordTotal, type Picture } from "./reading";
import { SortableTable, type Column } from "./sortable_table";

type By = "position" | "type";
const SIDES = ["both", "for", "against"] as const;
type Side = (typeof SIDES)[number];

export function WordTable({ page, picture, go }: ViewProperties) {
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
        <LeftOut page={page} picture={picture} />
      </div>
      <SortableTable
        key={`${by}.${side}`}
        caption={`${picture.units.level}s by ${picture.reading.title}, ${picture.reading.label}; shares of the total of absolute word scores`}
        columns={found.columns}
        rows={found.rows}
        file={`${picture.units.level}s-${picture.reading.name}.csv`}
        sortBy={1}
        ascending={side === "against"}
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

function wordRows({ source, model }: Page, picture: Picture, by: By, side: Side): WordRows {
  const { units, scores, reading, format, listed } = picture;
  const { explanations } = source.payload;
  const merged = mergedRows(scores, listed, (unit) => units.key(unit), (unit) => units.text(unit), by === "type");
  const chosen = merged.filter((row) => side === "both" || (side === "for" ? row.score > 0 : row.score < 0));
  // Beside the shares of the method that is shown, those of the other explanations.
  const others = explanations.flatMap((one, number) => (number === reading.explanation ? [] : [{ one, number }]));
  const sums = others.map(({ one, number }) => {
    const each = units.sums(model.scores[number]);
    const added = mergedRows(each, listed, (unit) => units.key(unit), () => "", by === "type");
    const share = new ShareFormat(wordTotal(model, model.scores[number]), one.signed);
    return { share, rows: new Map(added.map((row) => [by === "type" ? row.key : row.unit, share.of(row.score)])) };
  });
  const target = explanations[reading.explanation ?? 0].target.name;
  const shares = (signed: boolean) => (value: number) => new ShareFormat(1, signed).share(value);
  const columns: Column[] = [
    { name: units.level },
    { name: reading.title, write: shares(reading.signed) },
    { name: "score", ...commonExponent(chosen.reduce((most, row) => Math.max(most, Math.abs(row.score)), 0)) },
    ...(by === "type" ? [{ name: "count", write: count }] : [{ name: "position", write: String }]),
    ...others.map(({ one }) => {
      const title = one.title || one.method;
      return { name: one.target.name === target ? title : `${title}, ${one.target.name}`, write: shares(one.signed) };
    }),
  ];
  const rows = chosen.map((row) => [
    row.text,
    format.of(row.score),
    row.score,
    by === "type" ? row.count : units.tokens(row.unit)[0],
    ...sums.map((sum) => sum.rows.get(by === "type" ? row.key : row.unit) ?? null),
  ]);
  return { columns, rows, units: chosen.map((row) => row.unit) };
}
