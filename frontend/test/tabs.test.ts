import assert from "node:assert/strict";
import { test } from "node:test";
import { fitting } from "../src/shell/tabs.ts";

const WIDTHS = [50, 60, 70, 40];

test("all tabs are shown if they fit, without room for a menu", () => {
  assert.deepEqual(fitting(WIDTHS, 0, 220, 30), [true, true, true, true]);
});

test("tabs that do not fit give way to the menu from the last one on", () => {
  assert.deepEqual(fitting(WIDTHS, 0, 219, 30), [true, true, true, false]);
  assert.deepEqual(fitting(WIDTHS, 0, 145, 30), [true, true, false, false]);
});

test("the selected tab is always shown", () => {
  assert.deepEqual(fitting(WIDTHS, 3, 150, 30), [true, false, false, true]);
  assert.deepEqual(fitting(WIDTHS, 2, 10, 30), [false, false, true, false]);
});
