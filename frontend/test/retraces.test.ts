import assert from "node:assert/strict";
import { test } from "node:test";
import { COLUMNS, differences } from "../src/lib/retraces.ts";
import { Origins } from "../src/lib/origins.ts";
import { tabbed } from "../src/lib/sorting.ts";
import type * as messages from "../src/messages.ts";

const row = (changes: messages.RetraceChange[], more: Partial<messages.RetraceRow> = {}): messages.RetraceRow => ({
  function: "step",
  event: "trace",
  is_explored: true,
  defined_at: { file: "/home/me/train.py", line: 3, library: "" },
  called_at: { file: "/home/me/train.py", line: 12, library: "" },
  call: "step(x)",
  cause: "arguments",
  remark: "",
  changes,
  count: 2,
  explanation: "TRACING CACHE MISS",
  ...more,
});
const shape = { what: "shape", where: "x", now: "f32[4]", before: "f32[3]" };
const dtype = { what: "dtype", where: "y", now: "i32[]", before: "f32[]" };

test("each thing that differed is a row, and a call without any has its cause", () => {
  const again = row([], { cause: "defined again", remark: "define it once", called_at: null });
  const found = differences([row([shape, dtype]), again]);
  assert.deepEqual(
    found.map(({ what, where, now, before }) => [what, where, now, before]),
    [
      ["shape", "x", "f32[4]", "f32[3]"],
      ["dtype", "y", "i32[]", "f32[]"],
      ["defined again", "", "define it once", ""],
    ],
  );
  const [head, first, , last] = tabbed(COLUMNS, found).split("\n");
  assert.equal(head, "function\tcalled_at\tcount\tevent\twhat\twhere\tnow\tbefore");
  assert.equal(first, "step\ttrain.py:12\t2\ttrace\tshape\tx\tf32[4]\tf32[3]");
  assert.equal(last, "step\t\t2\ttrace\tdefined again\t\tdefine it once\t");
});

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
