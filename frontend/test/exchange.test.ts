import assert from "node:assert/strict";
import { test } from "node:test";
import { axesText, groupsOver, parseAxes } from "../src/lib/axisenv.ts";
import { blockName, permutation, range, statesOf } from "../src/lib/exchange.ts";
import type { ExchangeMessage, MeshMessage } from "../src/messages.ts";

/** Returns the textbook ring algorithm for `n` members: each one sends to the next. */
function ring(opcode: string, n: number): ExchangeMessage {
  const adds = opcode === "reduce-scatter";
  const shift = adds ? 1 : 0;
  const steps = range(n - 1).map((step) =>
    range(n).map((sender) => ({
      sender,
      receiver: (sender + 1) % n,
      blocks: [(sender - step - shift + 2 * n) % n],
      adds,
    })),
  );
  return { opcode, algorithm: "ring", members: n, parts: 1, steps };
}

test("a gathering ring ends with every block on every member, a scattering one with the sum of the own", () => {
  for (const n of [2, 3, 5]) {
    const gathered = statesOf(ring("all-gather", n));
    assert.equal(gathered.length, n);
    assert.deepEqual([...gathered[0]![1]!], [[1, [1]]]);
    for (const held of gathered[n - 1]!)
      assert.deepEqual(
        [...held].sort(),
        range(n).map((b) => [b, [b]]),
      );
    statesOf(ring("reduce-scatter", n))[n - 1]!.forEach((held, m) => assert.deepEqual(held.get(m), range(n)));
  }
});

test("everybody sends what it had before the step", () => {
  const [begin, end] = statesOf(permutation([[0, 1], [1, 2]], 3)); // prettier-ignore
  assert.deepEqual(begin!.map((held) => [...held.keys()]), [[0], [1], [2]]); // prettier-ignore
  assert.deepEqual(end![1]!.get(0), [0]);
  assert.equal(end![2]!.has(0), false);
});

test("blocks are named by their numbers, halves by letters, and what is for one by whom it is from", () => {
  const exchange = { ...ring("all-gather", 4), parts: 2 };
  assert.equal(blockName(exchange, 5, [0, 1, 2, 3]), "2b");
  assert.equal(blockName({ ...exchange, opcode: "all-to-all", parts: 1, members: 2 }, 1, [3, 7]), "3→7");
});

test("an axis environment is parsed, or reported as invalid", () => {
  assert.deepEqual(parseAxes("i=4, j = 2"), {
    axis_names: ["i", "j"],
    axis_sizes: [4, 2],
    kind: "replica",
    device_ids: null,
    physical_ids: null,
  });
  assert.equal(axesText(parseAxes("i=4,j=2") as MeshMessage), "i=4, j=2");
  const why = (text: string): string => parseAxes(text) as string;
  assert.match(why(""), /at least one axis/);
  assert.match(why("i"), /not an axis. Enter a name and a size/);
  assert.match(why("i=two"), /whole number/);
  assert.match(why("i=0"), /at least 1/);
  assert.match(why("i=2,i=3"), /twice/);
  assert.match(why("i=4097"), /4.?097 devices are too many/);
});

test("groups over axes are those whose ids differ along them alone, in their order", () => {
  const mesh = parseAxes("i=2,j=3") as MeshMessage;
  assert.deepEqual(groupsOver(mesh, ["j"]), [[0, 1, 2], [3, 4, 5]]); // prettier-ignore
  assert.deepEqual(groupsOver(mesh, ["i"]), [[0, 3], [1, 4], [2, 5]]); // prettier-ignore
  assert.deepEqual(groupsOver(mesh, ["j", "i"]), [[0, 3, 1, 4, 2, 5]]);
  assert.deepEqual(groupsOver(mesh, []), range(6).map((id) => [id])); // prettier-ignore
});
