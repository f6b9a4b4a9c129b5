// How the panes are arranged: pure functions over a small versioned value.

import { type Pane, PANES, type Place } from "../messages.ts";

/** Panes behind one row of tabs. */
export interface Group {
  panes: Pane[];
  active: Pane;
  /** Share of the width among the columns. */
  weight: number;
}

export interface Layout {
  version: 1;
  columns: Group[];
  /** The panel below the columns; null when it has no panes. */
  dock: Group | null;
  /** Panes that are nowhere. */
  hidden: Pane[];
  dockOpen: boolean;
  /** Share of the height that the open dock takes. */
  dockShare: number;
}

/** "dock", or the index of a column. */
export type GroupKey = number | "dock";

const COLUMNS: readonly Place[] = ["left", "middle", "right"];
const MIN_WEIGHT = 0.08;
const WIDE_WEIGHT = 3;
const WIDE_DOCK_SHARE = 0.3;

export function defaultLayout(available: readonly Pane[]): Layout {
  const at = (place: Place): Pane[] =>
    PANES.filter((line) => line.place === place && available.includes(line.name)).map(({ name }) => name);
  const columns = COLUMNS.map(at)
    .filter((panes) => panes.length)
    .map((panes) => ({ panes, active: preferred(panes), weight: 1 }));
  const docked = at("dock");
  return {
    version: 1,
    columns,
    dock: docked.length ? { panes: docked, active: docked[0]!, weight: 1 } : null,
    hidden: [],
    dockOpen: true,
    dockShare: 0.36,
  };
}

export type Preset = "read" | "compare" | "communicate" | "memory";

/** Layouts for a purpose: what is at the front, and how high the panel below is. */
export const PRESETS: readonly { readonly value: Preset; readonly text: string }[] = [
  { value: "read", text: "read" },
  { value: "compare", text: "compare variants" },
  { value: "communicate", text: "communication" },
  { value: "memory", text: "memory" },
];
const FRONTS: Readonly<Record<Preset, { readonly dock: Pane; readonly share: number }>> = {
  read: { dock: "instructions", share: 0.24 },
  compare: { dock: "stats", share: 0.36 },
  communicate: { dock: "collectives", share: 0.5 },
  memory: { dock: "memory", share: 0.55 },
};

export function presetLayout(preset: Preset, available: readonly Pane[]): Layout {
  const layout = defaultLayout(available);
  const { dock, share } = FRONTS[preset];
  return { ...activate(layout, dock), dockShare: share };
}

/** The layout where one pane shows several texts side by side: it is wide, the panes of other columns share one. */
export function widened(layout: Layout, pane: Pane): Layout {
  const wide = layout.columns.find((c) => c.panes.includes(pane));
  const others = layout.columns.filter((c) => c !== wide);
  if (!wide) return layout;
  const column = { ...wide, active: pane, weight: WIDE_WEIGHT };
  const beside = others.length ? [{ panes: others.flatMap((c) => c.panes), active: others[0]!.active, weight: 1 }] : [];
  return { ...layout, columns: [...beside, column], dockShare: Math.min(layout.dockShare, WIDE_DOCK_SHARE) };
}

/** A saved layout made to hold exactly `available`, and nothing besides; `fallback` when it cannot be read. */
export function restoreLayout(
  saved: unknown,
  available: readonly Pane[],
  fallback: Layout = defaultLayout(available),
): Layout {
  if (!isLayout(saved)) return fallback;
  const seen = new Set<Pane>();
  const keep = (group: Group): Group | null => {
    const panes = group.panes.filter((p) => available.includes(p) && !seen.has(p));
    panes.forEach((p) => seen.add(p));
    if (!panes.length) return null;
    return { panes, active: panes.includes(group.active) ? group.active : panes[0]!, weight: group.weight };
  };
  const columns = saved.columns.map(keep).filter((g) => g !== null);
  const dock = saved.dock && keep(saved.dock);
  const hidden = (saved.hidden ?? []).filter((pane) => available.includes(pane) && !seen.has(pane));
  if (!columns.length || seen.size + new Set(hidden).size !== new Set(available).size) return fallback;
  const { dockOpen, dockShare } = saved;
  return { version: 1, columns, dock, hidden, dockOpen, dockShare };
}

