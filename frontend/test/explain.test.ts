import assert from "node:assert/strict";
import { test } from "node:test";
import { explain } from "../src/lib/explain.ts";
import { ofHlo, ofJaxpr, ofStablehlo } from "../src/lib/glossary.ts";
import { document } from "./helpers.ts";
import { Origins } from "../src/lib/origins.ts";

const HLO = `HloModule m

ENTRY %main (x: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  %ag.1 = f32[32]{0} all-gather(%x), dimensions={0}, metadata={op_name="jit(f)/gather" source_line=4}
  ROOT %slice.2 = f32[8]{0} slice(%ag.1), slice={[0:8]}
}`;

const at = (text: string, line: number, what: string): number => text.split("\n")[line]!.indexOf(what) + 1;

test("a name leads to its definition, without locations and metadata", () => {
  const doc = document(new Origins(), "hlo", HLO);
  const found = explain(doc, 5, at(HLO, 5, "%ag.1"))!;
  assert.equal(found.code, "%ag.1 = f32[32]{0} all-gather(%x), dimensions={0}");
  assert.match(found.title, /^%ag\.1, defined on line 5$/);
  assert.equal(HLO.split("\n")[5]!.slice(found.from, found.to), "%ag.1");
});

test("an operation has a description and a link to the specification", () => {
  const doc = document(new Origins(), "hlo", HLO);
  const found = explain(doc, 4, at(HLO, 4, "all-gather("))!;
  assert.match(found.words, /^Concatenates the parts of all/);
  assert.equal(found.url, "https://openxla.org/xla/operation_semantics#allgather");
  assert.equal(HLO.split("\n")[4]!.slice(found.from, found.to), "all-gather");
});

test("definitions, shapes and empty places have no explanation", () => {
  const doc = document(new Origins(), "hlo", HLO);
  assert.equal(explain(doc, 4, at(HLO, 4, "%ag.1")), null);
  assert.equal(explain(doc, 4, at(HLO, 4, "f32[32]")), null);
  assert.equal(explain(doc, 1, 0), null);
  assert.equal(explain(doc, 99, 3), null);
});

test("StableHLO and jaxprs have the same descriptions under their own names", () => {
  assert.equal(ofStablehlo("all_gather")!.words, ofHlo("all-gather")!.words);
  assert.equal(ofJaxpr("psum")!.words, ofHlo("all-reduce")!.words);
  assert.equal(ofJaxpr("mul")!.words, ofStablehlo("multiply")!.words);
  assert.match(ofHlo("all-reduce-start")!.words, /^Starts asynchronously: computes the sum/);
  assert.match(ofHlo("all-gather-done")!.words, /^Waits/);
  assert.equal(ofHlo("no-such-thing"), null);
  const mlir = "func.func @main(%arg0: tensor<8xf32>) {\n  %0 = stablehlo.sine %arg0 : tensor<8xf32>\n}";
  const found = explain(
    document(new Origins(), "stablehlo", mlir, [], undefined, undefined, "mlir"),
    1,
    at(mlir, 1, "sine"),
  )!;
  assert.equal(found.words, "The sine of each element.");
  const jaxpr = "{ lambda ; a:f32[8]. let b:f32[8] = sin a in (b,) }";
  assert.equal(
    explain(document(new Origins(), "jaxpr", jaxpr, [], undefined, undefined, "jaxpr"), 0, at(jaxpr, 0, "sin a"))!
      .words,
    "The sine of each element.",
  );
});
