// The drawn positions of a mesh: the last axis is horizontal, the one before it vertical, and the others form panels.

import type { CollectiveMessage, MeshMessage } from "../messages.ts";
import { grouped } from "./format.ts";

/** A cell: its column and row, counted across panels, and its panel. */
export interface Cell {
  readonly index: number;
  readonly id: number;
  readonly coordinates: number[];
  readonly column: number;
  readonly row: number;
  readonly panel: number;
}

export interface Grid {
  readonly cells: Cell[];
  readonly columns: number;
  readonly rows: number;
  /** Size of one panel in cells. */
  readonly panelColumns: number;
  readonly panelRows: number;
  readonly panelsAcross: number;
  readonly panelCount: number;
}

const WIDEST_ROW = 16;

/** Returns the grid of a mesh. The row of a mesh with one axis wraps. */
export function gridOf(mesh: MeshMessage): Grid {
  const sizes = mesh.axis_sizes;
  const total = sizes.reduce((a, b) => a * b, 1);
  const last = sizes[sizes.length - 1] ?? 1;
  const isWrapped = sizes.length < 2 && last > WIDEST_ROW;
  const panelColumns = isWrapped ? WIDEST_ROW : last;
  const panelRows = isWrapped ? Math.ceil(last / WIDEST_ROW) : (sizes[sizes.length - 2] ?? 1);
  const perPanel = isWrapped ? last : panelColumns * panelRows;
  const panelCount = perPanel ? total / perPanel : 0;
  const panelsAcross = Math.max(
    1,
    Math.min(sizes[sizes.length - 3] ?? 1, Math.ceil(WIDEST_ROW / Math.max(1, panelColumns))),
  );
  const cells = Array.from({ length: total }, (_, index): Cell => {
    const panel = Math.floor(index / perPanel);
    const inside = index % perPanel;
    return {
      index,
      id: mesh.device_ids?.[index] ?? index,
      coordinates: coordinatesOf(index, sizes),
      column: (panel % panelsAcross) * panelColumns + (inside % panelColumns),
      row: Math.floor(panel / panelsAcross) * panelRows + Math.floor(inside / panelColumns),
      panel,
    };
  });
  return {
    cells,
    columns: panelsAcross * panelColumns,
    rows: Math.ceil(panelCount / panelsAcross) * panelRows,
    panelColumns,
    panelRows,
    panelsAcross,
    panelCount,
  };
}

/** Returns the row-major coordinates of a position. */
export function coordinatesOf(index: number, sizes: readonly number[]): number[] {
  const coordinates: number[] = [];
  let rest = index;
  for (let axis = sizes.length - 1; axis >= 0; axis--) {
    coordinates.unshift(rest % sizes[axis]!);
    rest = Math.floor(rest / sizes[axis]!);
  }
  return coordinates;
}

/** Returns a mesh for devices without one: a row of ids. */
export function rowMesh(ids: readonly number[]): MeshMessage {
  const sorted = [...new Set(ids)].sort((a, b) => a - b);
  return {
    axis_names: ["logical id"],
    axis_sizes: [sorted.length],
    kind: "partition",
    device_ids: sorted,
    physical_ids: null,
  };
}

/** Returns groups in one line, such as `4 × 2: {0,1} {2,3} …`. */
export function groupsText(
  row: Pick<CollectiveMessage, "groups" | "group_count" | "group_sizes" | "is_pairs">,
  shown = 3,
): string {
  const { groups, group_count: all, is_pairs: isPairs } = row;
  if (!all) return "all devices";
  const some = groups.slice(0, shown).map((g) => (isPairs ? g.join("→") : `{${compact(g)}}`));
  const rest = all > some.length ? " …" : "";
  const [smallest, largest] = row.group_sizes;
  const count = isPairs
    ? `${grouped(all)} pair${all === 1 ? "" : "s"}`
    : `${grouped(all)} × ${smallest === largest ? grouped(largest) : `${grouped(smallest)}–${grouped(largest)}`}`;
  return `${count}: ${some.join(" ")}${rest}`;
}

function compact(ids: readonly number[]): string {
  return ids.length <= 8 ? ids.join(",") : `${ids.slice(0, 4).join(",")},…,${ids[ids.length - 1]}`;
}

/** Returns the pairs of a permute that contain an id, such as "pair 0: 3 → 0 · pair 1: 0 → 1". */
export function pairsText(pairs: readonly (readonly number[])[], id: number): string {
  const own = pairs.flatMap(([source, target], pair) =>
    source === id || target === id ? [`pair ${pair}: ${source} → ${target}`] : [],
  );
  return own.join(" · ") || "not in any pair";
}
