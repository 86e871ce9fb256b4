import { expect, test } from "vitest";
import { endPieces } from "../src/ends";
import { DocumentModel } from "../src/document";
import { windowPixel } from "../src/map_window";
import { PayloadBuilder } from "./payloads";

test("the pixels of a straightened window hold every token and every distance once", () => {
  const shape = { rows: 7, columns: 5, tokens: 100, reach: 8 };
  const rows = Array.from({ length: 7 }, (_, row) => windowPixel(shape, row, 0).from);
  const columns = Array.from({ length: 5 }, (_, column) => windowPixel(shape, 3, column).distance);
  expect([rows[0][0], rows[6][1], columns[0][0], columns[4][1]]).toEqual([0, 99, -8, 8]);
  for (let i = 1; i < 7; i++) expect(rows[i][0]).toBe(rows[i - 1][1] + 1);
  for (let i = 1; i < 5; i++) expect(columns[i][0]).toBe(columns[i - 1][1] + 1);
});

test("where a pixel is one token, the attended token is that far away, and stays in the document", () => {
  const shape = { rows: 100, columns: 17, tokens: 100, reach: 8 };
  expect(windowPixel(shape, 40, 8 + 3)).toEqual({ from: [40, 40], distance: [3, 3], to: [43, 43] });
  expect(windowPixel(shape, 2, 0).to).toEqual([0, 0]);
  expect(windowPixel(shape, 99, 16).to).toEqual([99, 99]);
});

test("both ends are marked in the text, special tokens have none", async () => {
  const model = await DocumentModel.load(new PayloadBuilder().source());
  // "The mill, the mill: old." is tokens 1 … 8 between two specials.
  const pieces = endPieces(model, [1, 2], [2, 4]);
  expect(pieces.map(({ text }) => text).join("")).toBe("The mill, the mill: old.");
  expect(pieces.filter(({ from }) => from).map(({ text }) => text)).toEqual(["The ", "mill"]);
  expect(pieces.filter(({ to }) => to).map(({ text }) => text)).toEqual(["mill", ", the"]);
  expect(endPieces(model, [0, 0], [9, 9])).toEqual([]);
});
