// Counts of one use the singular.

import assert from "node:assert/strict";
import { test } from "node:test";
import { textOf } from "../src/graph/colors.ts";
import { partiesOf } from "../src/graph/parties.ts";
import { plural } from "../src/lib/format.ts";

test("lengths of life and groups of devices", () => {
  assert.equal(textOf(1, "alive"), "1 step");
  assert.equal(textOf(1200, "alive"), "1,200 steps");
  const model = { rowOf: () => 0, path: () => [] } as unknown as Parameters<typeof partiesOf>[0];
  const group = (sizes: [number, number]): string => {
    const collective = { name: "a", axes: ["i"], group_sizes: sizes, is_pairs: false };
    return partiesOf(model, [collective as never]).texts[0]!;
  };
  assert.equal(group([1, 1]), "i: 1 device");
  assert.equal(group([8, 8]), "i: 8 devices");
  assert.equal(group([1, 2]), "i: 1 to 2 devices");
  assert.equal(plural(2000, "byte"), "2,000 bytes");
});
