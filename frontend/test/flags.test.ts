import assert from "node:assert/strict";
import { test } from "node:test";
import { oneLine } from "../src/shell/flagsearch.ts";

test("flags of several lines stand in one", () => {
  assert.equal(oneLine("--xla_a=1\n--xla_b\r\n"), "--xla_a=1 --xla_b");
  assert.equal(oneLine("--xla_a=1 \\\n  --xla_b"), "--xla_a=1 --xla_b");
  assert.equal(oneLine("--xla_a='x y'"), "--xla_a='x y'");
});
