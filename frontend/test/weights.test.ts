import assert from "node:assert/strict";
import { test } from "node:test";
import { Origins } from "../src/lib/origins.ts";
import { heaviest, weigh } from "../src/lib/weights.ts";
import { definingOf, document } from "./helpers.ts";

const HLO = `HloModule m

%region_0 (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  ROOT %add.1 = f32[] add(%a, %a)
}

%fused (p: f32[4096,4096]) -> f32[4096,4096] {
  %p = f32[4096,4096]{1,0} parameter(0)
  ROOT %mul.1 = f32[4096,4096]{1,0} multiply(%p, %p)
}

%parallel (q: f32[512,512]) -> f32[512,512] {
  %q = f32[512,512]{1,0} parameter(0)
  ROOT %neg.1 = f32[512,512]{1,0} negate(%q)
}

ENTRY %main (x: f32[1024,1024]) -> f32[1024,1024] {
  %x = f32[1024,1024]{1,0} parameter(0)
  %reduce.1 = f32[1024]{0} reduce(%x, %x), dimensions={1}, to_apply=%region_0
  %dot.1 = f32[1024,1024]{1,0} dot(%x, %x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %call.1 = f32[512,512]{1,0} call(%reduce.1), to_apply=%parallel
  ROOT %fusion.1 = (f32[1024,1024]{1,0}, bf16[1024]{0}) fusion(%x, %dot.1), kind=kLoop, calls=%fused
}`;

function hlo(text = HLO) {
  return document(
    new Origins(),
    "optimized",
    text,
    [],
    { files: [], libraries: [], origins: [], phases: [] },
    definingOf(text),
  );
}

/** Returns the name of the heaviest line among those of some instructions. */
function chosen(...names: string[]): string | null {
  const text = hlo();
  const lines = Int32Array.from(names.map((name) => text.lineOfInstruction(name)).sort((a, b) => a - b));
  const at = heaviest(text, lines);
  return at < 0 ? null : text.instruction(lines[at]!);
}

test("what runs comes before what is fused, however large, and that before a scalar reducer", () => {
  assert.equal(chosen("add.1", "mul.1", "reduce.1", "fusion.1"), "fusion.1");
  assert.equal(chosen("add.1", "mul.1"), "mul.1");
  assert.equal(chosen("add.1", "neg.1"), "neg.1");
  assert.equal(chosen("mul.1", "neg.1"), "neg.1");
});

test("a product weighs more than a pass over arrays of its size", () => {
  assert.equal(chosen("dot.1", "fusion.1", "reduce.1"), "dot.1");
});

test("what hands on what is there weighs nothing", () => {
  assert.equal(chosen("x", "a"), null);
  assert.equal(chosen("x", "call.1", "add.1"), "add.1");
});

test("a text of another language does not tell", () => {
  const source = document(new Origins(), "source", "a = b", [], undefined, undefined, "python");
  assert.equal(heaviest(source, Int32Array.of(0)), -1);
});

test("HLO begins at its entry computation, other texts at their first line", () => {
  const text = hlo();
  assert.match(text.lines[text.firstLine]!, /^ENTRY %main/);
  assert.equal(document(new Origins(), "jaxpr", "x\nENTRY y", [], undefined, undefined, "jaxpr").firstLine, 0);
  const cell = { labels: null, first_line: 2 };
  const source = document(
    new Origins(),
    "source",
    "import jax\n\ndef step(x):\n  return x",
    [],
    undefined,
    cell,
    "python",
  );
  assert.equal(source.lines[source.firstLine], "def step(x):");
});

test("a text that was weighed is read no more", () => {
  const text = hlo();
  const lines = Int32Array.from(text.lines.keys());
  const expected = heaviest(hlo(), lines);
  for (const _ of weigh(text)) void _;
  (text.lines as string[]).fill("");
  assert.equal(heaviest(text, lines), expected);
});

test("a long text is weighed in little time", () => {
  const body = Array.from({ length: 200_000 }, (_, i) => `  %n.${i} = f32[8,${i % 64}]{1,0} negate(%n.${i - 1})`);
  const text = hlo(["HloModule m", "ENTRY %main (x: f32[8]) -> f32[8] {", ...body, "}"].join("\n"));
  const lines = Int32Array.from({ length: 2000 }, (_, i) => 2 + i * 90);
  assert.notEqual(heaviest(text, lines), -1);
});

/** Returns the CPU seconds for weighing all lines of a text with `count` fusions. */
function secondsFor(count: number): number {
  const body = (i: number): string[] => [
    `%fused.${i} (p.${i}: f32[8,8]) -> f32[8,8] {`,
    `  ROOT %sine.${i} = f32[8,8]{1,0} sine(%p.${i})`,
    "}",
  ];
  const indices = [...Array(count).keys()];
  const entry = indices.map((i) => `  %fusion.${i} = f32[8,8]{1,0} fusion(%x), kind=kLoop, calls=%fused.${i}`);
  const text = hlo([...indices.flatMap(body), "ENTRY %main (x: f32[8,8]) -> f32[8,8] {", ...entry, "}"].join("\n"));
  const start = process.cpuUsage();
  assert.equal(text.lines[heaviest(text, Int32Array.from(text.lines.keys()))], entry[0]);
  const { user, system } = process.cpuUsage(start);
  return (user + system) / 1e6;
}

test("twenty times the computations take about twenty times as long", () => {
  secondsFor(2_000);
  const [few, many] = [secondsFor(3_000), secondsFor(60_000)];
  assert.ok(many < 50 * Math.max(0.01, few));
});
