// A table that can be sorted by any column, filtered by a text and taken away as CSV.

import { useMemo, useState } from "preact/hooks";
import { download, toCsv, type Cell } from "./csv";
import { count, plainNumber, shortened } from "./format";

/** Rows drawn at first: more than a window shows, few enough to be there at once. */
const SHOWN = 60;
/** Rows that a click adds. */
const MORE = 500;

export interface Column {
  name: string;
  /** Stands behind the name on the page, not in the file: the power of ten of what `write` writes. */
  note?: string;
  /** How a number is written; by default three digits. */
  write?(value: number): string;
}

export function SortableTable(properties: {
  caption: string;
  columns: Column[];
  rows: Cell[][];
  file: string;
  sortBy?: number;
  /** Smallest first. */
  ascending?: boolean;
  onRow?(row: number): void;
}) {
  const { caption, columns, rows, file, onRow } = properties;
  const [sort, setSort] = useState({ column: properties.sortBy ?? 0, down: !properties.ascending });
  const [filter, setFilter] = useState("");
  const [shown, setShown] = useState(SHOWN);
  const order = useMemo(() => sorted(rows, sort.column, sort.down, filter), [rows, sort, filter]);
  return (
    <div class="sortable">
      <div class="row">
        <input
          type="search"
          data-control="filter"
          aria-label="Filter the table"
          placeholder="Filter"
          value={filter}
          onInput={(event) => setFilter(event.currentTarget.value)}
        />
        <span class="quiet" role="status">{count(order.length)} rows</span>
        <button
          type="button"
          data-control="csv"
          onClick={() => download(file, toCsv(columns.map((one) => one.name), order.map((row) => rows[row])))}
        >
          Download CSV
        </button>
      </div>
      <div class="scroll">
        <table>
        <caption>{caption}</caption>
        <thead>
          <tr>
            {columns.map((column, i) => (
              <th
                key={column.name}
                scope="col"
                class={typeof rows[0]?.[i] === "number" ? "number" : ""}
                aria-sort={sort.column === i ? (sort.down ? "descending" : "ascending") : "none"}
              >
                <button type="button" onClick={() => setSort({ column: i, down: sort.column === i ? !sort.down : true })}>
                  {column.name} {column.note && <small>{column.note} </small>}<span aria-hidden="true">{sort.column === i ? (sort.down ? "↓" : "↑") : ""}</span>
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {order.slice(0, shown).map((row) => (
            <tr key={row}>
              {rows[row].map((cell, i) => (
                <td key={i} class={typeof cell === "number" ? "number" : ""}>
                  {i === 0 && onRow ? (
                    <button type="button" onClick={() => onRow(row)}>
                      <bdi>{written(cell, columns[i])}</bdi>
                    </button>
                  ) : typeof cell === "number" ? (
                    written(cell, columns[i])
                  ) : (
                    <bdi>{written(cell, columns[i])}</bdi>
                  )}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      </div>
      {order.length > shown && (
        <div class="row more">
          <button type="button" onClick={() => setShown(shown + MORE)}>
            Show {count(Math.min(MORE, order.length - shown))} more
          </button>
          <button type="button" onClick={() => setShown(Infinity)}>
            Show all {count(order.length)}
          </button>
        </div>
      )}
    </div>
  );
}

function written(cell: Cell, column: Column): string {
  if (cell === null) return "";
  if (typeof cell === "string") return shortened(cell, 80);
  return (column.write ?? plainNumber)(cell);
}

/** Numbers of the rows that hold the filter's text, in the order of one column; empty cells last. */
export function sorted(rows: Cell[][], column: number, down: boolean, filter: string): number[] {
  const wanted = filter.toLowerCase();
  const holds = (row: Cell[]) => !wanted || row.some((cell) => String(cell ?? "").toLowerCase().includes(wanted));
  const kept = rows.flatMap((row, i) => (holds(row) ? [i] : []));
  const sign = down ? -1 : 1;
  return kept.sort((i, j) => {
    const [a, b] = [rows[i][column], rows[j][column]];
    if (a === null || b === null) return Number(a === null) - Number(b === null) || i - j;
    if (typeof a === "number" && typeof b === "number") return sign * (a - b) || i - j;
    return -sign * String(a).localeCompare(String(b)) || i - j;
  });
}
