// How the panes are arranged: pure functions over a small versioned value.

import { type Pane, PANES, type Place } from "../messages.ts";

/** Panes behind one row of tabs. */
export interface Group {
  panes: Pane[];
  active: Pane;
  /** Share of the height of its column. */
  weight: number;
}

/** Groups one below the other. */
export interface Column {
  groups: Group[];
  /** Share of the width. */
  weight: number;
}

export interface Layout {
  version: 2;
  columns: Column[];
  /** The panel below the columns; null when it has no panes. */
  dock: Group | null;
  /** Panes that are nowhere. */
  hidden: Pane[];
  dockOpen: boolean;
  /** Share of the height that the open dock takes. */
  dockShare: number;
}

/** "dock", or a column and a group in it. */
export type GroupKey = "dock" | `${number}.${number}`;

/** What a layout may be that was made for one with a row of groups. */
type Kept = Partial<Omit<Layout, "version" | "columns">> & {
  readonly version: 1 | 2;
  readonly columns: readonly (Column | Group)[];
};

/** How many columns there is room for: two of tabs, two of which one is stacked, or three. */
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

export function defaultLayout(available: readonly Pane[], shape: Shape): Layout {
  const at = (place: Place): Pane[] =>
    PANES.filter((line) => line.place === place && available.includes(line.name)).map(({ name }) => name);
  const [left, middle, right] = COLUMNS.map(at) as [Pane[], Pane[], Pane[]];
  const columns = {
    two: [[[...left, ...middle]], [right]],
    stacked: [[left, middle], [right]],
    three: [[left], [middle], [right]],
  };
  const docked = at("dock");
  return {
    version: 2,
    columns: columns[shape].map(columnOf).filter(({ groups }) => groups.length),
    dock: docked.length ? groupWith(docked) : null,
    hidden: [],
    dockOpen: true,
    dockShare: 0.36,
  };
}

export type Preset = "read" | "compare" | "communicate" | "memory";

/** Layouts for a purpose: what is at the front of the panel below, and how high that is. */
export const PRESETS: readonly { readonly value: Preset; readonly text: string }[] = [
  { value: "read", text: "read" },
  { value: "compare", text: "compare variants" },
  { value: "communicate", text: "communication" },
  { value: "memory", text: "memory" },
];
const FRONTS: Readonly<Record<Preset, { readonly dock: Pane; readonly share: number; readonly isOpen: boolean }>> = {
  read: { dock: "instructions", share: 0.36, isOpen: false },
  compare: { dock: "stats", share: 0.36, isOpen: true },
  communicate: { dock: "collectives", share: 0.5, isOpen: true },
  memory: { dock: "memory", share: 0.55, isOpen: true },
};

export function presetLayout(preset: Preset, available: readonly Pane[], shape: Shape): Layout {
  const { dock, share, isOpen } = FRONTS[preset];
  return { ...activate(defaultLayout(available, shape), dock), dockShare: share, dockOpen: isOpen };
}

/** The layout where one pane shows several texts side by side: it is wide, what is in other columns is stacked in one. */
export function widened(layout: Layout, pane: Pane): Layout {
  const wide = layout.columns.find((column) => column.groups.some(({ panes }) => panes.includes(pane)));
  const others = layout.columns.filter((column) => column !== wide);
  if (!wide) return layout;
  const column = { ...wide, weight: WIDE_WEIGHT };
  const beside = others.length ? [{ groups: others.flatMap(({ groups }) => groups), weight: 1 }] : [];
  const dockShare = Math.min(layout.dockShare, WIDE_DOCK_SHARE);
  return activate({ ...layout, columns: [...beside, column], dockShare }, pane);
}

/** A saved layout made to hold exactly `available`, and nothing besides; `fallback` when it cannot be read. */
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
  return { version: 2, columns, dock, hidden, dockOpen, dockShare };
}

