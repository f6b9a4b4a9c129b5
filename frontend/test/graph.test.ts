// The graph without a browser: folding, links and layout.

import assert from "node:assert/strict";
import { test } from "node:test";
import { counterpart, Folding, MOST_SHOWN } from "../src/graph/folding.ts";
import { amountText } from "../src/graph/colors.ts";
import { partiesOf } from "../src/graph/parties.ts";
import { dotText } from "../src/graph/exports.ts";
import { Layouts, type Layout, type Place } from "../src/graph/layered.ts";
import { sceneOf } from "../src/graph/levels.ts";
import { GraphModel, NOWHERE } from "../src/graph/model.ts";
import type { CollectiveMessage } from "../src/messages.ts";

/** Instructions with their parents and operands, and boxes with their parents; the first box is the module. */
interface Described {
  rows: Record<string, { in: string; takes?: string[]; opcode?: string }>;
  boxes: Record<string, { in: string; kind?: "module" | "scope" | "inputs" | "part" | "computation"; phase?: string }>;
}

function model({ rows, boxes }: Described): GraphModel {
  const names = Object.keys(rows);
  const titles = Object.keys(boxes);
  const node = (name: string): number => {
    const row = names.indexOf(name);
    return row >= 0 ? row : names.length + titles.indexOf(name);
  };
  const opcodes = [...new Set(Object.values(rows).map(({ opcode = "add" }) => opcode))];
  const parents = [
    ...names.map((name) => node(rows[name]!.in)),
    ...titles.map((title, i) => (i ? node(boxes[title]!.in) : NOWHERE)),
  ];
  const zeros = names.map(() => 0);
  const edges = names.flatMap((to) => (rows[to]!.takes ?? []).map((from) => [node(from), node(to)]));
  return new GraphModel(
    names.length,
    {
      opcodes,
      operations: ["", "mul"],
      shapes: ["f32[4]"],
      shape_bytes: [16],
      edge_bytes: [16],
      kinds: titles.map((title, i) => boxes[title]!.kind ?? (i ? "scope" : "module")),
      titles: titles.map((title) => title.split("@")[0]!),
      phases: titles.map((title) => boxes[title]!.phase ?? ""),
      unscheduled: "",
    },
    names.map((name) => `${name}\n`).join(""),
    Int32Array.from([
      ...parents,
      ...names.map((name) => opcodes.indexOf(rows[name]!.opcode ?? "add")),
      ...zeros,
      ...zeros,
      ...names.map((_, i) => i),
      ...names.map((_, i) => i + 1),
    ]),
    Int32Array.from([...edges.map(([from]) => from!), ...edges.map(([, to]) => to!), ...edges.map(() => 0)]),
  );
}

const SMALL = model({
  boxes: {
    main: { in: "" },
    first: { in: "main", phase: "forward" },
    second: { in: "main", phase: "forward" },
    "inner@2": { in: "second", phase: "forward" },
  },
  rows: {
    x: { in: "main", opcode: "parameter" },
    a: { in: "first", takes: ["x"] },
    b: { in: "first", takes: ["a"] },
    c: { in: "inner@2", takes: ["b", "x"] },
    d: { in: "inner@2", takes: ["c"], opcode: "dot" },
    e: { in: "second", takes: ["d", "a"] },
    out: { in: "main", takes: ["e"], opcode: "tuple" },
  },
});

function node(model: GraphModel, title: string): number {
  const found = [...model.parents.keys()].find((each) => model.title(each).split(",")[0] === title);
  assert.notEqual(found, undefined, title);
  return found!;
}

const titles = (model: GraphModel, nodes: readonly number[]): string[] => nodes.map((each) => model.title(each));

function folded(model: GraphModel, ...open: string[]): Folding {
  const folding = new Folding(model);
  for (const each of folding.shown()) folding.close(each);
  for (const title of open) folding.open(node(model, title));
  return folding;
}

const SIZE = { width: 80, height: 36 };
const laidOut = (folding: Folding): Layout => new Layouts(() => SIZE).of(sceneOf(folding));

/** Makes a flat module with boxes that have the given numbers of instructions. */
function wide(boxes: number, each: number): GraphModel {
  const described: Described = { boxes: { main: { in: "" } }, rows: {} };
  for (let box = 0; box < boxes; box++) {
    described.boxes[`s${box}`] = { in: "main" };
    for (let i = 0; i < each; i++) {
      const takes = i ? [`r${box}_${i - 1}`] : box ? [`r${box - 1}_${each - 1}`] : [];
      described.rows[`r${box}_${i}`] = { in: `s${box}`, takes };
    }
  }
  return model(described);
}

