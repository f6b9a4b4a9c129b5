import assert from "node:assert/strict";
import { test } from "node:test";
import {
  best,
  levelsFor,
  linkOf,
  matchesIn,
  nearestIndex,
  phaseCounts,
  stepTo,
  STRONG,
  WEAK,
} from "../src/lib/linking.ts";
import { NONE, Origins } from "../src/lib/origins.ts";
import { document, single } from "./helpers.ts";

// train.py: line 3 calls dense at line 7.
const SOURCE = single({
  files: ["train.py"],
  origins: [
    ["", [[0, 3]]],
    ["", [[0, 7]]],
    ["", [[0, 9]]],
  ],
});
const COMPILED = single({
  files: ["other.py", "train.py"],
  origins: [
    [
      "jit(f)/dot",
      [
        [1, 7],
        [1, 3],
      ],
    ],
    [
      "jit(f)/add",
      [
        [1, 7],
        [1, 3],
      ],
    ],
    ["jit(f)/tanh", [[1, 9]]],
    [
      "jit(f)/dot",
      [
        [1, 7],
        [1, 8],
      ],
    ],
    ["copy", []],
  ],
});

function program() {
  const origins = new Origins();
  const source = document(origins, "source", "three\nseven\nnine", [0, 1, 2], SOURCE);
  const hlo = document(origins, "hlo", "dot\nadd\ntanh\ndot2\ncopy\nnone", [0, 1, 2, 3, 4], COMPILED);
  return { origins, source, hlo };
}

test("a source line lights what it made strongly, and what its callees made weakly", () => {
  const { origins, source, hlo } = program();
  const called = matchesIn(hlo, linkOf(origins, source.origin(1), true));
  assert.deepEqual([...called.strong], [0, 1, 3]);
  assert.deepEqual([...called.weak], []);
  const caller = matchesIn(hlo, linkOf(origins, source.origin(0), true));
  assert.deepEqual([...caller.strong], []);
  assert.deepEqual([...caller.weak], [0, 1]);
  assert.deepEqual([...best(caller)], [0, 1]);
});

test("an instruction lights its own operation strongly, its source line's other operations and calls weakly", () => {
  const { origins, source, hlo } = program();
  const link = linkOf(origins, hlo.origin(0), false);
  assert.deepEqual(matchesIn(hlo, link), { strong: Int32Array.of(0), weak: Int32Array.of(1, 3) });
  assert.deepEqual(matchesIn(source, link), { strong: Int32Array.of(1), weak: Int32Array.of(0) });
});

test("a text without the call lights the operation in any call", () => {
  const { origins, hlo } = program();
  const short = document(
    origins,
    "stablehlo",
    "dot\nadd",
    [0, 1],
    single({
      files: ["train.py"],
      origins: [
        ["dot", [[0, 7]]],
        ["add", [[0, 7]]],
      ],
    }),
  );
  const link = linkOf(origins, hlo.origin(0), false);
  assert.deepEqual(matchesIn(short, link), { strong: Int32Array.of(0), weak: Int32Array.of(1) });
  assert.deepEqual([...matchesIn(hlo, linkOf(origins, short.origin(0), false)).strong], [0, 3]);
});

test("lines of the user come before lines of libraries", () => {
  const origins = new Origins();
  const source = document(origins, "source", "a\nb", [0, 1], {
    files: ["train.py"],
    libraries: [false],
    phases: [],
    origins: [[["", [[0, 1]]]], [["", [[0, 2]]]]],
  });
  const stack: [number, number][] = [
    [1, 97],
    [0, 2],
    [0, 1],
  ];
  const hlo = document(origins, "hlo", "dot", [0], {
    files: ["train.py", "linear.py"],
    libraries: [false, true],
    phases: [],
    origins: [[["jit(f)/dot", stack]]],
  });
  const matches = matchesIn(source, linkOf(origins, hlo.origin(0), false));
  assert.deepEqual(matches, { strong: Int32Array.of(1), weak: Int32Array.of(0) });
  assert.deepEqual([...matchesIn(hlo, linkOf(origins, source.origin(1), true)).strong], [0]);
  assert.deepEqual([...matchesIn(hlo, linkOf(origins, source.origin(0), true)).weak], [0]);
});

