// Places of source lines.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Origins } from "../src/lib/origins.ts";

test("a source line is found by its file and number", () => {
  const origins = new Origins();
  const [first, second] = origins.add({
    files: ["a.py", "b.py"],
    libraries: [],
    origins: [[["", [[0, 1]]]], [["", [[1, 1]]]]],
    phases: [],
  });
  assert.deepEqual(origins.atInnermost(origins.placeOf("a.py", 1)), [first]);
  assert.deepEqual(origins.atInnermost(origins.placeOf("b.py", 1)), [second]);
  assert.deepEqual(origins.atInnermost(origins.placeOf("a.py", 2)), []);
  assert.deepEqual(origins.atInnermost(origins.placeOf("c.py", 1)), []);
});
