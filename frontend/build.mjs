// Bundles the app into inspector/widgets/static, which is committed. The output is reproducible byte by byte.
//
// explorer.js is the app, including its styles. loader.js is the widget that a notebook stores. page.js is the script
// of a page without a notebook kernel.
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

/** Writes the scripts, but not the style sheets, which are included in them. */
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