test("one operation is one origin in every document, whatever the order of files", () => {
  const origins = new Origins();
  const [a] = origins.add(single({ files: ["x.py", "y.py"], origins: [["op", [[1, 5]]]] }));
  const [b] = origins.add(single({ files: ["y.py"], origins: [["op", [[0, 5]]]] }));
  assert.equal(a, b);
  assert.equal(origins.size, 1);
  assert.deepEqual(origins.placeAt(origins.innermost(a!)), { file: 1, line: 5 });
});

test("the calls around an operation do not set it apart, transformations do", () => {
  const names = [
    "psum",
    "jit(f)/psum",
    "jit(f)/shard_map/psum",
    "jit(f)/transpose(jvp())/psum",
    "jit(f)/jit(_mean)/psum",
  ];
  const origins = new Origins();
  const [a, b, c, backward, e, elsewhere, unplaced] = origins.add(
    single({
      files: ["f.py"],
      origins: [
        ...names.map((name): [string, [number, number][]] => [name, [[0, 4]]]),
        ["psum", [[0, 5]]],
        ["jit(f)/psum", []],
      ],
    }),
  );
  assert.equal(new Set([a, b, c, e].map((origin) => origins.sites(origin!)[0])).size, 1);
  assert.equal(new Set([a, backward, elsewhere, unplaced].map((origin) => origins.sites(origin!)[0])).size, 4);
});

test("a line in a function that is called twice is linked to what both calls became", () => {
  const origins = new Origins();
  const inner = document(origins, "stablehlo", "exp", [0], {
    files: ["f.py"],
    libraries: [],
    phases: [],
    origins: [
      [
        ["jit(f)/jvp(jit(g))/exp", [[0, 4]]],
        ["jit(f)/jvp(jit(g))/exp", [[0, 5]]],
      ],
    ],
  });
  const calls: [string, [number, number][]][] = [4, 5, 6].map((line) => ["jit(f)/jvp(jit(g))/exp", [[0, line]]]);
  const hlo = document(origins, "hlo", "exp.1\nexp.2\nexp.3", [0, 1, 2], single({ files: ["f.py"], origins: calls }));
  assert.deepEqual([...matchesIn(hlo, linkOf(origins, inner.origin(0), false)).strong], [0, 1]);
  assert.deepEqual([...matchesIn(inner, linkOf(origins, hlo.origin(1), false)).strong], [0]);
  assert.deepEqual([...matchesIn(inner, linkOf(origins, hlo.origin(2), false)).strong], []);
});

test("an operation without source lines is linked by its name alone", () => {
  const { origins, source, hlo } = program();
  const link = linkOf(origins, hlo.origin(4), false);
  assert.deepEqual([...matchesIn(hlo, link).strong], [4]);
  assert.equal(matchesIn(source, link).strong.length, 0);
});

test("a line without origin lights nothing", () => {
  const { origins, hlo } = program();
  assert.equal(hlo.origin(5), NONE);
  const { strong, weak } = matchesIn(hlo, linkOf(origins, hlo.origin(5), false));
  assert.equal(strong.length + weak.length, 0);
});

test("levels answer for a line as matches answer for the document", () => {
  const { origins, hlo } = program();
  const levels = levelsFor(linkOf(origins, hlo.origin(0), false), hlo).of;
  const lines = hlo.lines.map((_, line) => levels[hlo.origin(line)] ?? 0);
  assert.deepEqual(lines, [STRONG, WEAK, 0, WEAK, 0, 0]);
});

test("nearestIndex finds the nearest entry, the lower of two equally near", () => {
  const sorted = Int32Array.of(2, 10, 40);
  const naive = (value: number) => {
    const gaps = [...sorted].map((x) => Math.abs(x - value));
    return gaps.indexOf(Math.min(...gaps));
  };
  for (let value = -5; value < 60; value++) assert.equal(nearestIndex(sorted, value), naive(value), `${value}`);
  assert.equal(nearestIndex(new Int32Array(), 3), -1);
});

