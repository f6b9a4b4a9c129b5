import assert from "node:assert/strict";
import { test } from "node:test";
import { fragmentOf, placeOf } from "../src/lib/place.ts";

test("a place becomes a link, and the link becomes the place", () => {
  const place = { program: 0, pane: "optimized", variant: 1, line: null, instruction: "fusion.3/a&b" };
  assert.equal(fragmentOf(place), "#pane=optimized&variant=1&instruction=fusion.3%2Fa%26b");
  assert.deepEqual(placeOf(fragmentOf(place)), place);
  const line = { program: 2, pane: "source", variant: null, line: 12, instruction: null };
  assert.equal(fragmentOf(line), "#program=2&pane=source&line=12");
  assert.deepEqual(placeOf(fragmentOf(line)), line);
});

test("other fragments are no places", () => {
  for (const fragment of ["", "#", "#program-1", "#line=3"]) assert.equal(placeOf(fragment), null);
  assert.deepEqual(placeOf("#pane=hlo&line=x&variant=-1"), {
    program: 0,
    pane: "hlo",
    variant: null,
    line: null,
    instruction: null,
  });
});