test("a node is called by its name, a box by its scope and part of the program, said once", () => {
  assert.equal(SMALL.title(node(SMALL, "inner")), "inner, forward");
  assert.equal(SMALL.label(node(SMALL, "inner")), "inner");
  assert.equal(SMALL.label(node(SMALL, "first")), "first, forward");
  assert.equal(SMALL.instructionsIn(node(SMALL, "second")), 3);
  assert.equal(SMALL.rowOf("d"), 4);
  assert.equal(SMALL.rowOf("gone"), NOWHERE);
});

test("search finds scopes, names and opcodes, whatever their case", () => {
  assert.deepEqual(titles(SMALL, SMALL.find("INNER")), ["inner, forward"]);
  assert.deepEqual(titles(SMALL, SMALL.find("forward")), ["first, forward", "second, forward", "inner, forward"]);
  assert.deepEqual(titles(SMALL, SMALL.find("dot")), ["d"]);
  assert.deepEqual(titles(SMALL, SMALL.find("out")), ["out"]);
  assert.deepEqual(SMALL.find("  ".trim()), []);
});

test("what is closed stands for all that is in it", () => {
  const folding = folded(SMALL, "second");
  assert.deepEqual(titles(SMALL, folding.shown()).sort(), [
    "e",
    "first, forward",
    "inner, forward",
    "out",
    "second, forward",
    "x",
  ]);
  assert.equal(folding.standIn(SMALL.rowOf("d")), node(SMALL, "inner"));
  assert.equal(folding.standIn(SMALL.rowOf("a")), node(SMALL, "first"));
  assert.equal(folding.standIn(SMALL.rowOf("e")), SMALL.rowOf("e"));
});

test("every node can be brought on screen, and never more than can be taken in", () => {
  const big = wide(40, 45);
  const folding = new Folding(big);
  for (let each = 0; each < big.nodeCount; each++) {
    if (each === big.root) continue;
    folding.reveal(each);
    const shown = folding.shown();
    assert.ok(shown.length <= MOST_SHOWN, `${shown.length}`);
    assert.ok(shown.includes(each), big.title(each));
  }
});

test("what was opened lately stays open, what was opened long ago is closed first", () => {
  const big = wide(40, 45);
  const folding = new Folding(big);
  const [first, second, third] = ["s0", "s1", "s2"].map((title) => node(big, title)) as [number, number, number];
  [first, second, third].forEach((box) => folding.open(box));
  assert.deepEqual(
    [first, second, third].map((box) => folding.isOpen(box)),
    [false, true, true],
  );
});

test("where boxes in boxes do not fit, what is around them gives way, and is found again", () => {
  const described: Described = { boxes: { main: { in: "" } }, rows: {} };
  for (let depth = 0, around = "main"; depth < 6; depth++) {
    described.boxes[`box${depth}`] = { in: around };
    around = `box${depth}`;
    for (let i = 0; i < 45; i++) described.rows[`r${depth}_${i}`] = { in: around };
  }
  const deep = model(described);
  const folding = new Folding(deep);
  folding.reveal(deep.rowOf("r5_44"));
  assert.ok(folding.shown().length <= MOST_SHOWN);
  assert.ok(folding.shown().includes(deep.rowOf("r5_44")));
  assert.notEqual(folding.top, deep.root);
  folding.reveal(deep.rowOf("r0_0"));
  assert.ok(folding.shown().includes(deep.rowOf("r0_0")));
});

test("edges are lifted to what stands for their ends, and summed", () => {
  const { links } = sceneOf(folded(SMALL));
  const said = links.map(({ from, to, count, bytes }) => [SMALL.title(from), SMALL.title(to), count, bytes]);
  assert.deepEqual(said.sort(), [
    ["first, forward", "second, forward", 2, 32],
    ["second, forward", "out", 1, 16],
    ["x", "first, forward", 1, 16],
    ["x", "second, forward", 1, 16],
  ]);
});

