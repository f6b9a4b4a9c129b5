import assert from "node:assert/strict";
import { test } from "node:test";
import { frameBlocks } from "../src/lib/frames.ts";
import { parameterBlock } from "../src/lib/parameters.ts";

const parameter = (n: number): string => `  %p.${n} = f32[4,8]{1,0} parameter(${n}), sharding={replicated}`;
const entry = (count: number): string[] => [
  "HloModule m",
  "",
  "ENTRY %main (p: f32[4]) -> f32[4] {",
  ...Array.from({ length: count }, (_, n) => parameter(n)),
  "  %add = f32[4]{0} add(%p.0, %p.1)",
  "  %late = f32[4]{0} parameter(99)",
  "}",
];

test("many parameters at the beginning of the entry are one block", () => {
  assert.deepEqual(parameterBlock(entry(20)), [3, 22]);
  assert.deepEqual(frameBlocks({ lines: entry(20), language: "hlo" }), [[3, 22]]);
});

test("a few parameters stay", () => {
  assert.equal(parameterBlock(entry(7)), null);
  assert.deepEqual(parameterBlock(entry(8)), [3, 10]);
});

test("a text without an entry or parameters has no block", () => {
  assert.equal(parameterBlock(["HloModule m", parameter(0)]), null);
  assert.equal(parameterBlock(entry(0)), null);
  assert.deepEqual(frameBlocks({ lines: entry(20), language: "mlir" }), []);
});
