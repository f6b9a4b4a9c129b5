// The rules of sharded products, against the four cases of jax-ml.github.io/scaling-book/sharding.

import assert from "node:assert/strict";
import { test } from "node:test";
import { type Axes, bestPlan, fewestBytes, heldBytes } from "../src/lib/productcost.ts";

const MIB = 1 << 20;
/** A[i, j] of 16 MiB, B[j, k] of 16 MiB and C[i, k] of 4 MiB, over x = 4 and y = 2. */
const GAME = {
  operands: ["ij", "jk"],
  result: "ik",
  sizes: { i: 1024, j: 4096, k: 1024 },
  itemsize: 4,
  axis_names: ["x", "y"],
  axis_sizes: [4, 2],
};

function sentBy(a: Axes, b: Axes, result: Axes): [string, number][] {
  return bestPlan(GAME, { operands: [a, b], result }).sent.map(({ opcode, axis, bytes }) => [`${opcode} ${axis}`, bytes / MIB]); // prettier-ignore
}

test("whole rows and columns need no collective", () => {
  assert.deepEqual(sentBy([["x"], []], [[], ["y"]], [["x"], ["y"]]), []);
  assert.deepEqual(sentBy([["x", "y"], []], [[], []], [["x", "y"], []]), []);
});

test("partial sums are added, or scattered if the result is sharded", () => {
  assert.deepEqual(sentBy([[], ["x"]], [["x"], []], [[], []]), [["all-reduce x", 6]]);
  assert.deepEqual(sentBy([[], ["x"]], [["x"], []], [["x"], []]), [["reduce-scatter x", 3]]);
  assert.deepEqual(sentBy([["x"], ["y"]], [["y"], []], [["x"], []]), [["all-reduce y", 1]]);
});

test("an operand that is sharded along the sum alone is gathered, or the other one is sliced", () => {
  assert.deepEqual(sentBy([[], ["x"]], [[], []], [["x"], []]), [["all-to-all x", 3]]);
  assert.deepEqual(sentBy([["x"], []], [[], []], [[], []]), [["all-gather x", 3]]);
});

test("an axis on two dimensions moves, whichever way sends less", () => {
  // Gathering B would send 12 MiB.
  assert.deepEqual(sentBy([["x"], []], [["x"], []], [["x"], []]), [["all-to-all x", 3], ["reduce-scatter x", 3]]); // prettier-ignore
});

test("devices hold their parts", () => {
  const held = (a: Axes, b: Axes, result: Axes): number => heldBytes(GAME, { operands: [a, b], result }) / MIB;
  assert.equal(held([["x"], []], [[], ["y"]], [["x"], ["y"]]), 4 + 8 + 0.5);
  assert.equal(held([["x", "y"], []], [[], []], [["x", "y"], []]), 2 + 16 + 0.5);
});

test("the fewest bytes of all shardings depend on the memory", () => {
  assert.equal(fewestBytes(GAME, 12.5 * MIB), 0);
  const less = fewestBytes(GAME, 12.25 * MIB)!;
  const least = fewestBytes(GAME, 4.5 * MIB)!;
  assert.ok(less > 0 && least > less);
  assert.equal(fewestBytes(GAME, 4 * MIB), null);
});
