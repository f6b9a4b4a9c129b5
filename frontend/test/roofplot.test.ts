import assert from "node:assert/strict";
import { test } from "node:test";
import { attainable, decade, rangeOf, ridge } from "../src/lib/roofplot.ts";

const ROOFS = { flops_per_s: 2e14, memory_bytes_per_s: 8e11 };
const SLOPE = { flops_per_s: null, memory_bytes_per_s: 8e11 };

test("below the ridge memory bounds, above it arithmetic", () => {
  assert.equal(ridge(ROOFS), 250);
  assert.equal(attainable(ROOFS, 10), 8e12);
  assert.equal(attainable(ROOFS, 1000), 2e14);
  assert.equal(ridge(SLOPE), null);
  assert.equal(attainable(SLOPE, 1000), 8e14);
});

test("the ridge and every kernel lie within the range, whatever is 0", () => {
  for (const intensities of [[], [0], [0.001, 0, 40], [1e6], [250]]) {
    const range = rangeOf(ROOFS, intensities, []);
    for (const each of [250, ...intensities.filter(Boolean)]) {
      assert.ok(range.left <= Math.log10(each) && Math.log10(each) <= range.right, String(intensities));
      const rate = Math.log10(attainable(ROOFS, each));
      assert.ok(range.bottom <= rate && rate <= range.top, String(intensities));
    }
    assert.ok(Object.values(range).every(Number.isInteger));
  }
});

test("powers of ten read as people write them", () => {
  assert.deepEqual([-3, -1, 0, 2, 3, 5, 14, 20].map(decade), [
    "0.001",
    "0.1",
    "1",
    "100",
    "1k",
    "100k",
    "100T",
    "100E",
  ]);
});

test("achieved rates far below or above the roofs lie within the range", () => {
  const { bottom, top } = rangeOf(ROOFS, [1, 10], [0, 3e4, 7e16]);
  assert.ok(bottom <= Math.log10(3e4) && Math.log10(7e16) <= top);
});
