import assert from "node:assert/strict";
import { test } from "node:test";
import { CodeIndex } from "../src/lib/codeindex.ts";
import { linesBefore } from "../src/lib/diffing.ts";

test("the text before a pass is made of the text after it and what went", () => {
  const after = ["head", "new 1", "new 2", "kept", "tail"];
  // head | gone 1 -> new 1, new 2 | kept | gone 2, gone 3 -> nothing | tail | end -> nothing
  const hunks: [number, number, number, number][] = [
    [1, 2, 1, 3],
    [3, 5, 4, 4],
    [6, 7, 5, 5],
  ];
  const removed = ["gone 1", "gone 2", "gone 3", "end"];
  assert.deepEqual(linesBefore(after, hunks, removed), ["head", "gone 1", "kept", "gone 2", "gone 3", "tail", "end"]);
  assert.deepEqual(linesBefore(after, [], [""]), after);
  assert.deepEqual(linesBefore(["x"], [[0, 1, 0, 1]], [""]), [""]);
});

const table = {
  entries: [
    { stage: "thunks", kernel: "", language: "text" as const },
    { stage: "LLVM IR", kernel: "b", language: "llvm" as const },
    { stage: "LLVM IR", kernel: "a", language: "llvm" as const },
    { stage: "PTX", kernel: "a", language: "ptx" as const },
  ],
  instructions: { a: ["fusion.1", "add.2", "shared"], b: ["shared"] },
  calls: {
    "dot.10": { callee: "Eigen", instructions: ["dot.10"] },
    "ynn.2": { callee: "YNNPACK", instructions: ["ynn.2", "dot.3"] },
  },
};

test("code is found by stage and kernel, and a kernel by the instruction that it computes", () => {
  const index = new CodeIndex("", table);
  assert.deepEqual(index.stages, ["thunks", "LLVM IR", "PTX"]);
  assert.deepEqual(index.kernels, ["", "a", "b"]);
  assert.equal(index.place("PTX", "a"), 3);
  assert.equal(index.place("PTX", "b"), null);
  assert.deepEqual(index.stagesOf("a"), ["LLVM IR", "PTX"]);
  assert.equal(index.kernel("add.2"), "a");
  assert.equal(index.kernel("shared"), "b", "its own kernel before one that holds it");
  assert.equal(index.kernel("none"), null);
  assert.equal(index.instruction("a"), "fusion.1");
});

test("a library call is found by the instruction that calls it and those inside of it", () => {
  const index = new CodeIndex("", table);
  assert.deepEqual(index.calls, ["dot.10", "ynn.2"]);
  assert.equal(index.call("dot.3"), "ynn.2");
  assert.equal(index.call("dot.10"), "dot.10");
  assert.equal(index.call("fusion.1"), null);
});
