import assert from "node:assert/strict";
import { test } from "node:test";
import { withUnitsInHeads } from "../src/lib/units.ts";

function shown(...cells: [number | null, string][]): [string, ...string[]] {
  const head = { name: "t", title: "time", tooltip: "", is_number: true };
  const rows = cells.map(([value, text]) => ({ cells: [{ value, text, note: "" }] }));
  const table = withUnitsInHeads({ columns: [head], rows });
  return [table.columns[0]!.title, ...table.rows.map((row) => row.cells[0]!.text)];
}

test("one unit that fits all numbers is in the head", () => {
  assert.deepEqual(shown([1.82e-3, "1.82 ms"], [7.35e-6, "7.35 µs"]), ["time (µs)", "1820", "7.35"]);
  assert.deepEqual(shown([9.1e-3, "9.1 ms"], [1.03e-4, "103 µs"], [0, "0 s"]), ["time (ms)", "9.1", "0.103", "0"]);
  assert.deepEqual(shown([3 * 2 ** 20, "3 MiB"], [516 * 1024, "516 KiB"]), ["time (MiB)", "3", "0.504"]);
});

test("numbers that no unit fits keep theirs", () => {
  const cells: [number, string][] = [
    [20, "20 s"],
    [1e-6, "1 µs"],
  ];
  assert.deepEqual(shown(...cells), ["time", "20 s", "1 µs"]);
});

test("signs and unknown numbers stay, and other texts keep the column as it is", () => {
  assert.deepEqual(shown([2e-3, "≥ 2 ms"], [null, "unknown"]), ["time (ms)", "≥ 2", "unknown"]);
  assert.deepEqual(shown([2e-3, "2 ms, overlapped"]), ["time", "2 ms, overlapped"]);
  assert.deepEqual(shown([12, "12"]), ["time", "12"]);
});
