import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import type * as messages from "../src/messages.ts";
import { anchorAt, CHOSEN, Local } from "../src/state/local.ts";
import { Synced } from "../src/state/synced.ts";

const noTraits = { get: () => undefined, set: () => undefined, save_changes: () => undefined };

/** A model whose Python side is the test. */
function connect() {
  const sent: messages.FromBrowser[] = [];
  let receive: (content: unknown, buffers: unknown) => void = () => undefined;
  const synced = new Synced({
    on: (name, callback) => {
      if (name === "msg:custom") receive = callback as unknown as typeof receive;
    },
    off: () => undefined,
    send: (content) => sent.push(content as messages.FromBrowser),
    ...noTraits,
  });
  synced.start();
  const emit = (content: object, buffers: Uint8Array[] = []) =>
    receive(
      content,
      buffers.map((b) => new DataView(b.buffer, b.byteOffset, b.byteLength)),
    );
  return { synced, sent, emit };
}

const variant = (number: number, state: messages.State = "done") => ({
  type: "variant",
  variant: number,
  label: `v${number}`,
  target: "cpu",
  platform: "cpu",
  options: {},
  state,
  stage: "",
  elapsed_s: 1,
  error: null,
  cached: "",
  origin: "",
  timing: "",
  warnings: [],
  pinned: false,
  no_run: "",
});

/** A text whose lines define `i0`, `i1` and so on. */
function documentMessage(pane: messages.TextPane, variantNumber: number | null, text: string): [object, Uint8Array[]] {
  const lines = text.split("\n").map((line, i) => `  i${i} = ${line}`);
  const tables = [
    lines.join("\n"),
    new Uint8Array(Int32Array.from(lines, (_, i) => i).buffer),
    JSON.stringify({ files: ["f.py"], origins: lines.map((_, i) => [[`op${i}`, [[0, i + 1]]]]) }),
    JSON.stringify({ labels: null }),
    new Uint8Array(lines.length).fill(1),
  ];
  const content = {
    type: "document",
    pane,
    variant: variantNumber,
    language: "hlo",
    title: "",
    line_count: lines.length,
  };
  return [content, tables.map((t) => gzipSync(t))];
}

const settled = () => new Promise((resolve) => setTimeout(resolve, 50));

/** Waits until buffers are unpacked, also on a busy machine. */
async function until(holds: () => boolean): Promise<void> {
  for (let round = 0; round < 400 && !holds(); round++) await settled();
}

test("the browser says ready once, with a name that replies carry", () => {
  const { sent, synced, emit } = connect();
  assert.equal(sent.length, 1);
  const { browser } = sent[0] as messages.Ready;
  emit({ ...variant(0), to: "somebody else" });
  assert.equal(synced.variants.size, 0);
  emit({ ...variant(0), to: browser });
  emit(variant(1));
  assert.deepEqual([...synced.variants.keys()], [0, 1]);
  assert.equal(synced.baseline, 0);
});

test("documents unpack, and a variant's own comes before the shared one", async () => {
  const { synced, emit } = connect();
  emit(...documentMessage("hlo", null, "shared"));
  emit(...documentMessage("hlo", 2, "own\ntwo"));
  await until(() => !!synced.document("hlo", 1) && synced.document("hlo", 2)?.lines.length === 2);
  assert.deepEqual(synced.document("hlo", 1)?.lines, ["  i0 = shared"]);
  assert.deepEqual(synced.document("hlo", 2)?.lines, ["  i0 = own", "  i1 = two"]);
  assert.equal(synced.document("hlo", 2)?.instruction(1), "i1");
});

test("of two documents for one slot the later stays, whichever unpacks first", async () => {
  const { synced, emit } = connect();
  emit(...documentMessage("hlo", null, "x\n".repeat(200_000)));
  emit(...documentMessage("hlo", null, "new"));
  await until(() => synced.document("hlo", null)?.lines.length === 1);
  await settled();
  assert.deepEqual(synced.document("hlo", null)?.lines, ["  i0 = new"]);
  emit({ type: "unavailable", pane: "hlo", variant: null, reason: "gone", remedy: "" });
  assert.equal(synced.document("hlo", null), null);
});

