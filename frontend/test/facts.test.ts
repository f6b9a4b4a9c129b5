import assert from "node:assert/strict";
import { test } from "node:test";
import { aliveAt, aliveText, operandsOf } from "../src/lib/facts.ts";
import { Origins } from "../src/lib/origins.ts";
import type { TextDocument } from "../src/lib/documents.ts";
import { definingOf, document } from "./helpers.ts";

const HLO = `HloModule m, is_scheduled=true

%fused (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %exp = f32[8]{0} exponential(%p)
}

ENTRY %main (x: f32[8], y: f32[8]) -> (f32[8], f32[8]) {
  %x = f32[8]{0} parameter(0)
  %y = f32[8]{0} parameter(1)
  %a = f32[8]{0} fusion(%x), kind=kLoop, calls=%fused
  %pair = (f32[8]{0}, f32[8]{0}) tuple(%a, %y)
  %part = f32[8]{0} get-tuple-element(%pair), index=0
  %b = f32[8]{0} add(%x, %y)
  %c = f32[8]{0} multiply(%part, %b)
  %a.1 = f32[8]{0} negate(%c)
  %d = f32[8]{0} add(%b, %a.1)
  ROOT %out = (f32[8]{0}, f32[8]{0}) tuple(%d, %b)
}`;

function read(text: string): { text: TextDocument; line: (name: string) => number } {
  const names = text.split("\n").map((line) => /^\s+(?:ROOT )?%([\w.]+) = /.exec(line)?.[1] ?? null);
  const made = document(new Origins(), "optimized", text, [], undefined, definingOf(text));
  return { text: made, line: (name) => names.indexOf(name) };
}

const { text, line } = read(HLO);

test("operands are told with the shapes of what they name", () => {
  assert.deepEqual(operandsOf(text, line("c")), ["%part: f32[8]{0}", "%b: f32[8]{0}"]);
  assert.deepEqual(operandsOf(text, line("part")), ["%pair: (f32[8]{0}, f32[8]{0})"]);
  assert.deepEqual(operandsOf(text, line("x")), []);
  assert.deepEqual(operandsOf(text, 0), []);
  const many = read(
    `ENTRY %m () -> f32[] {\n  %a = f32[] constant(0)\n  %t = () tuple(${Array(11).fill("%a").join(", ")})\n}`,
  );
  assert.equal(operandsOf(many.text, 2).at(-1), "3 more");
});

test("a value is alive until its last use, under every name", () => {
  const alive = (name: string): [number, number] | null => {
    const found = aliveAt(text, line(name));
    return found && [found.from, found.to];
  };
  assert.deepEqual(alive("a"), [2, 6]); // a part of its tuple is an operand of multiply
  assert.deepEqual(alive("x"), [0, 5]);
  assert.deepEqual(alive("c"), [6, 7]);
  assert.deepEqual(alive("b"), [5, 9]); // returned in the root tuple
  assert.deepEqual(alive("out"), [9, 9]);
  assert.equal(alive("exp"), null); // inside a fusion
  assert.equal(aliveText(aliveAt(text, line("a"))!), "steps 2 to 6 of 10 (5 steps)");
});

test("without a schedule nobody knows", () => {
  const other = read(HLO.replace(", is_scheduled=true", ""));
  assert.equal(aliveAt(other.text, other.line("a")), null);
});

test("a value of 20,000 instructions is followed within a moment", () => {
  const rows = Array.from({ length: 20_000 }, (_, i) => `  %n${i} = f32[8]{0} add(%first, %n${Math.max(0, i - 1)})`);
  const large = read(
    `HloModule m, is_scheduled=true\n\nENTRY %m () -> f32[8] {\n  %first = f32[8]{0} parameter(0)\n${rows.join("\n")}\n}`,
  );
  assert.equal(aliveAt(large.text, large.line("first"))!.to, 20_000);
});
