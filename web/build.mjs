// Builds src/ into the package's static files. The same source gives the same bytes: CI builds again and compares.
import { build } from "esbuild";

const STATIC = "../src/sightline/view/static";
const LARGEST = 150_000;

const common = { bundle: true, minify: true, charset: "utf8", legalComments: "none", logLevel: "warning" };
const script = await build({
  ...common,
  entryPoints: ["src/view.ts"],
  outfile: `${STATIC}/view.js`,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  metafile: true,
});
await build({ ...common, entryPoints: ["src/view.css"], outfile: `${STATIC}/view.css`, target: "chrome111" });

// The page of the server: asks, follows and then loads the view above.
await build({
  ...common,
  entryPoints: ["src/server/main.ts"],
  outfile: "../src/sightline/serve/static/server.js",
  format: "esm",
  target: "es2022",
});

const [size] = Object.values(script.metafile.outputs).map((output) => output.bytes);
if (size > LARGEST) throw new Error(`The view has ${size} bytes; ${LARGEST} are the limit.`);
console.log(`view.js: ${size} bytes`);
