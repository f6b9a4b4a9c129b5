import assert from "node:assert/strict";
import { test } from "node:test";
import {
  alive,
  choicesOf,
  initialChoice,
  kindsOf,
  liveAt,
  outline,
  positionAt,
  roomAt,
  shareOf,
  shares,
  sideBySide,
  treemap,
} from "../src/lib/memory.ts";

const TEXTS = ["x", "fusion.1", "fusion.2", "attention", "mlp", "argument", "temporary", "a.py:1", "", "forward"];
const BUFFERS = {
  schedule: ["p", "a", "b", "c"],
  texts: TEXTS,
  name: [0, 1, 2, 1],
  instruction: [0, 1, 2, 1],
  bytes: [100, 60, 30, 10],
  start: [0, 1, 2, 1],
  end: [3, 2, 3, 1],
  room: [0, 0, 0, 1],
  allocation: [0, 1, 1, 2],
  offset: [0, 0, 60, 0],
  kind: [5, 6, 6, 6],
  scope: [8, 3, 4, 3],
  line: [8, 7, 7, 7],
  phase: [8, 9, 9, 9],
  padding: [0, 4, 2, 0],
  left_out: 0,
};

test("what lives at a moment is what was made by then and is not gone", () => {
  assert.deepEqual(
    [0, 1, 2, 3].map((position) => alive(BUFFERS, 0, position)),
    [[0], [0, 1], [0, 1, 2], [0, 2]],
  );
  assert.deepEqual(alive(BUFFERS, 1, 1), [3]);
});

test("a result in the place of its operand is there once", () => {
  const inPlace = { ...BUFFERS, bytes: [100, 60, 60, 10], offset: [0, 0, 0, 0] };
  assert.deepEqual(alive(inPlace, 0, 2), [0, 1]);
  assert.deepEqual(alive({ ...inPlace, allocation: [0, 1, 3, 2] }, 0, 2), [0, 1, 2]);
});

test("sums have every buffer once, the largest first", () => {
  const rows = alive(BUFFERS, 0, 2);
  assert.deepEqual(
    shares(BUFFERS, rows, "kind").map(({ name, bytes, count, padding }) => [name, bytes, count, padding]),
    [
      ["argument", 100, 1, 0],
      ["temporary", 90, 2, 6],
    ],
  );
  assert.deepEqual(
    shares(BUFFERS, rows, "scope").map(({ name, bytes, row }) => [name, bytes, row]),
    [
      ["", 100, 0],
      ["attention", 60, 1],
      ["mlp", 30, 2],
    ],
  );
  for (const by of ["buffer", "scope", "line", "kind", "phase"] as const)
    assert.equal(
      shares(BUFFERS, rows, by).reduce((sum, { bytes }) => sum + bytes, 0),
      190,
    );
});

const CURVE = [
  [0, 0],
  [2, 80],
  [3, 30],
  [5, 90],
  [6, 0],
];

test("what lives at a position is what the last step before it left", () => {
  assert.deepEqual(
    [-1, 0, 2, 3, 4, 5, 6, 9].map((position) => liveAt(CURVE, position)),
    [0, 0, 80, 30, 30, 90, 0, 0],
  );
  assert.equal(liveAt([], 3), 0);
});

test("an outline has the most of each part, however coarse or fine", () => {
  assert.deepEqual(outline(CURVE, 0, 8, 8), [0, 0, 80, 30, 30, 90, 0, 0]);
  assert.deepEqual(outline(CURVE, 0, 8, 2), [80, 90]);
  assert.deepEqual(outline(CURVE, 0, 8, 1), [90]);
  assert.deepEqual(outline(CURVE, 2, 4, 4), [80, 80, 30, 30]);
  assert.deepEqual(outline(CURVE, 3.5, 4.5, 2), [30, 30]);
  assert.deepEqual(outline([], 0, 4, 2), [0, 0]);
  for (const parts of [3, 5, 7, 16]) assert.equal(Math.max(...outline(CURVE, 0, 8, parts)), 90);
});

test("a treemap fills its area in proportion, without overlaps", () => {
  const all = [60, 25, 10, 4, 1, 0].map((bytes, row) => ({ name: String(row), bytes, count: 1, padding: 0, row }));
  for (const [width, height] of [
    [400, 100],
    [100, 400],
    [37, 41],
  ] as const) {
    const tiles = treemap(all, width, height);
    assert.equal(tiles.length, 5);
    for (const { x, y, width: w, height: h, share } of tiles) {
      assert.ok(Math.abs(w * h - (share.bytes / 100) * width * height) < 1e-6);
      assert.ok(x >= -1e-9 && y >= -1e-9 && x + w <= width + 1e-6 && y + h <= height + 1e-6);
    }
    for (const a of tiles)
      for (const b of tiles)
        if (a !== b) {
          const across = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x);
          const down = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
          assert.ok(across < 1e-6 || down < 1e-6);
        }
  }
  assert.deepEqual(treemap(all, 0, 100), []);
  assert.deepEqual(treemap([], 10, 10), []);
});

