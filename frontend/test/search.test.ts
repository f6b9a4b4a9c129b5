import assert from "node:assert/strict";
import { test } from "node:test";
import { computationsOf } from "../src/lib/computations.ts";
import { Origins } from "../src/lib/origins.ts";
import { isFiltered, parseQuery, search } from "../src/lib/search.ts";
import { definingOf, document, single } from "./helpers.ts";

const HLO = `HloModule m

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  ROOT %add = f32[] add(%a, %a)
}

%body (p: f32[8]) -> f32[8] {
  %p = f32[8] parameter(0)
  ROOT %exp.1 = f32[8] exponential(%p)
}

%cond (q: f32[8]) -> pred[] {
  ROOT %q = f32[8] parameter(0)
}

ENTRY %main (x: f32[8]) -> f32[8] {
  %x = f32[8] parameter(0)
  %exp.10 = f32[8] exponential(%x), metadata={op_name="a fusion(%exp.1) b"}
  %r = f32[] reduce(%exp.10, %x), dimensions={0}, to_apply=%sum
  ROOT %loop = f32[8] while(%exp.10), condition=%cond, body=%body
}`;
const origins = new Origins();
const lines = HLO.split("\n");
const names = lines.map((line) => /^\s+(?:ROOT )?%([\w.]+) = /.exec(line)?.[1] ?? null);
const table = single({
  files: ["model.py", "other.py"],
  origins: [
    ["jit(f)/attention/exp", [[0, 3]]],
    ["jit(f)/head/reduce_sum", [[1, 7]]],
  ],
});
const lineOrigins = lines.map((line) => (line.includes("exp.10 =") ? 0 : line.includes("%r =") ? 1 : -1));
const text = document(origins, "optimized", HLO, lineOrigins, table, definingOf(HLO));

function found(query: string, amounts: Record<string, number> = {}): string[] {
  const task = search(text, parseQuery(query), origins, (_, line) => amounts[names[line] ?? ""] ?? 0);
  for (;;) {
    const { done, value } = task.next();
    if (done) return value.map((line) => names[line] ?? lines[line]!.trim());
  }
}

test("words are found whatever their case, capital letters as they stand", () => {
  assert.deepEqual(found("exponential"), ["exp.1", "exp.10"]);
  assert.deepEqual(found("root while"), ["loop"]);
  assert.deepEqual(found("ENTRY"), ["ENTRY %main (x: f32[8]) -> f32[8] {"]);
  assert.deepEqual(found("Exponential"), []);
  assert.deepEqual(found("f32[8] param"), ["p", "q", "x"]);
});

test("an opcode is what the instruction does, not a word in its metadata", () => {
  assert.deepEqual(found("op:exponential"), ["exp.1", "exp.10"]);
  assert.deepEqual(found("op:fusion"), []);
  assert.deepEqual(found("op:while"), ["loop"]);
});

test("scopes and files are those of the origin, the primitive is no scope", () => {
  assert.deepEqual(found("scope:attention"), ["exp.10"]);
  assert.deepEqual(found("scope:reduce_sum"), []);
  assert.deepEqual(found("file:other.py"), ["r"]);
  assert.deepEqual(found("scope:head file:model.py"), []);
});

test("users stand in the computation of what they use, and names are whole", () => {
  assert.deepEqual(found("users:exp.10"), ["r", "loop"]);
  assert.deepEqual(found("users:exp.1"), []);
  assert.deepEqual(found("users:x"), ["exp.10", "r"]);
  assert.deepEqual(found("users:nothing"), []);
});

test("amounts have units", () => {
  assert.deepEqual(parseQuery("bytes>1MiB").least, [{ measure: "main_memory_bytes", amount: 2 ** 20 }]);
  assert.deepEqual(parseQuery("flops>=2.5G time>3us").least, [
    { measure: "flops", amount: 2.5e9 },
    { measure: "least_s", amount: 3e-6 },
  ]);
  assert.deepEqual(parseQuery("bytes>1parsec").words, ["bytes>1parsec"]);
  assert.deepEqual(found("flops>10 op:exponential", { "exp.1": 9, "exp.10": 10 }), ["exp.10"]);
});

test("only words are no filter", () => {
  assert.equal(isFiltered(parseQuery("exp add")), false);
  assert.equal(isFiltered(parseQuery("exp op:add")), true);
});

test("computations know what they are, and what leads to them", () => {
  const all = computationsOf(text);
  assert.deepEqual(
    all.all.map(({ name, kind, role, isEntry }) => [name, kind, role, isEntry]),
    [
      ["sum", "applied", "to_apply", false],
      ["body", "run", "body", false],
      ["cond", "run", "condition", false],
      ["main", "run", "", true],
    ],
  );
  const path = all.path(text.lineOfInstruction("exp.1"));
  assert.deepEqual(
    path.map(({ computation, call }) => [computation.name, names[call]]),
    [
      ["main", "loop"],
      ["body", "exp.1"],
    ],
  );
  assert.equal(all.at(0), null);
});
