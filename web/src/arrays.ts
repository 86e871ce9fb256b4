// Arrays as they travel (little-endian bytes, maybe compressed, maybe base64) and as the view uses them.

import type { ArrayInfo } from "./payload";

export type Numbers = Uint8Array | Uint16Array | Int32Array | Float32Array;

const BYTES = { uint8: 1, uint16: 2, int32: 4, float16: 2, float32: 4 } as const;

/** Numbers from bytes; float16 becomes float32, and a scale is applied. */
export function decode(bytes: ArrayBuffer, info: ArrayInfo): Numbers {
  const count = info.shape.reduce((product, length) => product * length, 1);
  if (bytes.byteLength !== count * BYTES[info.dtype]) {
    throw new Error(`An array of shape ${info.shape.join(" × ")} came with ${bytes.byteLength} bytes: it is damaged.`);
  }
  const values = typed(bytes, info.dtype);
  return info.scale === undefined ? values : Float32Array.from(values, (value) => value * info.scale!);
}

function typed(bytes: ArrayBuffer, dtype: ArrayInfo["dtype"]): Numbers {
  switch (dtype) {
    case "uint8":
      return new Uint8Array(bytes);
    case "uint16":
      return new Uint16Array(bytes);
    case "int32":
      return new Int32Array(bytes);
    case "float32":
      return new Float32Array(bytes);
    case "float16":
      return halves(new Uint16Array(bytes));
  }
}

export function halves(bits: Uint16Array): Float32Array {
  const table = halfTable();
  const values = new Float32Array(bits.length);
  for (let i = 0; i < bits.length; i++) values[i] = table[bits[i]];
  return values;
}

let table: Float32Array | null = null;

/** All 65,536 float16 numbers, made once: IEEE 754 half precision. */
function halfTable(): Float32Array {
  if (table) return table;
  table = new Float32Array(65536);
  for (let bits = 0; bits < 65536; bits++) {
    const sign = bits & 0x8000 ? -1 : 1;
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    if (exponent === 0) table[bits] = sign * fraction * 2 ** -24;
    else if (exponent === 31) table[bits] = fraction ? NaN : sign * Infinity;
    else table[bits] = sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
  }
  return table;
}

export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < characters.length; i++) bytes[i] = characters.charCodeAt(i);
  return bytes;
}

/** Undo zlib's compression with the browser's own decoder. */
export async function inflate(bytes: Uint8Array<ArrayBuffer>): Promise<ArrayBuffer> {
  if (typeof DecompressionStream === "undefined") {
    throw new Error("This browser is too old to unpack the page's data: open it in a version of 2023 or later.");
  }
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}
