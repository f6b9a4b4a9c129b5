import assert from "node:assert/strict";
import { test } from "node:test";
import type { Pane } from "../src/messages.ts";
import {
  activate,
  borderOf,
  defaultLayout,
  dockShareOf,
  evened,
  fitted,
  groupOf,
  isSameLayout,
  type Layout,
  groupsOf,
  PRESETS,
  presetLayout,
  resizeColumns,
  resizeDock,
  resizeGroups,
  restoreLayout,
  type Shape,
  shapeOf,
  widened,
} from "../src/state/layout.ts";
import { movePane, movesOf } from "../src/state/moving.ts";
import { sideOf } from "../src/shell/dragging.ts";

const ALL: Pane[] = ["source", "jaxpr", "stablehlo", "hlo", "optimized", "graph", "collectives", "stats", "run"];

const THREE = defaultLayout(ALL, "three");
const TITLES = Object.fromEntries(ALL.map((pane) => [pane, pane.toUpperCase()])) as Record<Pane, string>;

function panesOf(layout: Layout): Pane[] {
  return groupsOf(layout)
    .flatMap(([, { panes }]) => panes)
    .sort();
}

/** Returns the panes of each column, the active one of each group first. */
function columnsOf(layout: Layout): string[] {
  return layout.columns.map(({ groups }) =>
    groups.map(({ panes, active }) => [active, ...panes.filter((each) => each !== active)].join(" ")).join(" / "),
  );
}

test("every pane has exactly one place, whatever is moved where", () => {
  let layout = THREE;
  for (const [pane, to] of [
    ["graph", "0.0"],
    ["source", "dock"],
    ["hlo", "column"],
    ["optimized", { at: "0.0", side: "below" }],
    ["stats", "0.1"],
    ["run", { at: "1.0", side: "left" }],
    ["graph", { at: "0.1", side: "right" }],
    ["hlo", "dock"],
  ] as const) {
    layout = movePane(layout, pane, to);
    assert.deepEqual(panesOf(layout), [...ALL].sort());
    for (const [, group] of groupsOf(layout)) assert.ok(group.panes.includes(group.active));
  }
});

test("the dock opens on Pallas only if the program is a kernel", () => {
  const panes: Pane[] = [...ALL, "pallas"];
  const fronts = [false, true].map((isKernel) => defaultLayout(panes, "two", isKernel).dock!);
  assert.deepEqual(
    fronts.map(({ active }) => active),
    ["stats", "pallas"],
  );
  for (const { panes } of fronts) assert.equal(panes[0], "pallas");
  assert.equal(defaultLayout(["source", "pallas"], "two").dock!.active, "pallas");
});

test("the last column cannot be emptied", () => {
  const layout = defaultLayout(["source"], "two");
  assert.deepEqual(movePane(layout, "source", "dock"), layout);
});

test("a column that loses its last pane goes away", () => {
  const layout = movePane(THREE, "source", "dock");
  assert.equal(layout.columns.length, 2);
  assert.equal(groupOf(layout, "source"), "dock");
});

test("activating a docked pane opens the dock", () => {
  const closed = { ...THREE, dockOpen: false };
  assert.equal(activate(closed, "run").dockOpen, true);
  assert.equal(activate(closed, "run").dock?.active, "run");
  assert.equal(activate(closed, "source").dockOpen, false);
});

test("resizing keeps the total and never closes a column", () => {
  const before = THREE;
  const total = (l: Layout) => l.columns.reduce((sum, c) => sum + c.weight, 0);
  for (const share of [-5, -0.1, 0.1, 5]) {
    const after = resizeColumns(before, 0, share);
    assert.ok(Math.abs(total(after) - total(before)) < 1e-9);
    assert.ok(Math.min(...after.columns.map((c) => c.weight)) > 0);
  }
});

test("columns go back to their usual widths, or to equal ones where others are there", () => {
  const usual = widened(THREE, "optimized");
  const moved = resizeColumns(usual, 0, 0.2);
  assert.ok(borderOf(moved.columns, 0) > borderOf(usual.columns, 0) + 0.19);
  assert.deepEqual(evened(moved, usual), usual);
  const another = movePane(moved, "graph", "column");
  assert.deepEqual(
    evened(another, usual).columns.map((c) => c.weight),
    [1, 1, 1],
  );
  assert.ok(Math.abs(borderOf(evened(another, usual).columns, 1) - 2 / 3) < 1e-9);
});

test("for texts side by side their pane is wide and the others share a column", () => {
  const before = movePane(THREE, "graph", "0.0");
  const wide = widened(before, "optimized");
  assert.deepEqual(panesOf(wide), [...ALL].sort());
  assert.deepEqual(columnsOf(wide), ["graph source / stablehlo jaxpr hlo", "optimized"]);
  assert.ok(wide.columns[1]!.weight >= 2 * wide.columns[0]!.weight);
  const docked = movePane(before, "optimized", "dock");
  assert.deepEqual(widened(docked, "optimized"), docked);
  const alone = widened(defaultLayout(["optimized"], "two"), "optimized");
  assert.deepEqual(panesOf(alone), ["optimized"]);
});

