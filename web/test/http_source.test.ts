import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { httpSource } from "../src/source";
import { PayloadBuilder } from "./payloads";

let server: Server;
let base: string;
const asked: string[] = [];

beforeEach(async () => {
  const { payload, arrays } = new PayloadBuilder();
  payload.live = { relations: true, tiles: true };
  asked.length = 0;
  server = createServer((request, response) => {
    asked.push(request.url!);
    const { pathname } = new URL(request.url!, "http://here");
    const array = arrays[decodeURIComponent(pathname.replace("/jobs/1/arrays/", ""))];
    if (pathname === "/jobs/1/payload") response.end(JSON.stringify(payload));
    else if (pathname === "/jobs/1/relations") response.end(JSON.stringify({ attended: [[3, 0.5]], attending: [] }));
    else if (pathname === "/jobs/1/heads/1/2") response.setHeader("X-Shape", "1,2").end(Buffer.from(Uint16Array.of(0x3c00, 0).buffer));
    else if (array) response.end(new Uint8Array(array.buffer));
    else response.writeHead(404).end('{"error": "There is no such thing."}');
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}/jobs/1/`;
});

afterEach(() => new Promise((closed) => server.close(closed)));

describe("a source at a server", () => {
  it("fetches an array once, as bytes", async () => {
    const source = await httpSource(base);
    const [first, second] = await Promise.all([source.array("scores.0"), source.array("scores.0")]);
    expect(Array.from(first)).toEqual([9, 1, -2, 0, 0.5, -3, 0, 2, 0, -9]);
    expect(second).toBe(first);
    expect(asked).toEqual(["/jobs/1/payload", "/jobs/1/arrays/scores.0"]);
  });

  it("asks for relations and tiles as the contract says", async () => {
    const source = await httpSource(base);
    const lists = await source.relations!({ tokens: [1, 2], layers: [0], heads: [], k: 8 });
    expect(lists).toEqual({ attended: [[3, 0.5]], attending: [] });
    expect(asked.at(-1)).toBe("/jobs/1/relations?k=8&token=1&token=2&layers=0");
    const tile = await source.tile!({ layer: 1, head: 2, rows: [0, 4], columns: [2, 6], size: 2 });
    expect(tile).toEqual({ rows: 1, columns: 2, values: Float32Array.of(1, 0) });
    expect(asked.at(-1)).toBe("/jobs/1/heads/1/2?rows=0%3A4&columns=2%3A6&size=2");
  });

  it("gives the server's sentence when it refuses", async () => {
    await expect(httpSource(base + "nowhere")).rejects.toThrow("There is no such thing.");
  });
});
