// Bundles the app into inspector/widgets/static, which is committed. Same input, same bytes.
import { context, build } from "esbuild";

const options = {
  entryPoints: { explorer: "src/explorer.ts" },
  outdir: "../inspector/widgets/static",
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  charset: "utf8",
  legalComments: "none",
  logLevel: "info",
};

if (process.argv.includes("--watch")) {
  await (await context(options)).watch();
} else {
  await build(options);
}