test("a saved layout is used only for the panes there are", () => {
  const saved = movePane(THREE, "graph", "0.0");
  assert.deepEqual(restoreLayout(JSON.parse(JSON.stringify(saved)), ALL, THREE), saved);
  const fewer = ALL.filter((p) => p !== "graph" && p !== "source");
  assert.deepEqual(panesOf(restoreLayout(saved, fewer, defaultLayout(fewer, "two"))), [...fewer].sort());
  for (const bad of [null, 3, {}, { version: 3, columns: [] }, { ...saved, columns: saved.columns.slice(1) }]) {
    assert.deepEqual(panesOf(restoreLayout(bad, ALL, THREE)), [...ALL].sort());
  }
});

test("a hidden pane is nowhere, stays hidden when the layout is restored, and can be shown again", () => {
  const hidden = movePane(THREE, "jaxpr", "away");
  assert.equal(groupOf(hidden, "jaxpr"), null);
  assert.deepEqual(restoreLayout(hidden, ALL, THREE), hidden);
  const shown = movePane(hidden, "jaxpr", "0.0");
  assert.equal(groupOf(shown, "jaxpr"), "0.0");
  assert.deepEqual(shown.hidden, []);
  assert.deepEqual(panesOf(shown), [...ALL].sort());
});

test("a pane that a kept layout does not know makes it start anew", () => {
  const kept = movePane(defaultLayout(ALL.slice(1), "three"), "jaxpr", "away");
  assert.deepEqual(restoreLayout(kept, ALL, THREE), THREE);
});

test("layouts for a purpose hold every pane", () => {
  for (const { value } of PRESETS)
    for (const shape of ["two", "stacked", "three"] as const)
      assert.deepEqual(panesOf(presetLayout(value, ALL, shape)), [...ALL].sort());
  assert.equal(presetLayout("communicate", ALL, "two").dock!.active, "collectives");
  assert.equal(presetLayout("read", ALL, "stacked").dockOpen, false);
});

test("a layout that went through the notebook is the same one", () => {
  const layout = movePane(THREE, "graph", "0.0");
  const kept = JSON.parse(JSON.stringify({ side_by_side: false, ...layout })) as Layout;
  assert.ok(isSameLayout(restoreLayout(kept, ALL, THREE), layout));
  assert.deepEqual(restoreLayout(kept, ALL, THREE), layout);
  assert.ok(!isSameLayout(activate(layout, "run"), layout));
  assert.ok(!isSameLayout({ ...layout, dockOpen: false }, layout));
});

test("there are as many columns as the width has room for", () => {
  const columns = (widthPx: number): string[] => columnsOf(defaultLayout(ALL, shapeOf(widthPx)));
  assert.deepEqual(columns(900), ["source jaxpr stablehlo hlo", "optimized"]);
  assert.deepEqual(columns(1500), ["source / stablehlo jaxpr hlo", "optimized"]);
  assert.deepEqual(columns(2000), ["source", "stablehlo jaxpr hlo", "optimized"]);
  for (const shape of ["two", "stacked", "three"] satisfies Shape[])
    assert.deepEqual(columnsOf(defaultLayout(["stats", "optimized"], shape)), ["optimized"]);
});

test("a pane goes to any side of a group, and what it leaves has its room", () => {
  const stacked = defaultLayout(ALL, "stacked");
  const below = movePane(stacked, "graph", { at: "1.0", side: "below" });
  assert.deepEqual(columnsOf(below), ["source / stablehlo jaxpr hlo", "optimized / graph"]);
  assert.deepEqual(
    below.columns[1]!.groups.map(({ weight }) => weight),
    [0.5, 0.5],
  );
  assert.deepEqual(columnsOf(movePane(below, "graph", { at: "0.0", side: "above" })), [
    "graph / source / stablehlo jaxpr hlo",
    "optimized",
  ]);
  const left = movePane(stacked, "hlo", { at: "0.1", side: "left" });
  assert.deepEqual(columnsOf(left), ["hlo", "source / stablehlo jaxpr", "optimized"]);
  assert.deepEqual(left.columns, structuredClone(left.columns));
  assert.deepEqual(
    left.columns.map(({ weight, groups }) => [weight, ...groups.map((group) => group.weight)]),
    [
      [0.5, 1],
      [0.5, 1, 1],
      [1, 1],
    ],
  );
  assert.deepEqual(columnsOf(movePane(stacked, "source", { at: "1.0", side: "right" })), [
    "stablehlo jaxpr hlo",
    "optimized",
    "source",
  ]);
});

