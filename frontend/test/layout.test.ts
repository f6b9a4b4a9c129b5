import assert from "node:assert/strict";
import { test } from "node:test";
import type { Pane } from "../src/messages.ts";
import {
  activate,
  borderOf,
  defaultLayout,
  evened,
  groupOf,
  isSameLayout,
  type Layout,
  movePane,
  PRESETS,
  presetLayout,
  resizeColumns,
  restoreLayout,
  widened,
} from "../src/state/layout.ts";

const ALL: Pane[] = ["source", "jaxpr", "stablehlo", "hlo", "optimized", "graph", "collectives", "stats", "run"];

function panesOf(layout: Layout): Pane[] {
  return [...layout.columns, ...(layout.dock ? [layout.dock] : [])].flatMap((g) => g.panes).sort();
}

test("every pane has exactly one place, whatever is moved where", () => {
  let layout = defaultLayout(ALL);
  for (const [pane, to] of [
    ["graph", 0],
    ["source", "dock"],
    ["hlo", "column"],
    ["optimized", 0],
    ["stats", 1],
    ["hlo", "dock"],
  ] as const) {
    layout = movePane(layout, pane, to);
    assert.deepEqual(panesOf(layout), [...ALL].sort());
    for (const group of layout.columns) assert.ok(group.panes.includes(group.active));
  }
});

test("the last column cannot be emptied", () => {
  const layout = defaultLayout(["source"]);
  assert.deepEqual(movePane(layout, "source", "dock"), layout);
});

test("a column that loses its last pane goes away", () => {
  const layout = movePane(defaultLayout(ALL), "source", "dock");
  assert.equal(layout.columns.length, 2);
  assert.equal(groupOf(layout, "source"), "dock");
});

test("activating a docked pane opens the dock", () => {
  const closed = { ...defaultLayout(ALL), dockOpen: false };
  assert.equal(activate(closed, "run").dockOpen, true);
  assert.equal(activate(closed, "run").dock?.active, "run");
  assert.equal(activate(closed, "source").dockOpen, false);
});

test("resizing keeps the total and never closes a column", () => {
  const before = defaultLayout(ALL);
  const total = (l: Layout) => l.columns.reduce((sum, c) => sum + c.weight, 0);
  for (const share of [-5, -0.1, 0.1, 5]) {
    const after = resizeColumns(before, 0, share);
    assert.ok(Math.abs(total(after) - total(before)) < 1e-9);
    assert.ok(Math.min(...after.columns.map((c) => c.weight)) > 0);
  }
});

test("columns go back to their usual widths, or to equal ones where others are there", () => {
  const usual = widened(defaultLayout(ALL), "optimized");
  const moved = resizeColumns(usual, 0, 0.2);
  assert.ok(borderOf(moved, 0) > borderOf(usual, 0) + 0.19);
  assert.deepEqual(evened(moved, usual), usual);
  const another = movePane(moved, "graph", "column");
  assert.deepEqual(
    evened(another, usual).columns.map((c) => c.weight),
    [1, 1, 1],
  );
  assert.ok(Math.abs(borderOf(evened(another, usual), 1) - 2 / 3) < 1e-9);
});

test("for texts side by side their pane is wide and the others share a column", () => {
  const before = movePane(defaultLayout(ALL), "graph", 0);
  const wide = widened(before, "optimized");
  assert.deepEqual(panesOf(wide), [...ALL].sort());
  assert.deepEqual(
    wide.columns.map((c) => c.panes),
    [["source", "graph", "jaxpr", "stablehlo", "hlo"], ["optimized"]],
  );
  assert.ok(wide.columns[1]!.weight >= 2 * wide.columns[0]!.weight);
  assert.equal(wide.columns[0]!.active, "graph");
  const docked = movePane(before, "optimized", "dock");
  assert.deepEqual(widened(docked, "optimized"), docked);
  const alone = widened(defaultLayout(["optimized"]), "optimized");
  assert.deepEqual(panesOf(alone), ["optimized"]);
});

test("a saved layout is used only for the panes there are", () => {
  const saved = movePane(defaultLayout(ALL), "graph", 0);
  assert.deepEqual(restoreLayout(JSON.parse(JSON.stringify(saved)), ALL), saved);
  const fewer = ALL.filter((p) => p !== "graph" && p !== "source");
  assert.deepEqual(panesOf(restoreLayout(saved, fewer)), [...fewer].sort());
  for (const bad of [null, 3, {}, { version: 2, columns: [] }, { ...saved, columns: saved.columns.slice(1) }]) {
    assert.deepEqual(panesOf(restoreLayout(bad, ALL)), [...ALL].sort());
  }
});

test("a hidden pane is nowhere, stays hidden when the layout is restored, and can be shown again", () => {
  const hidden = movePane(defaultLayout(ALL), "jaxpr", "away");
  assert.equal(groupOf(hidden, "jaxpr"), null);
  assert.deepEqual(restoreLayout(hidden, ALL), hidden);
  const shown = movePane(hidden, "jaxpr", 0);
  assert.equal(groupOf(shown, "jaxpr"), 0);
  assert.deepEqual(shown.hidden, []);
  assert.deepEqual(panesOf(shown), [...ALL].sort());
});

test("a pane that a kept layout does not know makes it start anew", () => {
  const kept = movePane(defaultLayout(ALL.slice(1)), "jaxpr", "away");
  assert.deepEqual(restoreLayout(kept, ALL), defaultLayout(ALL));
});

test("layouts for a purpose hold every pane", () => {
  for (const { value } of PRESETS) assert.deepEqual(panesOf(presetLayout(value, ALL)), [...ALL].sort());
  assert.equal(presetLayout("communicate", ALL).dock!.active, "collectives");
});

test("a layout that went through the notebook is the same one", () => {
  const layout = movePane(defaultLayout(ALL), "graph", 0);
  const kept = JSON.parse(JSON.stringify({ side_by_side: false, ...layout })) as Layout;
  assert.ok(isSameLayout(restoreLayout(kept, ALL), layout));
  assert.deepEqual(restoreLayout(kept, ALL), layout);
  assert.ok(!isSameLayout(activate(layout, "run"), layout));
  assert.ok(!isSameLayout({ ...layout, dockOpen: false }, layout));
});
