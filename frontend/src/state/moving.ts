// Moves of a pane in a layout: to the tabs of a group, or to a side of a group, which creates a new group.

import type { Pane } from "../messages.ts";
import {
  changed,
  type Column,
  type Group,
  groupAt,
  type GroupKey,
  groupOf,
  groupsOf,
  groupWith,
  type Layout,
} from "./layout.ts";

export type Side = "left" | "right" | "above" | "below";

/** The tabs of a group (or the dock), a new column at the right, "away" to hide the pane, or a side of a group. */
export type Destination = GroupKey | "column" | "away" | { readonly at: GroupKey; readonly side: Side };

/** Moves a pane. Removes groups that become empty, except the last column. */
export function movePane(layout: Layout, pane: Pane, to: Destination): Layout {
  const target = typeof to === "object" ? groupAt(layout, to.at) : null;
  if (typeof to === "object" && (!target || to.at === "dock" || isAlone(target, pane))) return layout;
  const without = changed(layout, (group) => placed(group, pane, target, to));
  const isLost = without === layout;
  if (isLost) return layout;
  const hidden = without.hidden.filter((each) => each !== pane);
  const moved = { ...without, hidden: to === "away" ? [...hidden, pane] : hidden };
  return typeof to === "object" ? beside(moved, pane, to.side) : added(moved, pane, to, layout);
}

/** Returns the destinations of a pane, with texts that complete "Move X ...". */
export function movesOf(
  layout: Layout,
  pane: Pane,
  titles: Readonly<Record<Pane, string>>,
): { readonly text: string; readonly to: Destination }[] {
  const own = groupOf(layout, pane);
  const isOnly = own !== null && groupAt(layout, own)!.panes.length === 1;
  const isColumn = isOnly && own !== "dock" && columnAt(layout, own).groups.length === 1;
  const others = groupsOf(layout).filter(([key]) => key !== own && key !== "dock");
  return [
    ...(own && own !== "dock" && !isOnly
      ? [{ text: "to a new group below", to: { at: own, side: "below" } as const }]
      : []),
    ...others.map(([at, { active }]) => ({ text: `below ${titles[active]}`, to: { at, side: "below" } as const })),
    ...(isColumn ? [] : [{ text: "to a new column", to: "column" as const }]),
    ...others.map(([to, { active }]) => ({ text: `to the tabs of ${titles[active]}`, to })),
    ...(own === "dock" ? [] : [{ text: "to the bottom panel", to: "dock" as const }]),
  ];
}

function columnAt(layout: Layout, key: GroupKey): Column {
  return layout.columns[Number(key.split(".")[0])]!;
}

function isAlone(group: Group, pane: Pane): boolean {
  return group.panes.length === 1 && group.panes[0] === pane;
}

/** Returns a group without the pane, with a new group for it above or below if that is its destination. */
function placed(group: Group, pane: Pane, target: Group | null, to: Destination): Group[] {
  const panes = group.panes.filter((each) => each !== pane);
  const left = { ...group, panes, active: group.active === pane ? (panes[0] ?? pane) : group.active };
  if (group !== target || typeof to !== "object") return [left];
  const half = { ...left, weight: group.weight / 2 };
  const made = { ...groupWith([pane]), weight: group.weight / 2 };
  return to.side === "above" || to.side === "left" ? [made, half] : [half, made];
}

/** Moves a pane that was put above or below its target into a separate column if `side` is left or right. */
function beside(layout: Layout, pane: Pane, side: Side): Layout {
  if (side === "above" || side === "below") return layout;
  const columns = layout.columns.flatMap((column): Column[] => {
    const made = column.groups.find((group) => isAlone(group, pane));
    if (!made) return [column];
    const at = column.groups.indexOf(made);
    const rest = column.groups.filter((group) => group !== made);
    const next = side === "left" ? at : at - 1;
    const grown = rest.map((group, i) => (i === next ? { ...group, weight: group.weight + made.weight } : group));
    const alone = { groups: [{ ...made, weight: 1 }], weight: column.weight / 2 };
    const half = { groups: grown, weight: column.weight / 2 };
    return side === "left" ? [alone, half] : [half, alone];
  });
  return { ...layout, columns };
}

/** Adds the pane to its destination. `before` is the layout before the move, to whose groups `to` refers. */
function added(layout: Layout, pane: Pane, to: GroupKey | "column" | "away", before: Layout): Layout {
  if (to === "away") return layout;
  if (to === "column") return { ...layout, columns: [...layout.columns, { groups: [groupWith([pane])], weight: 1 }] };
  const add = (group: Group): Group => ({ ...group, panes: [...group.panes, pane], active: pane });
  if (to === "dock")
    return { ...layout, dock: add(layout.dock ?? { panes: [], active: pane, weight: 1 }), dockOpen: true };
  const target = groupAt(before, to);
  const found = target?.panes.find((each) => each !== pane);
  if (found === undefined) return before;
  return changed(layout, (group) => [group.panes.includes(found) ? add(group) : group]);
}