test("a pane alone in its group does not go beside itself, nor beside the panel", () => {
  const stacked = defaultLayout(ALL, "stacked");
  assert.equal(movePane(stacked, "source", { at: "0.0", side: "below" }), stacked);
  assert.equal(movePane(stacked, "source", { at: "dock", side: "left" }), stacked);
  assert.equal(movePane(stacked, "source", { at: "7.0", side: "left" }), stacked);
  assert.equal(movePane(stacked, "source", "0.0"), stacked);
});

test("every move that is offered moves the pane, and says where", () => {
  for (const shape of ["two", "stacked", "three"] as const)
    for (const pane of ALL) {
      const layout = defaultLayout(ALL, shape);
      const moves = movesOf(layout, pane, TITLES);
      assert.equal(new Set(moves.map(({ text }) => text)).size, moves.length);
      for (const { to, text } of moves) {
        const moved = movePane(layout, pane, to);
        assert.ok(!isSameLayout(moved, layout), `${pane} ${text} in ${shape}`);
        assert.deepEqual(panesOf(moved), [...ALL].sort());
      }
    }
  const texts = movesOf(defaultLayout(ALL, "stacked"), "graph", TITLES).map(({ text }) => text);
  assert.ok(texts.includes("below OPTIMIZED"));
  assert.ok(texts.includes("to the tabs of SOURCE"));
  assert.ok(!texts.includes("to the panel below"));
});

test("heights in a column are moved like widths", () => {
  const stacked = defaultLayout(ALL, "stacked");
  const moved = resizeGroups(stacked, 0, 0, 0.25);
  assert.equal(borderOf(moved.columns[0]!.groups, 0), 0.75);
  assert.deepEqual(moved.columns[1], stacked.columns[1]);
  assert.ok(borderOf(resizeGroups(stacked, 0, 0, 9).columns[0]!.groups, 0) < 1);
});

test("a layout of before groups were stacked is read", () => {
  const old = {
    version: 1,
    columns: [
      { panes: ["source", "graph"], active: "graph", weight: 2 },
      { panes: ["jaxpr", "stablehlo", "hlo", "optimized"], active: "hlo", weight: 1 },
    ],
    dock: { panes: ["collectives", "stats", "run"], active: "stats", weight: 1 },
    hidden: [],
    dockOpen: false,
    dockShare: 0.2,
  };
  const found = restoreLayout(old, ALL, THREE);
  assert.deepEqual(columnsOf(found), ["graph source", "hlo jaxpr stablehlo optimized"]);
  assert.deepEqual(
    found.columns.map(({ weight }) => weight),
    [2, 1],
  );
  assert.deepEqual([found.version, found.dockOpen, found.dock!.active, found.dockShare], [2, false, "stats", 0.2]);
});

test("a layout in which no pane was moved follows the width, with what is at the front", () => {
  const usual = (shape: Shape): Layout => defaultLayout(ALL, shape);
  const narrow = activate(activate({ ...usual("two"), dockOpen: false }, "hlo"), "run");
  const wide = fitted(narrow, "stacked", usual);
  assert.deepEqual(columnsOf(wide), ["source / hlo jaxpr stablehlo", "optimized"]);
  assert.deepEqual([wide.dock!.active, wide.dockOpen], ["run", true]);
  assert.deepEqual(columnsOf(fitted(wide, "two", usual)), ["source jaxpr stablehlo hlo", "optimized"]);
  assert.equal(fitted(wide, "stacked", usual), wide);
  const resized = resizeColumns(wide, 0, 0.2);
  assert.equal(fitted(resized, "stacked", usual), resized);
  const moved = movePane(wide, "graph", "0.0");
  assert.equal(fitted(moved, "two", usual), moved);
});

test("a layout takes a few hundred bytes", () => {
  const layout = movePane(
    movePane(defaultLayout(ALL, "stacked"), "graph", { at: "1.0", side: "below" }),
    "run",
    "away",
  );
  assert.ok(JSON.stringify(layout).length < 700, String(JSON.stringify(layout).length));
});

test("a tab is let go at the side that is near, or in the middle", () => {
  assert.equal(sideOf(0.1, 0.5), "left");
  assert.equal(sideOf(0.9, 0.5), "right");
  assert.equal(sideOf(0.5, 0.1), "above");
  assert.equal(sideOf(0.5, 0.9), "below");
  assert.equal(sideOf(0.5, 0.5), null);
});

test("the height of the panel is that of its active pane, and others keep theirs", () => {
  const docked = activate(THREE, "graph");
  const layout = activate(resizeDock(docked, 0.7), "stats");
  assert.equal(dockShareOf(layout), THREE.dockShare);
  assert.equal(dockShareOf(activate(layout, "graph")), 0.7);
  assert.ok(!isSameLayout(layout, activate(THREE, "stats")));
  const kept = JSON.parse(
    JSON.stringify({ ...layout, dockShares: { ...layout.dockShares, run: "wide", nothing: 0.5 } }),
  );
  assert.deepEqual(restoreLayout(kept, ALL, THREE).dockShares, { graph: 0.7 });
});
