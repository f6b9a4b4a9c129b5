import assert from "node:assert/strict";
import { test } from "node:test";
import { changesOf } from "../src/lib/diffing.ts";
import { coordinatesOf, gridOf, groupsText, pairsText, rowMesh } from "../src/lib/meshgrid.ts";
import { Origins } from "../src/lib/origins.ts";
import { tabulate } from "../src/lib/stats.ts";
import type { StatsRow } from "../src/messages.ts";
import { document } from "./helpers.ts";

const row = (key: string, value: number | null, less = true): StatsRow => ({
  key,
  label: key,
  group: "work",
  unit: "bytes",
  value,
  word: "",
  reason: value === null ? "not reported" : null,
  less_is_better: less,
});

test("stats are judged against what they are compared with, only where less is better and both are known", () => {
  const lines = tabulate(
    [
      { type: "stats", variant: 0, rows: [row("temp", 100), row("flops", 8, false), row("code", null)] },
      { type: "stats", variant: 1, rows: [row("temp", 50), row("flops", 4, false), row("code", 7), row("new", 1)] },
      null,
    ],
    [null, 0, 0],
  );
  const verdicts = Object.fromEntries(lines.map((l) => [l.key, l.cells.map((c) => [c.delta, c.verdict])]));
  assert.deepEqual(verdicts["temp"], [
    [null, "unknown"],
    [-50, "better"],
    [null, "unknown"],
  ]);
  assert.deepEqual(verdicts["flops"]![1], [-4, "unknown"]);
  assert.deepEqual(verdicts["code"]![1], [null, "unknown"]);
  assert.deepEqual(
    lines.map((l) => l.key),
    ["temp", "flops", "code", "new"],
  );
  assert.deepEqual(
    lines[0]!.cells.map((c) => c.share),
    [1, 0.5, 0],
  );
});

test("stats of a column with nothing to compare with have no difference, those of the next one one to it", () => {
  const columns = [100, 7, 14].map((temp, variant) => ({ type: "stats" as const, variant, rows: [row("temp", temp)] }));
  const [line] = tabulate(columns, [null, null, 1]);
  assert.deepEqual(
    line!.cells.map((c) => [c.delta, c.verdict]),
    [
      [null, "unknown"],
      [null, "unknown"],
      [7, "worse"],
    ],
  );
});

test("hunks of lines become changes that turn one text into the other", () => {
  const origins = new Origins();
  const cases: [string, string, [number, number, number, number][]][] = [
    ["a\nb\nc", "a\nx\nc", [[1, 2, 1, 2]]],
    ["a\nb\nc", "a\nc", [[1, 2, 1, 1]]],
    ["a\nb", "a\nb\nc\nd", [[2, 2, 2, 4]]],
    [
      "a\nb\nc\nd",
      "b\nC\nd\ne",
      [
        [0, 1, 0, 0],
        [2, 3, 1, 2],
        [4, 4, 3, 4],
      ],
    ],
  ];
  for (const [a, b, hunks] of cases) {
    const documents = [document(origins, "optimized", a), document(origins, "optimized", b)] as const;
    let made = "";
    let at = 0;
    for (const [fromA, toA, fromB, toB] of changesOf(hunks, ...documents)) {
      made += a.slice(at, fromA) + b.slice(fromB, toB);
      at = toA;
    }
    assert.equal(made + a.slice(at), b);
  }
});

test("every mesh position has a cell of its own", () => {
  for (const sizes of [[4], [40], [4, 2], [2, 3, 4], [2, 2, 2, 2], [1], [16, 16]]) {
    const total = sizes.reduce((a, b) => a * b, 1);
    const grid = gridOf({
      axis_names: sizes.map(String),
      axis_sizes: sizes,
      kind: "replica",
      device_ids: null,
      physical_ids: null,
    });
    assert.equal(new Set(grid.cells.map((c) => `${c.row},${c.column}`)).size, total);
    assert.ok(Math.max(...grid.cells.map((c) => c.column)) < grid.columns);
    assert.ok(Math.max(...grid.cells.map((c) => c.row)) < grid.rows);
  }
});

test("the last axis runs right, the one before it down", () => {
  const { cells } = gridOf({
    axis_names: ["data", "model"],
    axis_sizes: [4, 2],
    kind: "partition",
    device_ids: [7, 6, 5, 4, 3, 2, 1, 0],
    physical_ids: null,
  });
  assert.deepEqual(
    cells.map((c) => [c.row, c.column]),
    [
      [0, 0],
      [0, 1],
      [1, 0],
      [1, 1],
      [2, 0],
      [2, 1],
      [3, 0],
      [3, 1],
    ],
  );
  assert.deepEqual(cells[3], { ...cells[3], id: 4, coordinates: [1, 1] });
  assert.deepEqual(coordinatesOf(23, [2, 3, 4]), [1, 2, 3]);
});

test("groups are written short", () => {
  const text = (groups: number[][], is_pairs = false): string => {
    const sizes = groups.map((group) => group.length);
    const group_sizes: [number, number] = [Math.min(...sizes), Math.max(...sizes)];
    return groupsText({ groups, group_count: groups.length, group_sizes, is_pairs });
  };
  // prettier-ignore
  assert.equal(text([[0, 1], [2, 3]]), "2 × 2: {0,1} {2,3}");
  assert.equal(text([[0, 1, 2], [3]]), "2 × 1–3: {0,1,2} {3}");
  // prettier-ignore
  assert.equal(text([[0, 1], [1, 0]], true), "2 pairs: 0→1 1→0");
  assert.equal(text([]), "all devices");
  // prettier-ignore
  const cut = { groups: [[0, 1, 2, 3, 4, 5, 6, 7, 255]], group_count: 4096, group_sizes: [256, 256] as [number, number] };
  assert.equal(groupsText({ ...cut, is_pairs: false }), "4,096 × 256: {0,1,2,3,…,255} …");
  assert.deepEqual(rowMesh([3, 1, 3]).device_ids, [1, 3]);
});

test("a number known in part has no difference, on either side", () => {
  const part = { ...row("flops", 4176), reason: "1 custom call not counted" };
  const columns = [row("flops", 5000), part, row("flops", 6000)].map((r, variant) => ({
    type: "stats" as const,
    variant,
    rows: [r],
  }));
  const cells = tabulate(columns, [null, 0, 1])[0]!.cells;
  assert.deepEqual(
    cells.map((c) => [c.row!.value, c.delta, c.verdict]),
    [
      [5000, null, "unknown"],
      [4176, null, "unknown"],
      [6000, null, "unknown"],
    ],
  );
});

test("a device of a permute is told the pairs that it is in", () => {
  const pairs = [
    [3, 0],
    [0, 1],
  ];
  assert.equal(pairsText(pairs, 0), "pair 0: 3 → 0 · pair 1: 0 → 1");
  assert.equal(pairsText(pairs, 1), "pair 1: 0 → 1");
  assert.equal(pairsText(pairs, 2), "not in any pair");
});
