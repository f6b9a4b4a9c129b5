import assert from "node:assert/strict";
import { test } from "node:test";
import { ByComputation } from "../src/lib/bycomputation.ts";
import { ByScope } from "../src/lib/byscope.ts";
import { LineCosts, type Measure } from "../src/lib/linecosts.ts";
import { type Arrangement, Outline } from "../src/lib/outline.ts";
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

%old (o: f32[8]) -> f32[8] {
  ROOT %o = f32[8] parameter(0)
}

ENTRY %main (x: f32[8]) -> f32[8] {
  %x = f32[8] parameter(0)
  %r = f32[] reduce(%x, %x), dimensions={0}, to_apply=%sum
  %loop = f32[8] while(%x), condition=%cond, body=%body
  %again = f32[8] while(%loop), condition=%cond, body=%body
  ROOT %neg = f32[8] negate(%again)
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

function outlineOf(arrangement: Arrangement, measure: Measure | null = null, open = new Set<string>()): Outline {
  return new Outline(arrangement, measure, open);
}

function byComputation(amounts: Record<string, number> = {}, measure: Measure | null = null): Outline {
  const known = costs(amounts);
  return outlineOf(new ByComputation(text, (asked) => (asked === "flops" ? known : null)), measure);
}

function rows(outline: Outline): string[] {
  return Array.from({ length: outline.length }, (_, i) => {
    const { name, line } = outline.at(i);
    return "-".repeat(outline.level(i) - 1) + (name || names[line]);
  });
}

function toggle(outline: Outline, row: string): void {
  outline.toggle(rows(outline).indexOf(row));
}

test("the entry lists what works in the order of the text, the rest in a group, and what nothing calls follows", () => {
  const outline = byComputation();
  assert.deepEqual(rows(outline), ["main", "old"]);
  outline.begin();
  const all = ["main", "-r", "-loop", "-again", "-neg", "-parameters, tuples …", "old"];
  assert.deepEqual(rows(outline), all);
  assert.deepEqual([outline.at(0).note, outline.at(6).note], ["ENTRY", "never called"]);
  assert.deepEqual([outline.isOpen(0), outline.isOpen(1), outline.isOpen(4)], [true, false, null]);
  toggle(outline, "-parameters, tuples …");
  assert.deepEqual(rows(outline).slice(5), ["-parameters, tuples …", "--x", "old"]);
});

test("fusions and loops are under their callers, and a loop's body under each of them", () => {
  const outline = byComputation();
  outline.begin();
  toggle(outline, "-r");
  toggle(outline, "-again");
  toggle(outline, "--body");
  toggle(outline, "---fusion.1");
  assert.deepEqual(rows(outline), [
    "main", "-r", "--a", "--add", "-loop", "-again", "--cond", "--body", "---fusion.1", "----p", "----exp",
    "---parameters, tuples …", "-neg", "-parameters, tuples …", "old",
  ]); // prettier-ignore
  assert.equal(outline.parentOf(9), 8);
  assert.equal(outline.parentOf(0), -1);
  assert.equal(outline.at(7).note, "body, called 2 times: cost of all calls");
  toggle(outline, "-loop");
  assert.deepEqual(rows(outline).slice(4, 8), ["-loop", "--cond", "--body", "-again"]);
});

test("a row costs what it contains, and rows are sorted by it on request", () => {
  const outline = byComputation({ "fusion.1": 5, r: 7 }, "flops");
  outline.begin();
  assert.deepEqual(rows(outline).slice(0, 6), ["main", "-r", "-loop", "-again", "-neg", "-parameters, tuples …"]);
  const amount = (row: number): number => outline.arrangement.amount(outline.at(row), "flops");
  assert.deepEqual([0, 1, 2, 3, 4].map(amount), [12, 7, 5, 5, 0]);
  const other = byComputation({ "fusion.1": 5, neg: 7 }, "flops");
  other.begin();
  assert.equal(rows(other)[1], "-neg");
});

test("a line is found where it is listed, or at the row that hides it", () => {
  const outline = byComputation();
  assert.equal(rows(outline)[outline.rowOf(line("exp"))], "main");
  outline.begin();
  const found = (name: string): string => rows(outline)[outline.rowOf(line(name))]!;
  assert.deepEqual(["neg", "exp", "x", "a"].map(found), ["-neg", "-loop", "-parameters, tuples …", "-r"]);
  toggle(outline, "-loop");
  toggle(outline, "--body");
  assert.equal(found("exp"), "---fusion.1");
  assert.equal(outline.rowOf(0), -1);
});

test("computations that call each other in a damaged text end", () => {
  const damaged = `%a (x: f32[]) -> f32[] {\n  ROOT %c = f32[] call(%x), to_apply=%b\n}\n
%b (x: f32[]) -> f32[] {\n  ROOT %d = f32[] call(%x), to_apply=%a\n}\n
ENTRY %m (x: f32[]) -> f32[] {\n  ROOT %e = f32[] call(%x), to_apply=%a\n}`;
  const broken = document(new Origins(), "optimized", damaged, [], undefined, definingOf(damaged));
  const outline = outlineOf(new ByComputation(broken, () => null));
  outline.begin();
  for (const row of [1, 2]) outline.toggle(row);
  assert.deepEqual(
    [1, 2, 3].map((row) => outline.isOpen(row)),
    [true, true, null],
  );
});

const SCOPES = [["forward", "model", "layer 0"], ["forward", "model", "layer 1"], ["backward", "model", "layer 1"], ["rest"], [""]]; // prettier-ignore
const KERNELS = ["r", "fusion.1", "fusion.1", "neg", null, null];

function columnsOf(scopes: string[][], scope: number[], kernels: readonly (string | null)[]) {
  const zeros = kernels.map(() => 0);
  const amounts = kernels.map((_, i) => 2 ** i);
  const numbers = kernels.map((name) => (name === null ? -1 : line(name)));
  return { scopes, scope, line: numbers, measured_s: zeros, least_s: amounts, flops: zeros, main_memory_bytes: zeros, peak_bytes: zeros }; // prettier-ignore
}

test("phases and scopes are nested with the kernels in them, and cost what these do", () => {
  const scoped = new ByScope(text, columnsOf(SCOPES, [0, 1, 2, 3, 1, 4], KERNELS));
  assert.ok(scoped.hasScopes);
  const outline = outlineOf(scoped);
  assert.deepEqual(rows(outline), ["forward", "backward", "rest", "unknown"]);
  const amounts = Array.from({ length: 4 }, (_, i) => scoped.amount(outline.at(i) as never, "least_s"));
  assert.deepEqual(amounts, [1 + 2 + 16, 4, 8, 32]);
  assert.deepEqual(
    [0, 1, 2].map((row) => outline.at(row).note),
    ["3 kernels", "1 kernel", "not differentiated, 1 kernel"],
  );
  outline.begin();
  assert.deepEqual(rows(outline).slice(0, 7), [
    "forward", "-model", "--layer 0", "--layer 1", "backward", "-model", "--layer 1",
  ]); // prettier-ignore
  toggle(outline, "--layer 1");
  assert.deepEqual(rows(outline).slice(3, 5), ["--layer 1", "---fusion.1"]);
  assert.equal(rows(outline)[outline.rowOf(line("exp"))], "---fusion.1");
  assert.equal(rows(outline)[outline.rowOf(line("r"))], "--layer 0");
  assert.equal(outline.rowOf(line("x")), -1);
  const sorted = outlineOf(scoped, "least_s", new Set(["forward", "forward\nmodel"]));
  assert.deepEqual(rows(sorted), ["unknown", "forward", "-model", "--layer 1", "--layer 0", "rest", "backward"]);
});

test("a scope is where its most expensive kernel is", () => {
  const kernels = ["r", "fusion.1", "neg", "exp", "add"];
  const scoped = new ByScope(
    text,
    columnsOf([["rest", "late"], ["rest", "early"], ["rest"]], [0, 1, 2, 0, 0], kernels),
  );
  assert.deepEqual(rows(outlineOf(scoped)), ["early", "neg", "late"]);
});

test("without phases the scopes come first, and without scopes the kernels", () => {
  const scoped = new ByScope(text, columnsOf([["rest", "a"], ["rest"]], [0, 1], ["r", "neg"]));
  assert.deepEqual(rows(outlineOf(scoped)), ["a", "neg"]);
  const plain = new ByScope(text, columnsOf([["rest"]], [0], ["neg"]));
  assert.ok(!plain.hasScopes);
  assert.deepEqual(rows(outlineOf(plain)), ["neg"]);
});

test("200,000 instructions open within a moment", () => {
  const count = 200_000;
  const fusions = 20_000;
  const fused = Array.from({ length: fusions }, (_, i) => [`%f${i} (p: f32[]) -> f32[] {`, ...Array.from({ length: 8 }, (_, j) => `  %f${i}.${j} = f32[] negate(%p)`), "}", ""]).flat(); // prettier-ignore
  const body = Array.from({ length: fusions }, (_, i) => `  %n${i} = f32[] fusion(%x), calls=%f${i}`);
  const rest = Array.from({ length: count - 9 * fusions }, (_, i) => `  %m${i} = f32[] exponential(%x)`);
  const all = [...fused, "ENTRY %main () -> f32[] {", ...body, ...rest, "}"].join("\n");
  const big = document(new Origins(), "optimized", all, [], undefined, definingOf(all));
  const arrangement = new ByComputation(big, () => null);
  const outline = outlineOf(arrangement);
  const start = performance.now();
  outline.begin();
  assert.equal(outline.length, 1 + body.length + rest.length);
  outline.toggle(1);
  assert.equal(outline.length, 9 + body.length + rest.length);
  const last = big.lines.length - 2;
  assert.equal(outline.rowOf(last), outline.length - 1);
  assert.ok(performance.now() - start < 2000);
  const kernels = Array.from({ length: count }, (_, i) => fused.length + 1 + (i % body.length));
  const zeros = kernels.map(() => 1);
  const scopes = Array.from({ length: 500 }, (_, i) => ["forward", "model", `layer ${i >> 2}`, `part ${i}`]);
  const again = performance.now();
  const scoped = new ByScope(big, { scopes, scope: kernels.map((_, i) => i % 500), line: kernels, measured_s: zeros, least_s: zeros, flops: zeros, main_memory_bytes: zeros, peak_bytes: zeros }); // prettier-ignore
  const tree = outlineOf(scoped);
  tree.begin();
  assert.equal(tree.length, 2 + 125);
  assert.ok(performance.now() - again < 2000);
});
