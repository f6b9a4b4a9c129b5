// Columns that Python describes: values for sorting and copying.

import assert from "node:assert/strict";
import { test } from "node:test";
import { columnsOf } from "../src/lib/described.ts";

const HEADS = [
  { name: "sent_bytes", title: "sent bytes", tooltip: "For all runs", is_number: true },
  { name: "source", title: "source", tooltip: "", is_number: false },
];
const ROW = {
  place: "In [3]:5",
  cells: [
    { value: 1536, text: "1.5 KiB", note: "" },
    { value: "/tmp/cell.py:5", text: "/tmp/cell.py:5", note: "" },
  ],
};

test("columns have the described headings and the values of the cells", () => {
  const columns = columnsOf<typeof ROW>(HEADS);
  assert.deepEqual(
    columns.map(({ name, text, isNumber }) => [name, text, isNumber]),
    [
      ["sent_bytes", "sent bytes", true],
      ["source", "source", false],
    ],
  );
  assert.deepEqual(
    columns.map(({ value }) => value(ROW)),
    [1536, "/tmp/cell.py:5"],
  );
});

test("the values of a column can be replaced", () => {
  const columns = columnsOf<typeof ROW>(HEADS, { source: ({ place }) => place });
  assert.deepEqual(
    columns.map(({ value }) => value(ROW)),
    [1536, "In [3]:5"],
  );
});