test("a removed variant takes everything of its own along", async () => {
  const { synced, emit } = connect();
  emit(variant(0));
  emit(variant(1));
  emit(...documentMessage("optimized", 1, "a"));
  emit({ type: "stats", variant: 1, rows: [] });
  emit({ type: "diff", baseline: 0, variant: 1, hunks: [], summary: "" });
  await until(() => !!synced.document("optimized", 1));
  emit({ type: "variant_removed", variant: 1 });
  assert.deepEqual([...synced.variants.keys()], [0]);
  assert.equal(synced.document("optimized", 1), null);
  assert.equal(synced.latest("diff", { baseline: 0, variant: 1 }), null);
  assert.equal(synced.has("stats"), false);
});

test("selecting an instruction from a graph selects its origin in every text", async () => {
  const { synced, sent, emit } = connect();
  emit(variant(0));
  emit(...documentMessage("optimized", 0, "a\nb\nc"));
  await until(() => !!synced.document("optimized", 0));
  const local = new Local(synced);
  local.setActive(0);
  local.selectInstruction("graph", "optimized", "i1");
  const text = synced.document("optimized", 0)!;
  assert.deepEqual([...local.matches(text)!.strong], [1]);
  assert.equal(local.levelOfInstruction("optimized", "i1"), CHOSEN);
  assert.equal(local.levelOfInstruction("optimized", "i2"), 0);
  await new Promise((resolve) => setTimeout(resolve, 250));
  const last = sent.at(-1) as messages.SelectionChanged;
  assert.deepEqual(last.selection, {
    pane: "graph",
    variant: 0,
    file: "f.py",
    line: 2,
    origin: "op1",
    instruction: "i1",
  });
});

test("a selection is told to Python at most once in 200 ms, the last one last", async () => {
  const { synced, sent, emit } = connect();
  emit(...documentMessage("hlo", null, "a\nb\nc\nd"));
  await until(() => !!synced.document("hlo", null));
  const local = new Local(synced);
  const text = synced.document("hlo", null)!;
  for (let line = 0; line < 4; line++) local.select(anchorAt(text, line));
  await new Promise((resolve) => setTimeout(resolve, 300));
  const told = sent.filter((m) => m.type === "select");
  assert.equal(told.length, 1);
  assert.equal(told[0]!.selection?.line, 4);
});

test("origins that come after a selection are linked to it", async () => {
  const { synced, emit } = connect();
  emit(...documentMessage("hlo", null, "a\nb"));
  await until(() => !!synced.document("hlo", null));
  const local = new Local(synced);
  local.select(anchorAt(synced.document("hlo", null)!, 1));
  emit(...documentMessage("optimized", null, "x\ny\nz"));
  await until(() => !!synced.document("optimized", null));
  assert.deepEqual([...local.matches(synced.document("optimized", null)!)!.strong], [1]);
});

test("a variant is compared with the first one for its target, once that is known, else with the baseline", () => {
  const { synced, emit, sent } = connect();
  const local = new Local(synced);
  const diff = (baseline: number, number: number) =>
    emit({ type: "diff", baseline, variant: number, hunks: [], summary: "" });
  emit(variant(0));
  for (const number of [1, 2]) emit({ ...variant(number), target: "tpu:v5e:2x4", platform: "tpu" });
  emit(variant(3));
  assert.deepEqual(
    [0, 1, 2, 3].map((v) => local.referenceOf(v)),
    [0, 0, 0, 0],
  );
  diff(0, 1);
  diff(0, 2);
  diff(1, 2);
  diff(0, 3);
  assert.deepEqual(
    [0, 1, 2, 3].map((v) => local.referenceOf(v)),
    [0, 0, 1, 0],
  );
  assert.deepEqual(
    [0, 1, 2, 3].map((v) => local.sameTargetReferenceOf(v)),
    [null, null, 1, 0],
  );
  local.setReference(3, 2);
  assert.deepEqual(sent.at(-1), { type: "compare", baseline: 2, variant: 3 });
  assert.deepEqual([local.referenceOf(3), local.sameTargetReferenceOf(3)], [2, null]);
  local.setReference(2, 0);
  assert.equal(sent.length, 2, "the difference is known");
  emit({ type: "variant_removed", variant: 2 });
  assert.equal(local.referenceOf(3), 0, "the choice is gone");
  emit({ ...variant(2), target: "tpu:v5e:2x4", platform: "tpu" });
  diff(1, 2);
  emit({ type: "variant_removed", variant: 1 });
  assert.equal(local.referenceOf(2), 0);
  assert.equal(local.sameTargetReferenceOf(2), null);
});