const room = (name: string, isMain: boolean, bytes: number) => ({
  name,
  is_main: isMain,
  capacity_bytes: null,
  argument_bytes: bytes,
  output_bytes: 20,
  alias_bytes: 5,
  constant_bytes: 1,
  temp_bytes: 40,
  live_bytes: 30,
  untraced_bytes: 0,
  peak: 2,
  curve: [],
});

test("a position comes back from its share in schedules of every length", () => {
  for (const length of [1, 2, 3, 7, 179, 20_011])
    for (const position of [0, 1, length >> 1, length - 1].filter((each) => each < length))
      assert.equal(positionAt(shareOf(position, length), length), position);
  assert.equal(positionAt(1, 10), 9);
  assert.equal(positionAt(0, 10), 0);
});

test("main memories with other names are one choice, and the others are chosen by name", () => {
  const tpu = [room("VMEM", false, 1), room("HBM", true, 1)];
  const cpu = [room("RAM", true, 1)];
  assert.deepEqual(choicesOf([tpu, tpu]), ["VMEM", "HBM"]);
  assert.deepEqual(choicesOf([tpu, cpu]), ["VMEM", "Main memory"]);
  assert.deepEqual(
    ["VMEM", "Main memory"].map((choice) => [roomAt(tpu, choice), roomAt(cpu, choice)]),
    [
      [0, -1],
      [1, 0],
    ],
  );
});

test("the first memory shown is the main one, whose peak is in the headline, unless all temporaries are elsewhere", () => {
  const tpu = [room("VMEM", false, 100), room("HBM", true, 50)];
  assert.equal(initialChoice(["VMEM", "HBM"], tpu), "HBM");
  assert.equal(initialChoice(["VMEM", "HBM"], [tpu[0]!, { ...tpu[1]!, live_bytes: 0 }]), "VMEM");
  assert.equal(initialChoice(["RAM"], [room("RAM", false, 50)]), "RAM");
});

test("each variant has every kind of memory, or the reason why it is unknown", () => {
  const row = (key: string, value: number | null, group: "memory" | "time" = "memory") => ({
    key,
    label: key,
    group,
    unit: "bytes" as const,
    value,
    word: "",
    reason: value === null ? "not reported" : null,
    less_is_better: true,
  });
  const rows = [row("peak_bytes", 90), row("generated_code_bytes", null), row("compile_s", 1, "time")];
  const stats = { type: "stats" as const, variant: 0, rows };
  const more = { ...stats, rows: [row("peak_bytes", 80), row("host_peak_bytes", 7), row("vmem_allocated_bytes", 6)] };
  const columns = kindsOf([
    { stats, room: null, reason: "" },
    { stats: more, room: null, reason: "" },
    { stats: null, room: room("HBM", true, 100), reason: "this variant failed" },
    { stats: null, room: null, reason: "compiling" },
  ]);
  const keys = ["peak_bytes", "generated_code_bytes", "host_peak_bytes", "vmem_allocated_bytes"];
  assert.deepEqual(
    columns.map((column) => column.rows.map(({ key }) => key)),
    [keys, keys, keys, keys],
  );
  assert.deepEqual(
    columns.map((column) => column.rows.map(({ value, reason }) => value ?? reason)),
    [
      [90, "not reported", 0, "this program has no such memory"],
      [80, "this program has no such memory", 7, 6],
      [156, "this variant failed", "this variant failed", "this variant failed"],
      ["compiling", "compiling", "compiling", "compiling"],
    ],
  );
});

test("groups of variants are side by side, and those of one variant are empty in the others", () => {
  const share = (name: string, bytes: number) => ({ name, bytes, count: 1, padding: 0, row: 0 });
  const groups = sideBySide([
    [share("mlp", 60), share("attention", 30)],
    [share("attention", 90), share("loss", 10)],
  ]);
  assert.deepEqual(
    groups.map(({ name, shares: all }) => [name, ...all.map((each) => each?.bytes ?? null)]),
    [
      ["attention", 30, 90],
      ["mlp", 60, null],
      ["loss", null, 10],
    ],
  );
});
