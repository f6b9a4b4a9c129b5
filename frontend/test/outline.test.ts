import assert from "node:assert/strict";
import { test } from "node:test";
import { LineCosts } from "../src/lib/linecosts.ts";
import { Outline } from "../src/lib/outline.ts";
import { Origins } from "../src/lib/origins.ts";
import { definingOf, document } from "./helpers.ts";

const HLO = `HloModule m

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  ROOT %add = f32[] add(%a, %a)
}

%fused (p: f32[8]) -> f32[8] {
  %p = f32[8] parameter(0)
  ROOT %exp = f32[8] exponential(%p)
}

%body (q: f32[8]) -> f32[8] {
  %q = f32[8] parameter(0)
  ROOT %fusion.1 = f32[8] fusion(%q), kind=kLoop, calls=%fused
}

%cond (c: f32[8]) -> pred[] {
  ROOT %c = f32[8] parameter(0)
}

ENTRY %main (x: f32[8]) -> f32[8] {
  %x = f32[8] parameter(0)
  %r = f32[] reduce(%x, %x), dimensions={0}, to_apply=%sum
  ROOT %loop = f32[8] while(%x), condition=%cond, body=%body
}`;
const lines = HLO.split("\n");
const names = lines.map((line) => /^\s+(?:ROOT )?%([\w.]+) = /.exec(line)?.[1] ?? null);
const text = document(new Origins(), "optimized", HLO, [], undefined, definingOf(HLO));
const line = (name: string): number => names.indexOf(name);

function costs(amounts: Record<string, number>): LineCosts {
  const rows = Object.entries(amounts);
  const zeros = rows.map(() => 0);
  return new LineCosts(
    "flops",
    rows.reduce((sum, [, amount]) => sum + amount, 0),
    {
      line: rows.map(([name]) => line(name)),
      phase: rows.map(() => ""),
      flops: rows.map(([, amount]) => amount),
      measured_s: zeros,
      least_s: zeros,
      main_memory_bytes: zeros,
      peak_bytes: zeros,
    },
  );
}

function rows(outline: Outline): string[] {
  return Array.from({ length: outline.length }, (_, i) => {
    const { branch, line } = outline.at(i);
    return line === null ? branch.computation.name : `- ${names[line]}`;
  });
}

test("the entry stands first, then what costs most, each with all that it runs", () => {
  const outline = new Outline(text, costs({ "fusion.1": 5, r: 7 }), new Set());
  assert.deepEqual(rows(outline), ["main", "fused", "body", "sum", "cond"]);
  const amounts = Object.fromEntries(rows(outline).map((name, i) => [name, outline.at(i).branch.amount]));
  assert.deepEqual(amounts, { main: 12, fused: 5, body: 5, sum: 0, cond: 0 });
  assert.equal(outline.instructionCount, 10);
});

test("an open computation lists its instructions, the costliest first, and a closed one none", () => {
  const open = new Set(["main"]);
  const outline = new Outline(text, costs({ "fusion.1": 5, r: 7 }), open);
  assert.deepEqual(rows(outline).slice(0, 5), ["main", "- r", "- x", "- loop", "fused"]);
  assert.equal(outline.parentOf(2), 0);
  assert.equal(outline.parentOf(0), -1);
  outline.toggle(outline.at(4).branch);
  assert.deepEqual(rows(outline).slice(4, 8), ["fused", "- p", "- exp", "body"]);
  outline.toggle(outline.at(0).branch);
  assert.deepEqual(rows(outline).slice(0, 4), ["main", "fused", "- p", "- exp"]);
  assert.deepEqual([...open], ["fused"]);
});

test("a line is found where it is listed, or at the computation that hides it", () => {
  const outline = new Outline(text, null, new Set(["main"]));
  assert.deepEqual(rows(outline).slice(0, 4), ["main", "- x", "- r", "- loop"]);
  assert.equal(outline.rowOf(line("r")), 2);
  const { branch, line: none } = outline.at(outline.rowOf(line("exp")));
  assert.deepEqual([branch.computation.name, none], ["fused", null]);
  assert.equal(outline.rowOf(0), -1);
});

test("the entry is open at first where that leaves room for others", () => {
  const outline = new Outline(text, null, new Set());
  outline.begin();
  assert.equal(rows(outline)[1], "- x");
  const many = Array.from({ length: 40 }, (_, i) => `  %n${i} = f32[] constant(0)`).join("\n");
  const large = `ENTRY %main () -> f32[] {\n${many}\n}`;
  const other = new Outline(
    document(new Origins(), "optimized", large, [], undefined, definingOf(large)),
    null,
    new Set(),
  );
  other.begin();
  assert.equal(other.length, 1);
});

test("220,000 instructions open within a moment, and rows are found without a look at all", () => {
  const count = 220_000;
  const body = Array.from({ length: count }, (_, i) => `  %n${i} = f32[] constant(0)`);
  const all = ["ENTRY %main () -> f32[] {", ...body, "}"].join("\n");
  const big = document(new Origins(), "optimized", all, [], undefined, definingOf(all));
  const outline = new Outline(big, null, new Set(["main"]));
  assert.equal(outline.length, count + 1);
  assert.equal(outline.at(count).line, count);
  assert.equal(outline.rowOf(count), count);
});
