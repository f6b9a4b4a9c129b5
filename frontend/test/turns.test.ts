import assert from "node:assert/strict";
import { test } from "node:test";
import { levelOf, linkOf, matchesIn, othersIn, STRONG, WEAK } from "../src/lib/linking.ts";
import { Origins } from "../src/lib/origins.ts";
import { inTurn } from "../src/lib/turns.ts";
import { definingOf, document, single } from "./helpers.ts";

// Three layers that one line of a loop makes: a product and an addition each.
const STACK: [number, number][] = [
  [0, 2],
  [0, 5],
];
const TABLE = single({
  files: ["model.py"],
  origins: [
    ["jit(f)/dot", STACK],
    ["jit(f)/add", STACK],
  ],
});
const STABLEHLO = ["module {", ...[0, 1, 2].flatMap((i) => [`  %d${i} = dot`, `  %a${i} = add`]), "}"].join("\n");
// The compiler fused each addition; the fusions stand above the entry computation, the last one first.
const body = (i: number): string[] => [
  `%fused.${i} (p: f32[8]) -> f32[8] {`,
  `  ROOT %add.${i} = f32[8] add(p)`,
  "}",
  "",
];
const OPTIMIZED = [
  ...[2, 0, 1].flatMap(body),
  "ENTRY %main (p: f32[8]) -> f32[8] {",
  ...[0, 1, 2].flatMap((i) => [
    `  %dot.${i} = f32[8] dot(p)`,
    `  %fusion.${i} = f32[8] fusion(%dot.${i}), kind=kLoop, calls=%fused.${i}`,
  ]),
  "}",
].join("\n");

function layers() {
  const origins = new Origins();
  const kinds = (text: string): number[] =>
    text.split("\n").map((line) => (/= .*\b(add|fusion)\b/.test(line) ? 1 : / dot/.test(line) ? 0 : -1));
  const stablehlo = document(origins, "stablehlo", STABLEHLO, kinds(STABLEHLO), TABLE);
  const optimized = document(origins, "optimized", OPTIMIZED, kinds(OPTIMIZED), TABLE, definingOf(OPTIMIZED));
  const line = (doc: typeof optimized, text: string): number => doc.lines.findIndex((each) => each.includes(text));
  return { origins, stablehlo, optimized, line };
}

test("a kernel of one layer lights the operations of its layer, and those of other layers weakly", () => {
  const { origins, stablehlo, optimized, line } = layers();
  for (const layer of [0, 1, 2]) {
    const at = line(optimized, `%fusion.${layer} =`);
    const link = linkOf(origins, optimized.origin(at), false, { document: optimized, line: at });
    assert.deepEqual([...matchesIn(stablehlo, link).strong], [line(stablehlo, `%a${layer} =`)]);
    assert.deepEqual(
      [...matchesIn(optimized, link).strong],
      [line(optimized, `%add.${layer} =`), at],
      "the fusion and its body",
    );
    assert.equal(levelOf(link, stablehlo, line(stablehlo, `%a${(layer + 1) % 3} =`)), WEAK);
    assert.equal(matchesIn(stablehlo, link).weak.length, 5);
  }
});

test("an operation inside a fusion, and a line of StableHLO, have the layer too", () => {
  const { origins, stablehlo, optimized, line } = layers();
  const inside = line(optimized, "%add.2 =");
  const link = linkOf(origins, optimized.origin(inside), false, { document: optimized, line: inside });
  assert.deepEqual([...matchesIn(stablehlo, link).strong], [line(stablehlo, "%a2 =")]);
  const product = line(stablehlo, "%d1 =");
  const back = linkOf(origins, stablehlo.origin(product), false, { document: stablehlo, line: product });
  assert.deepEqual([...matchesIn(optimized, back).strong], [line(optimized, "%dot.1 =")]);
  assert.equal(levelOf(back, optimized, line(optimized, "%dot.1 =")), STRONG);
});

test("without a place, and if numbers do not match, all layers are lit", () => {
  const { origins, stablehlo, optimized, line } = layers();
  const at = line(optimized, "%dot.1 =");
  const whole = linkOf(origins, optimized.origin(at), false);
  assert.equal(matchesIn(stablehlo, whole).strong.length, 3);
  assert.equal(othersIn(whole, stablehlo).size, 0);
  const two = document(origins, "hlo", "dot\ndot", [0, 0], TABLE);
  const link = linkOf(origins, optimized.origin(at), false, { document: optimized, line: at });
  assert.equal(matchesIn(two, link).strong.length, 2);
});

test("equal multiples are told apart in blocks", () => {
  const kernels = [[1], [2], [3], [4]];
  assert.deepEqual(inTurn(kernels, 1, 2), [[3], [4]]);
  assert.deepEqual(inTurn([[1], [2]], 3, 4), [[2]]);
  assert.deepEqual(inTurn(kernels, 1, 3), kernels);
});
