import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { NONE, Origins } from "../src/lib/origins.ts";
import { CodeIndex, linesBefore, Recorded, type RecordedTopic } from "../src/state/recorded.ts";

const buffer = (text: string): DataView => {
  const bytes = gzipSync(Buffer.from(text, text.charCodeAt(0) > 127 ? "latin1" : "utf8"));
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
};

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

test("a pass's change arrives as two texts, the later one with its instructions", async () => {
  const topics: RecordedTopic[] = [];
  const recorded = new Recorded((topic) => topics.push(topic), new Origins());
  const message = {
    type: "pass_change", id: 7, variant: 1, index: 3, hunks: [[1, 2, 1, 2]] as [number, number, number, number][], summary: "", error: null,
  } as const; // prettier-ignore
  await recorded.receiveChange({ ...message }, [
    buffer("a\nnew"),
    buffer(String.fromCharCode(255, 255, 255, 255, 0, 0, 0, 0)),
    buffer(JSON.stringify({ files: ["f.py"], origins: [[["op", [[0, 3]]]]] })),
    buffer(JSON.stringify({ labels: null, instructions: [null, "i1"] })),
    buffer("old"),
  ]);
  const { texts } = recorded.change!;
  assert.deepEqual([texts!.before.lines, texts!.after.lines], [["a", "old"], ["a", "new"]]); // prettier-ignore
  assert.equal(texts!.after.lineOfInstruction("i1"), 1);
  assert.equal(texts!.before.lineOfInstruction("i1"), -1);
  assert.notEqual(texts!.after.origin(1), NONE);
  assert.equal(texts!.after.origin(0), NONE);
  assert.deepEqual(topics, ["passChange"]);
});

const table = {
  entries: [
    { stage: "thunks", kernel: "", language: "text" as const },
    { stage: "LLVM IR", kernel: "b", language: "llvm" as const },
    { stage: "LLVM IR", kernel: "a", language: "llvm" as const },
    { stage: "PTX", kernel: "a", language: "ptx" as const },
  ],
  instructions: { a: ["fusion.1", "add.2", "shared"], b: ["shared"] },
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

test("a removed variant takes its recordings along", async () => {
  const recorded = new Recorded(() => undefined, new Origins());
  const state = { variant: 2, stage: "", elapsed_s: 0, error: null, receivedAt: 0 };
  recorded.receiveRecording({ type: "recording", product: "code", state: "running", ...state });
  recorded.receivePasses({ type: "passes", variant: 2, rows: [], note: "none" });
  await recorded.receiveCode({ type: "code", variant: 2, note: "" }, [buffer(JSON.stringify(table))]);
  assert.equal(recorded.recording(2, "code")?.state, "running");
  assert.equal(recorded.recording(2, "passes"), null);
  assert.equal(recorded.passes(2)?.note, "none");
  assert.equal(recorded.codes(2)?.kernels.length, 3);
  recorded.remove(2);
  assert.deepEqual([recorded.recording(2, "code"), recorded.passes(2), recorded.codes(2)], [null, null, null]);
});
