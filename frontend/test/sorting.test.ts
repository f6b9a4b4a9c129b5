// The order of tables, and their text for the clipboard.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Column, inOrder, tabbed } from "../src/lib/sorting.ts";

interface Row {
  readonly name: string;
  readonly flops: number | null;
}

const ROWS: readonly Row[] = [
  { name: "dot.10", flops: 5 },
  { name: "dot.9", flops: null },
  { name: "add", flops: 7 },
  { name: "mul", flops: 5 },
];
const names = (rows: readonly Row[]): string[] => rows.map(({ name }) => name);

test("equal rows stay in order, and what is not known comes last either way", () => {
  const flops: Column<Row>["value"] = (row) => row.flops;
  assert.deepEqual(names(inOrder(ROWS, flops, false)), ["dot.10", "mul", "add", "dot.9"]);
  assert.deepEqual(names(inOrder(ROWS, flops, true)), ["add", "dot.10", "mul", "dot.9"]);
  assert.deepEqual(names(ROWS), ["dot.10", "dot.9", "add", "mul"]);
});

test("numbers within names count as numbers", () => {
  assert.deepEqual(names(inOrder(ROWS, ({ name }) => name, false)), ["add", "dot.9", "dot.10", "mul"]);
});

test("the text has names, then a line a row, with an empty cell for what is not known", () => {
  const columns: Column<Row>[] = [
    { name: "name", text: "", value: ({ name }) => name },
    { name: "flops", text: "", value: ({ flops }) => flops },
    { name: "fused", text: "", value: ({ flops }) => flops === null },
  ];
  const rows = [...ROWS.slice(0, 2), { name: 'a "b"\tc', flops: 0.5 }];
  assert.equal(tabbed(columns, rows), 'name\tflops\tfused\ndot.10\t5\tFalse\ndot.9\t\tTrue\n"a ""b""\tc"\t0.5\tFalse');
});
