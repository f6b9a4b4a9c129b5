// Bundles the app into inspector/widgets/static, which is committed. Same input, same bytes.
//
// explorer.js has the styles in it, so that it is all that a page needs; loader.js is what a notebook keeps of the
// widget, page.js what stands on a page without a notebook kernel.
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { basename } from "node:path";
import { build, context } from "esbuild";

const OUT = "../inspector/widgets/static";
const options = {
  outdir: OUT,
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  charset: "utf8",
  legalComments: "none",
  write: false,
};

/** Writes the scripts: the styles are in them. */
const writing = {
  name: "writing",
  setup: ({ onEnd }) =>
    onEnd(({ outputFiles }) => {
      mkdirSync(OUT, { recursive: true });
      for (const { path, contents } of outputFiles ?? []) {
        if (!path.endsWith(".js")) continue;
        writeFileSync(`${OUT}/${basename(path)}`, contents);
        console.log(`${basename(path)}: ${contents.length.toLocaleString("en")} bytes`);
      }
    }),
};

const sheet = await build({ ...options, entryPoints: ["src/explorer.ts"], define: { STYLES: "''" } });
const styles = sheet.outputFiles.find(({ path }) => path.endsWith(".css")).text;
const bundles = [
  { ...options, entryPoints: ["src/explorer.ts", "src/loader.ts"], define: { STYLES: JSON.stringify(styles) } },
  { ...options, entryPoints: ["src/page.ts"], format: "iife" },
].map((bundle) => ({ ...bundle, plugins: [writing] }));

rmSync(OUT, { recursive: true, force: true });
for (const bundle of bundles) {
  if (process.argv.includes("--watch")) await (await context(bundle)).watch();
  else await build(bundle);
}