/** Whether two layouts arrange the panes alike. */
export function isSameLayout(one: Layout, other: Layout): boolean {
  const group = ({ panes, active, weight }: Group): unknown => [panes, active, weight];
  const key = ({ columns, dock, hidden, dockOpen, dockShare }: Layout): string =>
    JSON.stringify([columns.map(group), dock && group(dock), hidden, dockOpen, dockShare]);
  return key(one) === key(other);
}

export function groupAt(layout: Layout, key: GroupKey): Group | null {
  return key === "dock" ? layout.dock : (layout.columns[key] ?? null);
}

export function groupOf(layout: Layout, pane: Pane): GroupKey | null {
  if (layout.dock?.panes.includes(pane)) return "dock";
  const index = layout.columns.findIndex((c) => c.panes.includes(pane));
  return index < 0 ? null : index;
}

/** Brings a pane to the front of its group, and opens the dock when it is there. */
export function activate(layout: Layout, pane: Pane): Layout {
  const key = groupOf(layout, pane);
  const change = (group: Group): Group => (group.panes.includes(pane) ? { ...group, active: pane } : group);
  return {
    ...layout,
    columns: layout.columns.map(change),
    dock: layout.dock && change(layout.dock),
    dockOpen: layout.dockOpen || key === "dock",
  };
}

/** Moves a pane to another group ("column": a new one at the right) or "away". An emptied group goes away, not the last. */
export function movePane(layout: Layout, pane: Pane, to: GroupKey | "column" | "away"): Layout {
  const drop = (group: Group): Group => {
    const panes = group.panes.filter((p) => p !== pane);
    return { ...group, panes, active: group.active === pane ? (panes[0] ?? pane) : group.active };
  };
  const add = (group: Group): Group => ({ ...group, panes: [...group.panes, pane], active: pane });
  const columns = layout.columns.map(drop);
  let dock = layout.dock && drop(layout.dock);
  if (to === "dock") dock = add(dock ?? { panes: [], active: pane, weight: 1 });
  else if (to === "column") columns.push({ panes: [pane], active: pane, weight: 1 });
  else if (to !== "away" && columns[to]) columns[to] = add(columns[to]);
  const others = layout.hidden.filter((each) => each !== pane);
  const left = columns.filter((c) => c.panes.length);
  if (!left.length) return layout;
  return {
    ...layout,
    columns: left,
    dock: dock?.panes.length ? dock : null,
    hidden: to === "away" ? [...others, pane] : others,
    dockOpen: layout.dockOpen || to === "dock",
  };
}

/** Moves the border between columns `index` and `index + 1` by a share of the whole width. */
export function resizeColumns(layout: Layout, index: number, share: number): Layout {
  const total = layout.columns.reduce((sum, c) => sum + c.weight, 0);
  const left = layout.columns[index];
  const right = layout.columns[index + 1];
  if (!left || !right) return layout;
  const least = MIN_WEIGHT * total;
  const delta = Math.max(least - left.weight, Math.min(right.weight - least, share * total));
  const weights = new Map([
    [left, left.weight + delta],
    [right, right.weight - delta],
  ]);
  return { ...layout, columns: layout.columns.map((c) => ({ ...c, weight: weights.get(c) ?? c.weight })) };
}

/** Where the border between columns `index` and `index + 1` stands, from 0 at the left to 1. */
export function borderOf(layout: Layout, index: number): number {
  const weights = layout.columns.map((column) => column.weight);
  const sum = (values: readonly number[]): number => values.reduce((total, weight) => total + weight, 0);
  return sum(weights.slice(0, index + 1)) / Math.max(sum(weights), Number.MIN_VALUE);
}

/** The columns as wide as `usual` has them; all alike where it has another number of columns. */
export function evened(layout: Layout, usual: Layout): Layout {
  const isAlike = usual.columns.length === layout.columns.length;
  const weight = (index: number): number => (isAlike ? usual.columns[index]!.weight : 1);
  return { ...layout, columns: layout.columns.map((column, index) => ({ ...column, weight: weight(index) })) };
}

export function resizeDock(layout: Layout, share: number): Layout {
  return { ...layout, dockShare: Math.max(0.12, Math.min(0.8, share)), dockOpen: true };
}

/** The StableHLO is what most readers know; the jaxpr is one click away. */
function preferred(panes: Pane[]): Pane {
  return panes.includes("stablehlo") ? "stablehlo" : panes[0]!;
}

function isLayout(value: unknown): value is Layout {
  const layout = value as Layout | null;
  return typeof layout === "object" && layout !== null && layout.version === 1 && Array.isArray(layout.columns);
}
