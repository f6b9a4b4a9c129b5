// The arrangement of the panes: a small versioned value, and pure functions on it.

import { type Pane, PANES, type Place } from "../messages.ts";

/** Panes that share one row of tabs. */
export interface Group {
  panes: Pane[];
  active: Pane;
  /** Share of the column's height, relative to the other groups. */
  weight: number;
}

/** Groups stacked on each other. */
export interface Column {
  groups: Group[];
  /** Share of the width, relative to the other columns. */
  weight: number;
}

export interface Layout {
  version: 2;
  columns: Column[];
  /** The panel below the columns; null if it has no panes. */
  dock: Group | null;
  /** Hidden panes. */
  hidden: Pane[];
  dockOpen: boolean;
  /** Share of the height that the open dock takes, from 0 to 1, for panes whose share the user has not set. */
  dockShare: number;
  /** The shares that the user has set, by the active pane of the dock. */
  dockShares: Partial<Record<Pane, number>>;
}

/** "dock", or a column and a group in it. */
export type GroupKey = "dock" | `${number}.${number}`;

/** A saved layout. In version 1, the columns were single groups. */
type Kept = Partial<Omit<Layout, "version" | "columns">> & {
  readonly version: 1 | 2;
  readonly columns: readonly (Column | Group)[];
};

/** The arrangement that fits a width: two columns, two columns with the left one stacked, or three columns. */
export type Shape = (typeof SHAPES)[number];

const SHAPES = ["two", "stacked", "three"] as const;

const STACKED_PX = 1100;
/** Three columns of about 80 characters. */
const THREE_PX = 1900;
const COLUMNS: readonly Place[] = ["left", "middle", "right"];
const LEAST_SHARE = 0.08;
const WIDE_WEIGHT = 3;
const WIDE_DOCK_SHARE = 0.3;

export function shapeOf(widthPx: number): Shape {
  return widthPx >= THREE_PX ? "three" : widthPx >= STACKED_PX ? "stacked" : "two";
}

/**
 * Args:
 *   available: the panes.
 *   shape: the arrangement.
 *   isKernel: whether the program is little more than Pallas kernels, so that the dock opens on them.
 */
export function defaultLayout(available: readonly Pane[], shape: Shape, isKernel = false): Layout {
  const at = (place: Place): Pane[] =>
    PANES.filter((line) => line.place === place && available.includes(line.name)).map(({ name }) => name);
  const [left, middle, right] = COLUMNS.map(at) as [Pane[], Pane[], Pane[]];
  const columns = {
    two: [[[...left, ...middle]], [right]],
    stacked: [[left, middle], [right]],
    three: [[left], [middle], [right]],
  };
  const docked = at("dock");
  const front = docked.find((name) => isKernel || name !== "pallas") ?? docked[0];
  return {
    version: 2,
    columns: columns[shape].map(columnOf).filter(({ groups }) => groups.length),
    dock: front ? { ...groupWith(docked), active: front } : null,
    hidden: [],
    dockOpen: true,
    dockShare: 0.45,
    dockShares: {},
  };
}

export type Preset = "read" | "compare" | "communicate" | "memory";

/** Layouts for a purpose. They differ in the active pane of the dock and in its height. */
export const PRESETS: readonly { readonly value: Preset; readonly text: string }[] = [
  { value: "read", text: "Reading layout" },
  { value: "compare", text: "Comparison layout" },
  { value: "communicate", text: "Communication layout" },
  { value: "memory", text: "Memory layout" },
];
const FRONTS: Readonly<Record<Preset, { readonly dock: Pane; readonly share: number; readonly isOpen: boolean }>> = {
  read: { dock: "instructions", share: 0.45, isOpen: false },
  compare: { dock: "stats", share: 0.45, isOpen: true },
  communicate: { dock: "collectives", share: 0.5, isOpen: true },
  memory: { dock: "memory", share: 0.55, isOpen: true },
};

export function presetLayout(preset: Preset, available: readonly Pane[], shape: Shape): Layout {
  const { dock, share, isOpen } = FRONTS[preset];
  return { ...activate(defaultLayout(available, shape), dock), dockShare: share, dockOpen: isOpen };
}

/**
 * The layout for a pane with several texts side by side: its column is wide, and the other columns become one stack.
 */