test("each box is laid out by itself: opened, it moves what makes room and turns nothing around", () => {
  const [before, after] = [laidOut(folded(SMALL, "second")), laidOut(folded(SMALL, "second", "inner"))];
  const places = (layout: Layout): Map<string, Place> =>
    new Map([...layout.places].map(([each, place]) => [SMALL.title(each), place]));
  const order = (layout: Layout, axis: "x" | "y"): string[] =>
    [...places(layout)]
      .filter(([title]) => places(before).has(title))
      .sort(([, a], [, b]) => a[axis] - b[axis])
      .map(([title]) => title);
  assert.deepEqual(order(after, "y"), order(before, "y"));
  const inner = places(after).get("inner, forward")!;
  for (const title of ["c", "d"]) {
    const place = places(after).get(title)!;
    assert.ok(place.x > inner.x && place.y > inner.y, title);
    assert.ok(place.x + place.width < inner.x + inner.width && place.y + place.height < inner.y + inner.height, title);
  }
});

test("nodes do not overlap, but with what they are in", () => {
  const big = wide(12, 10);
  const folding = new Folding(big);
  for (let box = 0; box < 12; box++) folding.open(node(big, `s${box}`));
  const { places } = laidOut(folding);
  const all = [...places];
  for (const [i, [a, one]] of all.entries()) {
    for (const [b, other] of all.slice(i + 1)) {
      const isApart =
        one.x + one.width <= other.x ||
        other.x + other.width <= one.x ||
        one.y + one.height <= other.y ||
        other.y + other.height <= one.y;
      assert.ok(isApart || big.isWithin(a, b) || big.isWithin(b, a), `${big.title(a)} and ${big.title(b)}`);
    }
  }
});

test("lines run from below what makes a value to above what takes it, border to border of open boxes", () => {
  const folding = folded(SMALL, "second", "inner", "first");
  const { places, lines } = laidOut(folding);
  const [a, e] = [SMALL.rowOf("a"), SMALL.rowOf("e")];
  const of = lines.filter(({ stretch }) => stretch.links.some(({ from, to }) => from === a && to === e));
  const [first, second] = [places.get(node(SMALL, "first"))!, places.get(node(SMALL, "second"))!];
  const ends = of.map(({ points }) => [points[0]!, points.at(-1)!]).sort(([p], [q]) => p!.y - q!.y);
  assert.equal(ends.length, 3);
  assert.equal(ends[0]![0]!.y, places.get(a)!.y + SIZE.height);
  assert.deepEqual(ends[0]![1], ends[1]![0]);
  assert.equal(ends[1]![0]!.y, first.y + first.height);
  assert.deepEqual(ends[1]![1], ends[2]![0]);
  assert.equal(ends[1]![1]!.y, second.y);
  assert.equal(ends[2]![1]!.y, places.get(e)!.y);
});

test("the same graph with other numbers in its names is laid out alike", () => {
  const make = (shift: number): GraphModel => {
    const name = (i: number): string => `fusion.${i * shift}`;
    const rows = Object.fromEntries(
      Array.from({ length: 9 }, (_, i) => [
        name(i + 1),
        { in: i < 5 ? "s" : "main", takes: i > 1 ? [name(i), name(i - 1)] : [] },
      ]),
    );
    return model({ boxes: { main: { in: "" }, s: { in: "main" } }, rows });
  };
  const places = (shift: number): Place[] => [...laidOut(folded(make(shift), "s")).places.values()];
  assert.deepEqual(places(17), places(1));
});

test("scopes that feed each other are drawn in the order in which most is fed", () => {
  const both = model({
    boxes: { main: { in: "" }, forward: { in: "main" }, backward: { in: "main" } },
    rows: {
      b0: { in: "backward" },
      f0: { in: "forward", takes: ["b0"] },
      f1: { in: "forward", takes: ["f0"] },
      b1: { in: "backward", takes: ["f0", "f1"] },
      b2: { in: "backward", takes: ["f1", "b1"] },
    },
  });
  const { places } = laidOut(folded(both));
  assert.ok(places.get(node(both, "forward"))!.y < places.get(node(both, "backward"))!.y);
});

test("what nearly everything takes has no lines of its own", () => {
  const rows: Described["rows"] = { x: { in: "main", opcode: "parameter" } };
  for (let i = 0; i < 30; i++) rows[`r${i}`] = { in: "main", takes: ["x"] };
  const { links, hidden } = sceneOf(folded(model({ boxes: { main: { in: "" } }, rows })));
  assert.deepEqual([links.length, hidden.length], [0, 30]);
});