/** Whether two layouts arrange the panes alike. */
export function isSameLayout(one: Layout, other: Layout): boolean {
  const group = ({ panes, active, weight }: Group): unknown => [panes, active, weight];
  const column = ({ groups, weight }: Column): unknown => [groups.map(group), weight];
  const key = ({ columns, dock, hidden, dockOpen, dockShare }: Layout): string =>
    JSON.stringify([columns.map(column), dock && group(dock), hidden, dockOpen, dockShare]);
  return key(one) === key(other);
}

/** A layout in which no pane was moved, as it is usual for another width, with the same panes at the front. */
export function fitted(layout: Layout, shape: Shape, usual: (shape: Shape) => Layout): Layout {
  const { dockOpen, dockShare } = layout;
  const isUsual = (each: Shape): boolean => isSamePlacing({ ...usual(each), dockOpen }, layout);
  if (!SHAPES.some(isUsual) || isUsual(shape)) return layout;
  const fronts = groupsOf(layout).map(([, { active }]) => active);
  return { ...fronts.reverse().reduce(activate, usual(shape)), dockOpen, dockShare };
}

/** Whether the panes stand in the same groups, whatever is at the front and how large the groups are. */
export function isSamePlacing(one: Layout, other: Layout): boolean {
  const key = ({ columns, dock, hidden, dockOpen }: Layout): string =>
    JSON.stringify([columns.map(({ groups }) => groups.map(({ panes }) => panes)), dock?.panes, hidden, dockOpen]);
  return key(one) === key(other);
}

/** Every group with its key, those of the columns first. */
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

/** Brings a pane to the front of its group, and opens the dock when it is there. */
export function activate(layout: Layout, pane: Pane): Layout {
  const isDocked = groupOf(layout, pane) === "dock";
  const front = (group: Group): Group => (group.panes.includes(pane) ? { ...group, active: pane } : group);
  return { ...changed(layout, (group) => [front(group)]), dockOpen: layout.dockOpen || isDocked };
}

/** The same columns with other weights. */
export function resizeColumns(layout: Layout, index: number, share: number): Layout {
  return { ...layout, columns: resized(layout.columns, index, share) };
}

/** Moves the border below group `index` of a column by a share of the column's height. */
export function resizeGroups(layout: Layout, column: number, index: number, share: number): Layout {
  const resizedIn = (each: Column): Column => ({ ...each, groups: resized(each.groups, index, share) });
  return { ...layout, columns: layout.columns.map((each, i) => (i === column ? resizedIn(each) : each)) };
}

/** Where the border behind part `index` stands, from 0 to 1. */
export function borderOf(parts: readonly { readonly weight: number }[], index: number): number {
  const sum = (some: readonly { readonly weight: number }[]): number =>
    some.reduce((all, { weight }) => all + weight, 0);
  return sum(parts.slice(0, index + 1)) / Math.max(sum(parts), Number.MIN_VALUE);
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

/** A layout with other groups in the place of each; what is empty then goes away. The last column stays. */
export function changed(layout: Layout, change: (group: Group) => Group[]): Layout {
  const kept = (group: Group): Group[] => change(group).filter(({ panes }) => panes.length);
  const columns = layout.columns
    .map((column) => ({ ...column, groups: column.groups.flatMap(kept) }))
    .filter(({ groups }) => groups.length);
  if (!columns.length) return layout;
  return { ...layout, columns, dock: (layout.dock && kept(layout.dock)[0]) ?? null };
}

/** A group with panes that stand together. */
export function groupWith(panes: Pane[]): Group {
  return { panes, active: preferred(panes), weight: 1 };
}

function columnOf(groups: readonly Pane[][]): Column {
  return { groups: groups.filter((panes) => panes.length).map(groupWith), weight: 1 };
}

/** Parts with the border behind one of them moved by a share of the whole; none is closed. */
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

/** Where nothing else is said, the source; of what the compiler gets the StableHLO is what most readers know. */
function preferred(panes: readonly Pane[]): Pane {
  return panes.includes("source") || !panes.includes("stablehlo") ? panes[0]! : "stablehlo";
}

function isKept(value: unknown): value is Kept {
  const layout = value as Kept | null;
  if (typeof layout !== "object" || layout === null || !Array.isArray(layout.columns)) return false;
  return layout.version === 1 || layout.version === 2;
}
