import assert from "node:assert/strict";
import { test } from "node:test";
import {
  format,
  formatDelta,
  formatElapsed,
  formatPercent,
  formatRate,
  formatSeconds,
  grouped,
  plural,
} from "../src/lib/format.ts";

test("numbers read as in Python's units", () => {
  assert.equal(format(0, "bytes"), "0 B");
  assert.equal(format(1023, "bytes"), "1023 B");
  assert.equal(format(1536, "bytes"), "1.5 KiB");
  assert.equal(format(78_664_240, "bytes"), "75 MiB");
  assert.equal(format(2_500_000, "count"), "2.5M");
  assert.equal(formatSeconds(0.00125), "1.25 ms");
  assert.equal(formatSeconds(0), "0 s");
  assert.equal(formatRate(197e12, "flop/s"), "197 Tflop/s");
  assert.equal(formatRate(12, "B/s"), "12 B/s");
  assert.equal(formatSeconds(4.2e-7), "420 ns");
});

// The same pairs are in tests/support/test_units.py.
test("a half is rounded as in Python's tables", () => {
  assert.equal(format(557_568, "bytes"), "545 KiB"); // 544.5
  assert.equal(format(558_592, "bytes"), "546 KiB"); // 545.5
  assert.equal(format(1_048_064, "bytes"), "1 MiB"); // 1023.5 KiB
  assert.equal(format(2_625, "count"), "2.63k");
  assert.equal(format(999.9, "count"), "1k");
  assert.equal(formatSeconds(0.0009999), "1 ms");
});

test("differences carry a sign, percentages a base", () => {
  assert.equal(formatDelta(-2048, "bytes"), "−2 KiB");
  assert.equal(formatPercent(90, 100), "−10 %");
  assert.equal(formatPercent(100.02, 100), "<0.1 %");
  assert.equal(formatPercent(5, 0), "from 0");
  assert.equal(formatPercent(0, 0), "0 %");
});

test("clocks and counts keep their shape", () => {
  assert.equal(formatElapsed(4.21), "4.2 s");
  assert.equal(formatElapsed(65), "1:05");
  assert.equal(grouped(1234567), "1,234,567");
  assert.equal(grouped(999), "999");
  assert.equal(plural(1, "line"), "1 line");
});