test("another variant opens what this one has open, by the titles", () => {
  const other = model({
    boxes: {
      main: { in: "" },
      zeroth: { in: "main" },
      second: { in: "main", phase: "forward" },
      inner: { in: "second", phase: "forward" },
    },
    rows: { q: { in: "zeroth" }, c: { in: "inner", takes: ["q"] }, z: { in: "second", takes: ["c"] } },
  });
  const folding = new Folding(other);
  folding.openLike(folded(SMALL, "second", "inner", "first"));
  assert.deepEqual(
    [...folding.shown()].filter((each) => folding.isOpen(each)).map((each) => other.label(each)),
    ["second, forward", "inner"],
  );
  assert.equal(counterpart(other, SMALL, node(SMALL, "first")), NOWHERE);
});

test("as DOT, open boxes are clusters and all edges are there", () => {
  const folding = folded(SMALL, "second");
  const scene = sceneOf(folding);
  const text = dotText({ folding, scene, layout: laidOut(folding) });
  assert.equal(text.match(/subgraph/g)?.length, 1);
  assert.equal(text.match(/->/g)?.length, scene.links.length + scene.hidden.length);
  assert.match(text, /subgraph "cluster_\d+" \{\n {4}label="second, forward";/);
});

test("parts that nothing connects do not make a strip, and none lies over another", () => {
  const count = 16;
  const rows = Object.fromEntries(
    Array.from({ length: count }, (_, i) => i).flatMap((i) => [
      [`a${i}`, { in: "main" }],
      [`b${i}`, { in: "main", takes: [`a${i}`] }],
    ]),
  );
  const found = model({ boxes: { main: { in: "" } }, rows: { ...rows, alone: { in: "main" } } });
  const scene = sceneOf(new Folding(found));
  const layout = new Layouts(() => ({ width: 100, height: 36 })).of(scene);
  assert.ok(layout.size.width < 4 * layout.size.height, `${layout.size.width} x ${layout.size.height}`);
  const places = [...layout.places.values()];
  assert.equal(places.length, 2 * count + 1);
  places.forEach((one, i) =>
    places.slice(i + 1).forEach((other) => {
      const isApart =
        one.x + one.width <= other.x ||
        other.x + other.width <= one.x ||
        one.y + one.height <= other.y ||
        other.y + other.height <= one.y;
      assert.ok(isApart);
    }),
  );
  for (const { points, stretch } of layout.lines) {
    const [from, to] = [stretch.from, stretch.to].map((end) => layout.places.get(Number(end.slice(1)))!);
    assert.ok(points[0]!.x >= from!.x && points[0]!.x <= from!.x + from!.width);
    assert.ok(points.at(-1)!.x >= to!.x && points.at(-1)!.x <= to!.x + to!.width);
  }
});

test("a node tells which devices work together in it, and in what is in it", () => {
  const collective = (name: string, axes: string[] | null, size: number, is_pairs = false): CollectiveMessage =>
    ({ name, axes, group_sizes: [size, size], is_pairs }) as CollectiveMessage;
  const { texts, of } = partiesOf(SMALL, [
    collective("b", ["data"], 4),
    collective("d", ["data"], 4),
    collective("e", null, 2),
    collective("out", ["model"], 2, true),
    collective("is not here", ["model"], 2),
  ]);
  assert.deepEqual(texts, ["data: 4 devices", "2 devices", "pairs along model"]);
  assert.deepEqual(of.get(node(SMALL, "b")), [0]);
  assert.deepEqual(of.get(node(SMALL, "second")), [0, 1]);
  assert.deepEqual(of.get(SMALL.root), [0, 1, 2]);
  assert.equal(of.get(node(SMALL, "a")), undefined);
});

test("a cost with unknown parts is an estimate and not a lower bound", () => {
  const small = model({ boxes: { main: { in: "" } }, rows: { a: { in: "main" }, b: { in: "main", takes: ["a"] } } });
  // FLOPs, bytes and seconds of a, b and the module; part of the module's FLOPs is unknown
  small.setCosts(Float32Array.from([8, 4, 12, 0, 0, 0, 0, 0, 0]), Uint8Array.from([0, 0, 1, 0, 0, 0, 0, 0, 0]));
  assert.doesNotMatch(amountText(small, 0, "flops"), /≈/);
  assert.match(amountText(small, 2, "flops"), /^≈ 12/);
});
