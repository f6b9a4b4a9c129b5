import assert from "node:assert/strict";
import { test } from "node:test";
import { foldEndsOf, plainText, readDocument } from "../src/lib/documents.ts";
import { frameBlocks } from "../src/lib/frames.ts";
import { definedNames, nameAt } from "../src/lib/names.ts";
import { NONE, Origins } from "../src/lib/origins.ts";
import { definingOf, document } from "./helpers.ts";

const HLO = `HloModule jit_f, is_scheduled=true

FileNames
1 "f.py"

StackFrames
1 {file_location_id=1 parent_frame_id=1}

%fused_computation (param_0: f32[8]) -> f32[8] {
  %param_0 = f32[8]{0} parameter(0)
  ROOT %add.1 = f32[8]{0} add(%param_0, %param_0), metadata={op_name="jit(f)/add"}
}

ENTRY %main.3 (x.1: f32[8]) -> f32[8] {
  %x.1 = f32[8]{0} parameter(0)
  ROOT %fusion = f32[8]{0} fusion(%x.1), kind=kLoop, calls=%fused_computation
}`;

test("instructions are found by name, once their first line", () => {
  const text = "h (p: f32[]) -> f32[] {\n  %a = f32[] parameter(0)\n  ROOT b.1-x = f32[] add(a, a)\n  %a = f32[] c()";
  const found = document(new Origins(), "hlo", text, [], undefined, definingOf(text));
  assert.equal(found.lineOfInstruction("a"), 1);
  assert.equal(found.lineOfInstruction("b.1-x"), 2);
  assert.equal(found.lineOfInstruction("c"), -1);
  const continued = { labels: null, defining: Uint8Array.of(0, 1, 0, 0) };
  assert.equal(document(new Origins(), "hlo", text, [], undefined, continued).lineOfInstruction("b.1-x"), -1);
});

test("labels and headings follow the line table", () => {
  const found = document(
    new Origins(),
    "source",
    "# a.py\nx\n\ny",
    [],
    undefined,
    { labels: [null, 41, null, 90] },
    "python",
  );
  assert.deepEqual(
    [0, 1, 2, 3].map((i) => found.label(i)),
    ["", "41", "", "90"],
  );
  assert.deepEqual(
    [0, 1, 2, 3].map((i) => found.isHeading(i)),
    [true, false, false, false],
  );
});

test("HLO names lead to instructions and computations, with and without %", () => {
  for (const text of [HLO, HLO.replaceAll("%", "")]) {
    const found = document(new Origins(), "optimized", text);
    const line = (part: string) => found.lines.findIndex((t) => t.includes(part));
    const use = line("fusion(");
    const name = (of: string) => nameAt(found.lines[use]!, found.lines[use]!.indexOf(of) + 1, "hlo")!;
    assert.equal(found.lineOfDefinition(name("x.1"), use), line("x.1 = "));
    assert.equal(found.lineOfDefinition(name("fused_computation"), use), line("fused_computation ("));
    assert.equal(found.lineOfDefinition("nothing", use), -1);
  }
});

test("MLIR names are looked up above their use, functions anywhere", () => {
  const text = `module @jit_f {
  func.func public @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    %0:2 = stablehlo.custom_call @x(%arg0) : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
    %1 = func.call @helper(%0#1) : (tensor<8xf32>) -> tensor<8xf32>
    return %1 : tensor<8xf32>
  }
  func.func private @helper(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    %1 = stablehlo.add %arg0, %arg0 : tensor<8xf32>
    return %1 : tensor<8xf32>
  }
}`;
  const found = document(new Origins(), "stablehlo", text, [], undefined, undefined, "mlir");
  assert.equal(found.lineOfDefinition("%1", 4), 3);
  assert.equal(found.lineOfDefinition("%1", 8), 7);
  assert.equal(found.lineOfDefinition("%0#1", 3), 2);
  assert.equal(found.lineOfDefinition("@helper", 3), 6);
  assert.equal(found.lineOfDefinition("%arg0", 2), 1);
});

test("jaxpr variables are defined by equations and binders", () => {
  assert.deepEqual(definedNames("    c:f32[8] d:f32[] = foo[axes=(0,)] a b", "jaxpr"), ["c", "d"]);
  assert.deepEqual(definedNames("{ lambda ; a:f32[8] b:f32[8]. let", "jaxpr"), ["a", "b"]);
  assert.deepEqual(definedNames("  in (c,) }", "jaxpr"), []);
});

test("nameAt reads the name under a column and nothing else", () => {
  const line = "  %add.1 = f32[8]{0} add(%x.1, %y)";
  assert.equal(nameAt(line, 4, "hlo"), "%add.1");
  assert.equal(nameAt(line, line.indexOf("%y"), "hlo"), null);
  assert.equal(nameAt(line, line.indexOf("y"), "hlo"), "%y");
  assert.equal(nameAt(line, 0, "hlo"), null);
  assert.equal(nameAt("ab = mul c:f32[] d", 11, "jaxpr"), "f32");
});

test("folds end where the indentation ends", () => {
  const lines = ["a {", "  b", "", "  c {", "    d", "  }", "}", "e"];
  assert.deepEqual([...foldEndsOf(lines)], [5, 1, 2, 4, 4, 5, 6, 7]);
});

test("the tables around a text are found, the program is not", () => {
  const lines = HLO.split("\n");
  assert.deepEqual(frameBlocks({ lines, language: "hlo" }), [[2, 6]]);
  assert.deepEqual(frameBlocks({ lines: lines.slice(7), language: "hlo" }), []);
  const mlir = ["#loc1 = a", "#loc2 = b", "module {", "}", "#loc = c", "#loc3 = d", ""];
  assert.deepEqual(frameBlocks({ lines: mlir, language: "mlir" }), [
    [0, 1],
    [4, 5],
  ]);
  assert.deepEqual(frameBlocks({ lines: ["module {", "}"], language: "mlir" }), []);
});

test("a document of five buffers has its origins among those of all texts", () => {
  const bytes = (text: string): ArrayBuffer => new TextEncoder().encode(text).buffer as ArrayBuffer;
  const origins = new Origins();
  origins.add({ files: ["other.py"], libraries: [], origins: [[["before", [[0, 1]]]]], phases: [] });
  const about = { pane: "passes", variant: 1, language: "hlo", title: "" } as const;
  const text = readDocument(
    about,
    [
      bytes("a\n  %i1 = f32[] add()"),
      Int32Array.of(-1, 0).buffer,
      bytes(JSON.stringify({ files: ["f.py"], origins: [[["op", [[0, 3]]]]] })),
      bytes(JSON.stringify({ labels: null })),
      Uint8Array.of(0, 1).buffer,
    ],
    origins,
  );
  assert.equal(text.lineOfInstruction("i1"), 1);
  assert.equal(origins.operation(text.origin(1)), "op");
  assert.equal(text.origin(0), NONE);
  assert.equal(plainText(about, "x\ny").lineOfInstruction("i1"), -1);
  assert.throws(() => readDocument(about, [bytes("")], origins), /five buffers/);
});
