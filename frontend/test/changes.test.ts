import assert from "node:assert/strict";
import { test } from "node:test";
import { costOf, costWords, headingWords, itemsOf, namesOf } from "../src/lib/changes.ts";
import { alignedBefore, linesBefore } from "../src/lib/diffing.ts";
import { Origins } from "../src/lib/origins.ts";
import type { ChangeMessage } from "../src/messages.ts";
import { definingOf, document, single } from "./helpers.ts";

function change(
  kind: string,
  before: string[],
  after: string[],
  what = "",
  names = before.length + after.length,
): ChangeMessage {
  return { kind, opcode: "add", before, after, names, what, line: 0 };
}

const CHANGES = [
  change("split", ["f"], ["f", "g"]),
  change("split", ["h"], ["h", "i"]),
  change("gone", ["a"], []),
  change("altered", ["x"], ["x"], "layout {1,0} → {0,1}"),
];

test("changes stand below their kinds, in order, unless these are folded", () => {
  const items = itemsOf(CHANGES, new Set(["split"]), "");
  const said = items.map((item) => ("heading" in item ? `${item.heading} ${item.count}` : item.index));
  assert.deepEqual(said, ["split 2", "gone 1", 2, "altered 1", 3]);
});

test("a filter looks at kinds, opcodes, names and words", () => {
  const found = (filter: string): number[] =>
    itemsOf(CHANGES, new Set(), filter).flatMap((item) => ("change" in item ? [item.index] : []));
  assert.deepEqual(found("split"), [0, 1]);
  assert.deepEqual(found("LAYOUT x"), [3]);
  assert.deepEqual(found("add"), [0, 1, 2, 3]);
  assert.deepEqual(found("nothing"), []);
});

test("both sides are named in one line", () => {
  assert.equal(namesOf(CHANGES[0]!), "f → f, g");
  assert.equal(namesOf(CHANGES[2]!), "− a");
  assert.equal(namesOf(change("appeared", [], ["b"])), "+ b");
  assert.equal(namesOf(CHANGES[3]!), "x");
  assert.equal(namesOf(change("split", ["f"], ["g", "h"], "", 5)), "f → g, h, 2 more");
  assert.equal(namesOf(change("altered", [], [])), "");
});

test("the cost of a change is given in bytes, else in FLOPs, else not at all", () => {
  assert.equal(costOf([10, 10, 1024, 3072]), "+2 KiB");
  assert.equal(costOf([1000, 3000, null, null]), "+2k FLOPs");
  assert.equal(costOf([1000, 1000, 8, 8]), "");
  assert.equal(costOf(undefined), "");
  assert.equal(costOf([null, 5, null, 5]), "");
  assert.equal(
    costWords([1, 2, null, 1024], "within a fusion"),
    "FLOPs 1 → 2\nBytes unknown → 1 KiB (per execution)\nwithin a fusion",
  );
});

test("a kind is counted", () => {
  assert.equal(headingWords("split", 1), "Split · 1 change");
  assert.equal(headingWords("gone", 1200), "Gone · 1,200 changes");
});

test("the text before is the one after with the lines of its hunks put back, each with its origin", () => {
  const text = ["head", "  %a = add()", "  %b = sub()", "  %c = mul()"].join("\n");
  const table = single({
    files: ["f.py"],
    origins: [
      ["x", [[0, 1]]],
      ["y", [[0, 2]]],
    ],
  });
  const lines = definingOf(text);
  const after = document(new Origins(), "optimized", text, [-1, 0, 1, 0], table, lines);
  const hunks: [number, number, number, number][] = [
    [1, 3, 1, 2],
    [4, 5, 3, 4],
  ];
  const removed = ["  %gone = neg()", "  %a = add(), old", "  ROOT %c = mul(), old"];
  const before = alignedBefore({ hunks }, after, removed.join("\n"));
  assert.deepEqual(before.lines, linesBefore(after.lines, hunks, removed));
  assert.deepEqual(before.lines, ["head", removed[0], removed[1], "  %b = sub()", removed[2]]);
  assert.deepEqual(
    before.lines.map((_, i) => before.instruction(i)),
    [null, null, "a", "b", "c"],
  );
  assert.equal(before.origin(2), after.origin(1));
  assert.equal(before.origin(1), -1);
});
