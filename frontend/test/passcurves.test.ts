import assert from "node:assert/strict";
import { test } from "node:test";
import { barHeight, barsPath, countsBefore, curvePath, nearest, nextOf, timeParts } from "../src/lib/passcurves.ts";
import type * as messages from "../src/messages.ts";

const counts = (instructions: number): messages.ModuleCounts => ({
  instructions,
  fusions: 0,
  written_bytes: 0,
  collectives: 0,
});

const row = (duration_s: number | null, changed: boolean, after: number | null): messages.PassRow => ({
  pipeline: "p",
  name: "n",
  changed,
  duration_s,
  reason: duration_s === null ? "not timed" : "",
  counts: after === null ? null : counts(after),
  is_step: changed,
  without: "",
  until: "",
  kept: [],
});

const list = (rows: messages.PassRow[], start: number | null = 10): messages.PassList => ({
  type: "passes",
  variant: 0,
  columns: [],
  copied: [],
  rows,
  note: "",
  start: start === null ? null : counts(start),
  times: [],
});

test("the longest pass has the full height on either scale, and a short one is still seen on the logarithmic", () => {
  assert.equal(barHeight(2, 2, 0.001, "log"), 1);
  assert.equal(barHeight(2, 2, 0.001, "linear"), 1);
  assert.equal(barHeight(0.001, 2, 0.001, "linear"), 0.0005);
  assert.ok(barHeight(0.001, 2, 0.001, "log") >= 0.04);
  assert.equal(barHeight(0, 2, 0.001, "log"), 0);
});

test("bars stand in their places, and what was not timed has none", () => {
  const rows = [row(1, true, 5), row(null, true, 5), row(0.5, false, 5)];
  assert.equal(
    barsPath(rows, (r) => r.changed, "linear"),
    "M0,1V0.0000h1V1z",
  );
  assert.equal(
    barsPath(rows, (r) => !r.changed, "linear"),
    "M2,1V0.5000h1V1z",
  );
});

test("a curve steps where a pass changed the count, its most near the top", () => {
  const path = curvePath(list([row(1, false, 10), row(1, true, 20), row(1, true, 5)]), "instructions");
  assert.equal(path, "M0,0.5300H1V0.0600H2V0.7650H3");
});

test("without counts there is no curve, and of nothing a line at the bottom", () => {
  assert.equal(curvePath(list([row(1, true, null)]), "instructions"), "");
  assert.equal(curvePath(list([row(1, true, 5)], null), "instructions"), "");
  assert.equal(curvePath(list([row(1, true, 5)]), "collectives"), "M0,1.0000H1");
});

test("steps go to the next pass that is listed, and stay at the ends", () => {
  const listed = [2, 5, 9];
  assert.deepEqual(
    [nextOf(listed, 2, 1), nextOf(listed, 3, 1), nextOf(listed, 9, 1), nextOf(listed, 2, -1), nextOf(listed, 7, -1)],
    [5, 5, 9, 2, 5],
  );
  assert.equal(nextOf([], 4, 1), 4);
});

test("a press finds the listed pass that is nearest", () => {
  assert.deepEqual(
    [0, 0.5, 0.52, 1].map((place) => nearest([0, 4, 9], 10, place)),
    [0, 4, 4, 9],
  );
});

test("before a pass there is what the one before it left, before all what was given", () => {
  const passes = list([row(1, true, 7), row(1, true, 3)]);
  assert.deepEqual(
    [0, 1].map((i) => countsBefore(passes, i)?.instructions),
    [10, 7],
  );
});

test("the known parts of the time fill the whole, in order", () => {
  const part = (name: string, duration_s: number | null): messages.CompileTimePart => ({
    name,
    where: "XLA",
    duration_s,
    reason: duration_s === null ? "why" : "",
  });
  const parts = timeParts([part("a", 1), part("b", null), part("c", 3), part("d", 0)]);
  assert.deepEqual(
    parts.map(({ part, start, share }) => [part.name, start, share]),
    [
      ["a", 0, 0.25],
      ["c", 0.25, 0.75],
    ],
  );
});