test("variants stand side by side where there are several, or where several are to come", () => {
  const { synced, emit } = connect();
  const local = new Local(synced);
  const session = { type: "session", version: 1, name: "f", panes: [], height_px: 640 };
  emit({ ...session, side_by_side: false });
  emit(variant(0));
  local.setOptimizedView("columns");
  assert.equal(local.isSideBySide, false);
  emit({ ...session, side_by_side: true });
  assert.equal(local.isSideBySide, true);
  emit({ ...session, side_by_side: false });
  emit(variant(1));
  assert.equal(local.isSideBySide, true);
  local.setOptimizedView("unified");
  assert.equal(local.isSideBySide, false);
  assert.equal(local.withoutComparison, "columns");
});

test("a column that is taken away comes back with its variant's turn", () => {
  const { synced, emit } = connect();
  const local = new Local(synced);
  for (const number of [0, 1, 2]) emit(variant(number));
  local.setActive(1);
  local.hideColumn(1);
  assert.deepEqual(local.columns, [0, 2]);
  assert.equal(local.active, 0);
  local.setActive(1);
  assert.deepEqual(local.columns, [0, 1, 2]);
});

test("instructions of one name in two variants are two", async () => {
  const { synced, emit } = connect();
  const local = new Local(synced);
  for (const number of [0, 1]) {
    emit(variant(number));
    emit(...documentMessage("optimized", number, number ? "a\nb" : "other\nlines\nhere"));
  }
  await until(() => !!synced.document("optimized", 0) && !!synced.document("optimized", 1));
  local.setActive(0);
  local.select(anchorAt(synced.document("optimized", 0)!, 1));
  assert.equal(local.levelOfInstruction("optimized", "i1"), CHOSEN);
  local.setActive(1);
  assert.notEqual(local.levelOfInstruction("optimized", "i1"), CHOSEN);
});

test("a kernel that cannot be reached is gone", () => {
  const synced = new Synced({
    on: () => undefined,
    off: () => undefined,
    send: () => {
      throw new Error("closed");
    },
    ...noTraits,
  });
  synced.start();
  assert.equal(synced.notebookKernel, "gone");
});

test("what was under way when the kernel went has failed, and says so", () => {
  const { synced, emit } = connect();
  emit(variant(0));
  emit(variant(1, "running"));
  emit({ type: "run", variant: 0, state: "queued", stage: "", elapsed_s: 1, error: null, result: null });
  emit({ type: "recording", variant: 0, product: "passes", state: "running", stage: "x", elapsed_s: 1, error: null });
  const told: string[] = [];
  synced.signal.on(["variant", "run", "recording"], () => void told.push("told"));
  synced.setNotebookKernel("gone");
  const ended = [
    synced.variants.get(1)!,
    synced.latest("run", { variant: 0 })!,
    synced.latest("recording", { variant: 0, product: "passes" })!,
  ];
  for (const { state, error, stage } of ended) {
    assert.deepEqual([state, stage], ["failed", ""]);
    assert.match(`${error?.kind} ${error?.message}`, /kernel is gone.*Run the cell again/);
  }
  assert.equal(synced.variants.get(0)!.state, "done");
  assert.ok(told.length >= 3);
});

