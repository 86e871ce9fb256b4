import { describe, expect, it } from "vitest";
import { deflateSync } from "node:zlib";
import { decode, fromBase64, halves, inflate } from "../src/arrays";
import { inlineSource } from "../src/source";
import { PayloadBuilder } from "./payloads";

describe("arrays", () => {
  it("reads float16 as IEEE 754 says", () => {
    const bits = Uint16Array.of(0x0000, 0x3c00, 0xc000, 0x7bff, 0x0001, 0x0400, 0x3555, 0x8000);
    expect(Array.from(halves(bits))).toEqual([0, 1, -2, 65504, 2 ** -24, 2 ** -14, 0.333251953125, -0]);
  });

  it("applies a scale and keeps whole numbers whole", () => {
    const half = { dtype: "float16", shape: [2], scale: 10 } as const;
    expect(Array.from(decode(Uint16Array.of(0x3c00, 0xb800).buffer, { ...half, shape: [2] }))).toEqual([10, -5]);
    expect(decode(Int32Array.of(-1, 70000).buffer, { dtype: "int32", shape: [2] })).toEqual(Int32Array.of(-1, 70000));
  });

  it("refuses bytes that do not fit the shape, with a sentence", () => {
    expect(() => decode(new ArrayBuffer(7), { dtype: "uint16", shape: [2, 2] })).toThrow("2 × 2 came with 7 bytes");
  });

  it("unpacks base64 of zlib", async () => {
    const values = Float32Array.of(1.5, -2.25, 3e-9);
    const packed = deflateSync(Buffer.from(values.buffer)).toString("base64");
    expect(new Float32Array(await inflate(fromBase64(packed)))).toEqual(values);
  });

  it("reads a report's arrays from its JSON", async () => {
    const { payload, arrays } = new PayloadBuilder();
    for (const [name, view] of Object.entries(arrays)) {
      payload.arrays[name].data = deflateSync(Buffer.from(view.buffer, view.byteOffset, view.byteLength)).toString("base64");
    }
    const source = inlineSource(JSON.stringify(payload));
    expect(Array.from(await source.array("tokens.flags"))).toEqual([1, 2, 0, 4, 2, 0, 4, 0, 4, 1]);
    expect(source.has("relations.all.attended.partners")).toBe(false);
    await expect(source.array("nothing")).rejects.toThrow("no array 'nothing'");
  });

  it("reads buffers that begin anywhere in a message", async () => {
    const builder = new PayloadBuilder();
    const shifted = new Uint8Array(45);
    shifted.set(new Uint8Array(Float32Array.of(...new Array<number>(10).fill(7)).buffer), 5);
    builder.arrays["scores.0"] = new DataView(shifted.buffer, 5, 40);
    expect(Array.from(await builder.source().array("scores.0"))).toEqual(new Array(10).fill(7));
  });

  it("refuses other data and other versions", () => {
    expect(() => inlineSource("{}")).toThrow("not that of a Sightline page");
    expect(() => inlineSource('{"format": "sightline-page", "version": 2}')).toThrow("version 2");
  });
});
