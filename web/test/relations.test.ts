import { describe, expect, it } from "vitest";
import { DocumentModel } from "../src/document";
import { hasMaps, mapNames, toUnits, unitRelations } from "../src/relations";
import { PayloadBuilder } from "./payloads";

const inside = { layers: 2, heads: 3, k: 2, thumbnail: 2, image: 4 };

describe("maps", () => {
  it("follow the choice of layers and heads", () => {
    expect(mapNames(inside, [], [])).toEqual(["all"]);
    expect(mapNames(inside, [1], [])).toEqual(["layer-1"]);
    expect(mapNames(inside, [], [2])).toEqual(["head-0-2", "head-1-2"]);
    expect(mapNames(inside, [0], [1, 2])).toEqual(["head-0-1", "head-0-2"]);
  });

  it("are there only if all of them are", () => {
    const source = new PayloadBuilder().relations("layer-0", "attended", {}).source();
    expect(hasMaps(source, ["layer-0"])).toBe(true);
    expect(hasMaps(source, ["layer-0", "layer-1"])).toBe(false);
  });
});

describe("relations of a unit", () => {
  it("are those of the arrays, strongest first, empty places left out", async () => {
    const source = new PayloadBuilder()
      .relations("all", "attended", { 2: [[5, 0.5], [1, 0.25]] })
      .relations("all", "attending", { 2: [[7, 0.125]] })
      .source();
    const model = await DocumentModel.load(source);
    expect(await unitRelations(source, model.units("word"), 2, [], [])).toEqual({
      attended: [[5, 0.5], [1, 0.25]],
      attending: [[7, 0.125]],
    });
  });

  it("are averaged over several maps", async () => {
    const builder = new PayloadBuilder();
    for (const direction of ["attended", "attending"]) {
      builder.relations("layer-0", direction, { 2: [[5, 0.5]] }).relations("layer-1", direction, { 2: [[4, 0.75], [5, 0.25]] });
    }
    const source = builder.source();
    const model = await DocumentModel.load(source);
    const { attended } = await unitRelations(source, model.units("word"), 2, [0, 1], []);
    expect(attended).toEqual([[4, 0.375], [5, 0.375]]);
  });

  it("add up to words as attention does: sum over the attended, mean over the attending tokens", async () => {
    const builder = new PayloadBuilder();
    // Tokens 1 and 2 are one word now, and so are 4 and 5.
    builder.add("units.word.of", "int32", [0, 1, 1, 3, 4, 4, 6, 7, 8, 9]);
    const model = await DocumentModel.load(builder.source());
    const units = model.units("word");
    // From the word (1, 2): token 1 gives 4 and 5 0.2 and 0.1, token 2 gives 5 0.3.
    const sums = new Map([[4, 0.2], [5, 0.1 + 0.3]]);
    expect(toUnits(sums, units, "attended", 2)).toEqual([[4, expect.closeTo(0.3)]]);
    expect(toUnits(sums, units, "attending", 2)).toEqual([[4, expect.closeTo(0.3)]]);
    expect(toUnits(new Map([[7, 0.6]]), units, "attended", 2)).toEqual([[7, 0.3]]);
    expect(toUnits(new Map([[7, 0.6]]), units, "attending", 2)).toEqual([[7, 0.6]]);
  });
});