test("of messages with buffers the latest of its kind is kept, unpacked, until its variant goes", async () => {
  const { synced, emit } = connect();
  const code = (number: number, note: string, body: string): void =>
    emit({ type: "code", variant: number, note }, [gzipSync(body)]);
  const noteOf = (number: number): string | undefined => synced.latest("code", { variant: number })?.note;
  emit(variant(2));
  code(1, "other", "[]");
  code(2, "first", `"${"x".repeat(3_000_000)}"`);
  code(2, "second", "[]");
  await until(() => noteOf(2) === "second" && noteOf(1) === "other");
  await settled();
  assert.equal(noteOf(2), "second");
  assert.equal(new TextDecoder().decode(synced.parts(synced.latest("code", { variant: 2 })!)[0]), "[]");
  code(2, "late", "[]");
  emit({ type: "variant_removed", variant: 2 });
  await settled();
  assert.deepEqual([noteOf(2), noteOf(1)], [undefined, "other"]);
});

test("a reply is given to whoever asked for it", () => {
  const { synced, emit } = connect();
  const reply = (id: number): void =>
    emit({ type: "instruction_table", id, variant: 0, columns: [], rows: [], total: id, error: null });
  reply(7);
  assert.equal(synced.reply("instruction_table", 7)?.total, 7);
  assert.equal(synced.reply("instruction_table", 8), null);
  reply(8);
  const totals = [7, 8].map((id) => synced.reply("instruction_table", id)?.total);
  assert.deepEqual(totals, [undefined, 8]);
});

test("two browsers on one kernel do not take each other's replies", () => {
  const [one, other] = [connect(), connect()];
  const ids = [one, one, other].map(({ synced }) => synced.ask({ type: "flags", search: "fuse", target: "" }));
  assert.equal(new Set(ids).size, 3);
  assert.deepEqual(one.sent.at(-1), { type: "flags", search: "fuse", target: "", id: ids[1] });
  const flags = { type: "flags", id: ids[1], rows: [], total: 0, note: "" };
  for (const { emit } of [one, other]) emit(flags);
  assert.equal(one.synced.reply("flags", ids[1]!)?.id, ids[1]);
  assert.equal(other.synced.reply("flags", ids[2]!), null);
});

test("where Python wants the reader to look is gone to once it is there", async () => {
  const { synced, emit } = connect();
  const local = new Local(synced);
  emit({ type: "focus", pane: "optimized", variant: 1, line: null, instruction: "i2" });
  assert.equal(local.selection, null);
  emit(variant(0));
  emit(variant(1));
  assert.equal(local.active, null);
  emit(...documentMessage("optimized", 1, "a\nb\nc"));
  await until(() => local.selection !== null);
  assert.deepEqual(
    [local.active, local.revealed, local.selection!.line, local.selection!.instruction],
    [1, "optimized", 2, "i2"],
  );
  local.select(null);
  emit(variant(0));
  assert.equal(local.selection, null); // only once
  emit({ type: "focus", pane: "optimized", variant: null, line: 1, instruction: null });
  assert.equal(local.selection!.line, 0);
  emit({ type: "focus", pane: "stats", variant: null, line: null, instruction: null });
  assert.deepEqual([local.revealed, local.selection!.line], ["stats", 0]);
});

test("back and forward go through what was selected, steps to the next line apart", async () => {
  const { synced, emit } = connect();
  const local = new Local(synced);
  emit(variant(0));
  emit(...documentMessage("optimized", 0, "a\nb\nc\nd\ne"));
  await until(() => !!synced.document("optimized", 0));
  const at = (line: number): void => local.select(anchorAt(synced.document("optimized", 0)!, line));
  const line = (): number => local.selection?.line ?? -1;
  at(0);
  at(3);
  at(4);
  local.back();
  assert.equal(line(), 0); // 3 and 4 are neighbors
  local.back();
  assert.equal(line(), 0);
  local.forward();
  assert.equal(line(), 4);
  at(1);
  local.forward();
  assert.equal(line(), 1); // a new selection has no next one
});