/** Makes a program of `count` operations from 2,000 source lines. `read` collects the origins that are looked up. */
function large(count: number) {
  const origins = new Origins();
  const table = single({
    files: ["train.py"],
    origins: Array.from({ length: count }, (_, i) => [
      `jit(f)/op${i}`,
      [
        [0, i % 2000],
        [0, 2001],
      ],
    ]),
  });
  const lines = Array.from({ length: count }, (_, i) => (i * 7919) % count);
  const text = document(origins, "hlo", new Array(count).fill("x").join("\n"), lines, table);
  for (const _ of text.prepare()) void _;
  const read = new Set<number>();
  for (const name of ["sites", "innermosts", "frames"] as const) {
    const known = origins[name].bind(origins);
    origins[name] = (origin) => (read.add(origin), known(origin));
  }
  return { origins, lines, text, read };
}

test("what a click links is looked up: no origin is read but its own, and no line", () => {
  const { origins, lines, text, read } = large(20_000);
  const chosen = text.origin(77);
  text.lineOrigins.fill(NONE);
  const { strong, weak } = matchesIn(text, linkOf(origins, chosen, false));
  const where = (isWanted: (origin: number) => boolean): number[] =>
    lines.flatMap((origin, line) => (isWanted(origin) ? [line] : []));
  assert.deepEqual(
    [...strong],
    where((origin) => origin === chosen),
  );
  assert.deepEqual(
    [...weak],
    where((origin) => origin !== chosen && origin % 2000 === chosen % 2000),
  );
  assert.deepEqual([...read], [chosen]);
});

test("lines of many origins come in order, as those of few do", () => {
  const { origins, lines, text } = large(4_000);
  const all = matchesIn(text, linkOf(origins, text.origin(5), true));
  assert.equal(all.strong.length, 2);
  const every = text.linesOf([...new Set(lines)]);
  assert.deepEqual(
    [...every],
    lines.map((_, line) => line),
  );
  const few = text.linesOf([lines[9]!, lines[3]!, lines[40]!]);
  assert.deepEqual([...few], [3, 9, 40]);
});

test("the lines that one source line stands for are told apart by phase", () => {
  const origins = new Origins();
  const names = ["jvp()/dot", "transpose(jvp())/dot", "transpose(jvp())/add", "sub"];
  const table = single({ files: ["f.py"], origins: names.map((name) => [name, [[0, 3]]]) }, [
    "forward",
    "backward",
    "backward",
    "rest",
  ]);
  const hlo = document(origins, "optimized", "dot\ndot\nadd\nsub\nadd", [0, 1, 2, 3, 2], table);
  const lines = Int32Array.of(0, 1, 2, 3, 4);
  assert.deepEqual(
    [...phaseCounts(hlo, lines, origins)],
    [
      ["forward", 1],
      ["backward", 3],
      ["rest", 1],
    ],
  );
  assert.equal(phaseCounts(hlo, Int32Array.of(1, 2), origins).size, 0);
  const isBackward = (line: number): boolean => origins.phase(hlo.origin(line)) === "backward";
  assert.equal(stepTo(lines, -1, 1, isBackward), 1);
  assert.equal(stepTo(lines, 2, 1, isBackward), 4);
  assert.equal(stepTo(lines, 4, 1, isBackward), 1);
  assert.equal(
    stepTo(lines, 0, 1, () => false),
    -1,
  );
});

test("the line that is shown is the user's own, with the library's that it led to", () => {
  const origins = new Origins();
  const [called, only, none] = origins.add({
    files: ["site-packages/flax/linear.py", "train.py"],
    libraries: [true, false],
    phases: [],
    origins: [
      [
        [
          "dot",
          [
            [0, 287],
            [1, 7],
            [1, 3],
          ],
        ],
      ],
      [["dot", [[0, 294]]]],
      [["dot", []]],
    ],
  });
  assert.deepEqual(origins.source(called!), {
    file: "train.py",
    line: 7,
    library: "site-packages/flax/linear.py:287",
  });
  assert.deepEqual(origins.source(only!), { file: "site-packages/flax/linear.py", line: 294, library: "" });
  assert.equal(origins.source(none!), null);
});
