// A small document for tests: "The mill, the mill: old." between <s> and </s>, with attention of 2 layers and 3 heads.

import type { ArrayInfo, Dtype, Payload } from "../src/payload";
import { bufferSource, type Source } from "../src/source";

const TEXT = "The mill, the mill: old.";
const WORDS = [[0, 3], [4, 8], [8, 9], [10, 13], [14, 18], [18, 19], [20, 23], [23, 24]];

const TYPES = { uint8: Uint8Array, uint16: Uint16Array, int32: Int32Array, float32: Float32Array, float16: Uint16Array };

export class PayloadBuilder {
  readonly arrays: Record<string, DataView> = {};
  readonly payload: Payload;

  constructor() {
    this.payload = {
      format: "sightline-page",
      version: 1,
      title: "The mill",
      document: {
        tokens: 10,
        dropped: 0,
        segments: [{ name: "Text", text: TEXT, read: TEXT.length }],
        specials: [[0, "<s>"], [9, "</s>"]],
      },
      explanations: [explanation("attcat", "“PL”", true), explanation("rollout", "“PL”", false), explanation("attcat", "“AI”", true)],
      inside: null,
      colours: { levels: 8, gamma: 0.75, clipped: 0.005 },
      arrays: {},
    };
    const starts = [0, ...WORDS.map(([start]) => start), 24];
    const ends = [0, ...WORDS.map(([, end]) => end), 24];
    for (const level of ["token", "word"]) {
      this.add(`units.${level}.start`, "int32", starts);
      this.add(`units.${level}.end`, "int32", ends);
      this.add(`units.${level}.segment`, "uint8", starts.map(() => 0));
      this.add(`units.${level}.of`, "int32", starts.map((_, i) => i));
    }
    for (const level of ["sentence", "paragraph"]) {
      this.add(`units.${level}.start`, "int32", [0]);
      this.add(`units.${level}.end`, "int32", [24]);
      this.add(`units.${level}.segment`, "uint8", [0]);
      this.add(`units.${level}.of`, "int32", [-1, 0, 0, 0, 0, 0, 0, 0, 0, -1]);
    }
    this.add("tokens.flags", "uint8", [1, 2, 0, 4, 2, 0, 4, 0, 4, 1]);
    this.add("scores.0", "float32", [9, 1, -2, 0, 0.5, -3, 0, 2, 0, -9]);
    this.add("scores.1", "float32", [0, 0.1, 0.2, 0.1, 0.1, 0.2, 0.1, 0.1, 0.1, 0]);
    this.add("scores.2", "float32", [0, 0, 20, 0, 0, 0, 0, 0, 0, 0]);
  }

  add(name: string, dtype: Exclude<Dtype, "float16">, values: number[], shape: number[] = [values.length]): this {
    const info: ArrayInfo = { dtype, shape };
    this.payload.arrays[name] = info;
    this.arrays[name] = new DataView(TYPES[dtype].from(values).buffer as ArrayBuffer);
    return this;
  }

  /** Relations of one map: the same lists of partners for every token that is named, none for the others. */
  relations(map: string, direction: string, lists: Record<number, [number, number][]>, k = 2): this {
    const partners = new Array<number>(10 * k).fill(10);
    const weights = new Array<number>(10 * k).fill(0);
    for (const [token, list] of Object.entries(lists)) {
      list.forEach(([partner, weight], i) => {
        partners[Number(token) * k + i] = partner;
        weights[Number(token) * k + i] = weight;
      });
    }
    this.payload.inside ??= { layers: 2, heads: 3, k, thumbnail: 2, image: 4 };
    this.add(`relations.${map}.${direction}.partners`, "uint16", partners, [10, k]);
    return this.add(`relations.${map}.${direction}.weights`, "float32", weights, [10, k]);
  }

  source(): Source {
    return bufferSource(this.payload, this.arrays);
  }
}

function explanation(method: string, target: string, signed: boolean): Payload["explanations"][number] {
  return {
    method,
    summary: "",
    signed,
    target: { name: target, label: target, description: `the logit of ${target}`, is_class: true },
    prediction: { label: "PL", probability: 0.9, classes: [["PL", 0.9], ["AI", 0.1]] },
    notices: [],
    verdict: { level: "unchecked", words: "not checked", meaning: "", sentences: [] },
    checks: [],
    facts: [],
  };
}