export function widened(layout: Layout, pane: Pane): Layout {
  const wide = layout.columns.find((column) => column.groups.some(({ panes }) => panes.includes(pane)));
  const others = layout.columns.filter((column) => column !== wide);
  if (!wide) return layout;
  const column = { ...wide, weight: WIDE_WEIGHT };
  const beside = others.length ? [{ groups: others.flatMap(({ groups }) => groups), weight: 1 }] : [];
  const dockShare = Math.min(layout.dockShare, WIDE_DOCK_SHARE);
  return activate({ ...layout, columns: [...beside, column], dockShare }, pane);
}

/** Restores a saved layout with exactly the panes in `available`. Returns `fallback` if it cannot be read. */
export function restoreLayout(saved: unknown, available: readonly Pane[], fallback: Layout): Layout {
  if (!isKept(saved)) return fallback;
  const seen = new Set<Pane>();
  const keep = (group: Group): Group[] => {
    const panes = group.panes.filter((p) => available.includes(p) && !seen.has(p));
    panes.forEach((p) => seen.add(p));
    if (!panes.length) return [];
    return [{ panes, active: panes.includes(group.active) ? group.active : panes[0]!, weight: group.weight }];
  };
  const columns = saved.columns
    .map((column) => ("groups" in column ? column : { groups: [{ ...column, weight: 1 }], weight: column.weight }))
    .map(({ groups, weight }) => ({ groups: groups.flatMap(keep), weight }))
    .filter(({ groups }) => groups.length);
  const dock = (saved.dock && keep(saved.dock)[0]) ?? null;
  const hidden = (saved.hidden ?? []).filter((pane) => available.includes(pane) && !seen.has(pane));
  if (!columns.length || seen.size + new Set(hidden).size !== new Set(available).size) return fallback;
  const { dockOpen = fallback.dockOpen, dockShare = fallback.dockShare } = saved;
  const isShare = ([pane, share]: [string, unknown]): boolean =>
    available.includes(pane as Pane) && typeof share === "number" && share > 0 && share < 1;
  const dockShares = Object.fromEntries(Object.entries(saved.dockShares ?? {}).filter(isShare));
  return { version: 2, columns, dock, hidden, dockOpen, dockShare, dockShares };
}

/** Returns whether two layouts are equal. */
export function isSameLayout(one: Layout, other: Layout): boolean {
  const group = ({ panes, active, weight }: Group): unknown => [panes, active, weight];
  const column = ({ groups, weight }: Column): unknown => [groups.map(group), weight];
  const shares = ({ dockShares }: Layout): unknown => Object.entries(dockShares).sort();
  const key = (layout: Layout): string => {
    const { columns, dock, hidden, dockOpen, dockShare } = layout;
    return JSON.stringify([columns.map(column), dock && group(dock), hidden, dockOpen, dockShare, shares(layout)]);
  };
  return key(one) === key(other);
}

/** Adapts a layout to another width if no pane was moved: the default layout, with the same active panes. */
export function fitted(layout: Layout, shape: Shape, usual: (shape: Shape) => Layout): Layout {
  const { dockOpen, dockShare, dockShares } = layout;
  const isUsual = (each: Shape): boolean => isSamePlacing({ ...usual(each), dockOpen }, layout);
  if (!SHAPES.some(isUsual) || isUsual(shape)) return layout;
  const fronts = groupsOf(layout).map(([, { active }]) => active);
  return { ...fronts.reverse().reduce(activate, usual(shape)), dockOpen, dockShare, dockShares };
}

/** Returns whether the panes are in the same groups, ignoring active panes and sizes. */
export function isSamePlacing(one: Layout, other: Layout): boolean {
  const key = ({ columns, dock, hidden, dockOpen }: Layout): string =>
    JSON.stringify([columns.map(({ groups }) => groups.map(({ panes }) => panes)), dock?.panes, hidden, dockOpen]);
  return key(one) === key(other);
}

/** Returns all groups with their keys, the dock last. */
export function groupsOf({ columns, dock }: Layout): [GroupKey, Group][] {
  const stacked = columns.flatMap(({ groups }, i) => groups.map((group, j): [GroupKey, Group] => [`${i}.${j}`, group]));
  return dock ? [...stacked, ["dock", dock]] : stacked;
}

export function groupAt(layout: Layout, key: GroupKey): Group | null {
  return groupsOf(layout).find(([each]) => each === key)?.[1] ?? null;
}

export function groupOf(layout: Layout, pane: Pane): GroupKey | null {
  return groupsOf(layout).find(([, { panes }]) => panes.includes(pane))?.[0] ?? null;
}

