// Tables as CSV (RFC 4180). A text cell that a spreadsheet would run as a formula gets an apostrophe in front.

export type Cell = string | number | null;

// The same rules as in spreadsheet_cells.py, which takes the apostrophe off again: a sign alone and a number with a sign
// are no formulas.
const FORMULA = /^'*[=+\-@\t\r\n＝＋－＠]/;
const SIGN_OR_NUMBER = /^[+-]([0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?)?$/;

export function toCsv(columns: string[], rows: Cell[][]): string {
  return [columns, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

function cell(value: Cell): string {
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  const text = FORMULA.test(value) && !SIGN_OR_NUMBER.test(value) ? "'" + value : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Hand a text to the browser as a file. */
export function download(name: string, text: string): void {
  const address = URL.createObjectURL(new Blob(["\ufeff", text], { type: "text/csv;charset=utf-8" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
