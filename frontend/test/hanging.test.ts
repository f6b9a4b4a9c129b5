import assert from "node:assert/strict";
import { test } from "node:test";

import { hang } from "../src/lib/hanging.ts";

test("what follows of a wrapped line stands further in than its beginning", () => {
  assert.equal(hang("%a = f32[] add(%b, %c)"), 4);
  assert.equal(hang("    %a = f32[] add(%b, %c)"), 8);
  assert.equal(hang(""), 4);
});

test("a line that begins far to the right leaves room", () => {
  assert.equal(hang(" ".repeat(90) + "x"), 44);
});