/** Makes a pane the active one of its group. Opens the dock if the pane is there. */
export function activate(layout: Layout, pane: Pane): Layout {
  const isDocked = groupOf(layout, pane) === "dock";
  const front = (group: Group): Group => (group.panes.includes(pane) ? { ...group, active: pane } : group);
  return { ...changed(layout, (group) => [front(group)]), dockOpen: layout.dockOpen || isDocked };
}

/** Moves the border after column `index` by a share of the width. */
export function resizeColumns(layout: Layout, index: number, share: number): Layout {
  return { ...layout, columns: resized(layout.columns, index, share) };
}

/** Moves the border below group `index` of a column by a share of the column's height. */
export function resizeGroups(layout: Layout, column: number, index: number, share: number): Layout {
  const resizedIn = (each: Column): Column => ({ ...each, groups: resized(each.groups, index, share) });
  return { ...layout, columns: layout.columns.map((each, i) => (i === column ? resizedIn(each) : each)) };
}

/** Returns the position of the border after part `index`, from 0 to 1. */
export function borderOf(parts: readonly { readonly weight: number }[], index: number): number {
  const sum = (some: readonly { readonly weight: number }[]): number =>
    some.reduce((all, { weight }) => all + weight, 0);
  return sum(parts.slice(0, index + 1)) / Math.max(sum(parts), Number.MIN_VALUE);
}

/** Resets the column widths to those of `usual`, or to equal widths if its number of columns differs. */
export function evened(layout: Layout, usual: Layout): Layout {
  const isAlike = usual.columns.length === layout.columns.length;
  const weight = (index: number): number => (isAlike ? usual.columns[index]!.weight : 1);
  return { ...layout, columns: layout.columns.map((column, index) => ({ ...column, weight: weight(index) })) };
}

/** Returns the share of the height that the dock takes for its active pane. */
export function dockShareOf({ dock, dockShare, dockShares }: Layout): number {
  return (dock && dockShares[dock.active]) ?? dockShare;
}

/** Sets the height of the dock for its active pane. */
export function resizeDock(layout: Layout, share: number): Layout {
  const { dock, dockShares } = layout;
  if (!dock) return layout;
  const clipped = Math.max(0.12, Math.min(0.8, share));
  return { ...layout, dockShares: { ...dockShares, [dock.active]: clipped }, dockOpen: true };
}

/** Replaces each group by the groups that `change` returns, and removes empty ones. Keeps the last column. */
export function changed(layout: Layout, change: (group: Group) => Group[]): Layout {
  const kept = (group: Group): Group[] => change(group).filter(({ panes }) => panes.length);
  const columns = layout.columns
    .map((column) => ({ ...column, groups: column.groups.flatMap(kept) }))
    .filter(({ groups }) => groups.length);
  if (!columns.length) return layout;
  return { ...layout, columns, dock: (layout.dock && kept(layout.dock)[0]) ?? null };
}

/** Returns a new group of panes. */
export function groupWith(panes: Pane[]): Group {
  return { panes, active: preferred(panes), weight: 1 };
}

function columnOf(groups: readonly Pane[][]): Column {
  return { groups: groups.filter((panes) => panes.length).map(groupWith), weight: 1 };
}

/** Moves the border after a part by a share of the whole. No part becomes smaller than `LEAST_SHARE`. */
function resized<T extends { readonly weight: number }>(parts: readonly T[], index: number, share: number): T[] {
  const total = parts.reduce((sum, { weight }) => sum + weight, 0);
  const [before, after] = [parts[index], parts[index + 1]];
  if (!before || !after) return [...parts];
  const least = LEAST_SHARE * total;
  const delta = Math.max(least - before.weight, Math.min(after.weight - least, share * total));
  const by = new Map([
    [before, delta],
    [after, -delta],
  ]);
  return parts.map((part) => ({ ...part, weight: part.weight + (by.get(part) ?? 0) }));
}

/** Returns the pane to show first: the first one, or StableHLO in a group of compiler inputs, as most users know it. */
function preferred(panes: readonly Pane[]): Pane {
  return panes.includes("source") || !panes.includes("stablehlo") ? panes[0]! : "stablehlo";
}

function isKept(value: unknown): value is Kept {
  const layout = value as Kept | null;
  if (typeof layout !== "object" || layout === null || !Array.isArray(layout.columns)) return false;
  return layout.version === 1 || layout.version === 2;
}
