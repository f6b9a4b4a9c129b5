import assert from "node:assert/strict";
import { test } from "node:test";
import { Gradual, whenIdle } from "../src/lib/gradual.ts";

/** Counts to `end`, one number per piece. `counted` contains the numbers so far. */
function counting(end: number) {
  const counted: number[] = [];
  const pieces = function* (): Generator<void, string> {
    for (let i = 0; i < end; i++) yield void counted.push(i);
    return "all";
  };
  return { counted, value: new Gradual(pieces()) };
}

test("a value is made in pieces, and whoever needs it before waits for the rest alone", () => {
  const { counted, value } = counting(5);
  const pieces = value.make();
  pieces.next();
  pieces.next();
  assert.deepEqual(counted, [0, 1]);
  assert.equal(value.value, "all");
  assert.equal(value.value, "all");
  assert.deepEqual(counted, [0, 1, 2, 3, 4]);
  assert.equal(pieces.next().done, true);
});

test("tasks are done in order when there is time, none before the caller goes on", async () => {
  const [first, second] = [counting(3), counting(2)];
  whenIdle(first.value.make());
  whenIdle(second.value.make());
  assert.deepEqual(first.counted, []);
  while (second.counted.length < 2) {
    if (first.counted.length < 3) assert.deepEqual(second.counted, []);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  assert.deepEqual(first.counted, [0, 1, 2]);
});
