import assert from "node:assert/strict";
import { test } from "node:test";
import { estimatedTime, LineCosts, shareText } from "../src/lib/linecosts.ts";

const columns = {
  line: [2, 2, 5, 9, -1],
  phase: ["forward", "backward", "forward", "", ""],
  measured_s: [3, 1, 2, 0, 4],
  least_s: [1, 2, 0, 0.5, 0.5],
  flops: [10, 30, 0, 40, 20],
  main_memory_bytes: [0, 0, 0, 0, 0],
  peak_bytes: [0, 0, 0, 0, 0],
};

test("a line's parts are summed, and what costs nothing by a measure has no entry", () => {
  const costs = new LineCosts("flops", 100, columns);
  assert.equal(costs.of(2)!.amount, 40);
  assert.deepEqual(
    costs.of(2)!.phases.map(({ phase, amount }) => [phase, amount]),
    [
      ["forward", 10],
      ["backward", 30],
    ],
  );
  assert.equal(costs.of(5), null);
  assert.equal(costs.of(3), null);
  assert.equal(costs.lost, 20);
});

test("bars are of the longest's length, shares of the whole program's", () => {
  const costs = new LineCosts("least_s", 4, columns);
  assert.equal(costs.length(costs.of(2)!), 1);
  assert.equal(costs.length(costs.of(9)!), 0.5 / 3);
  assert.equal(costs.share(costs.of(9)!.amount), "13 %");
  assert.equal(costs.describe(costs.of(9)!), "unknown phase: 500 ms, 13 % of the program");
  assert.equal(
    costs.describe(costs.of(2)!),
    "3 s, 75 % of the program\nforward: 1 s, 25 % of the program\nbackward: 2 s, 50 % of the program",
  );
});

test("the costliest come first, of equal ones the first in the text", () => {
  const lines = (count: number): number[] =>
    new LineCosts("flops", 100, columns).heaviest(count).map(({ line }) => line);
  assert.deepEqual(lines(5), [2, 9]);
  assert.deepEqual(lines(1), [2]);
});

test("measured times are seconds, and an older recording has none", () => {
  const costs = new LineCosts("measured_s", 10, columns);
  assert.deepEqual([costs.text(costs.of(2)!.amount), costs.of(5)!.amount, costs.lost], ["4 s", 2, 4]);
  const { measured_s: _, ...older } = columns;
  assert.equal(new LineCosts("measured_s", 10, older as typeof columns).of(2), null);
});

test("nothing costs anything", () => {
  const costs = new LineCosts("peak_bytes", 0, columns);
  assert.deepEqual([costs.heaviest(3), costs.lost, costs.share(0)], [[], 0, "0 %"]);
});

test("what is little is not nothing", () => {
  assert.deepEqual([0, 0.00001, 0.0123, 0.5, 1].map(shareText), ["0 %", "<0.1 %", "1.2 %", "50 %", "100 %"]);
});

test("the time of a program is told apart from the sum of its kernels' times", () => {
  const told = (least_s: number, program_s: number | null | undefined): string =>
    estimatedTime({ total: { least_s }, program_s } as Parameters<typeof estimatedTime>[0]);
  assert.equal(told(2e-6, 2e-6), "Estimated time: ≈ 2 µs");
  assert.equal(told(2e-6, undefined), "Estimated time: ≈ 2 µs"); // of older recordings
  assert.equal(told(3e-6, 2e-6), "Estimated time: ≈ 2 µs; the kernels add up to 3 µs");
});
