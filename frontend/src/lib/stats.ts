// The stats of all variants side by side.

import type { Stats, StatsRow } from "../messages.ts";

export interface StatsCell {
  readonly row: StatsRow | null;
  /** The difference from the reference variant; null unless both numbers are completely known. */
  readonly delta: number | null;
  /** "better" or "worse" only if less is better for this row and the numbers differ. */
  readonly verdict: "better" | "worse" | "same" | "unknown";
  /** Ratio to the largest value in the row, for a bar. */
  readonly share: number;
}

export interface StatsLine {
  readonly key: string;
  readonly label: string;
  /** The heading of the line; "" in older recordings. */
  readonly group: string;
  readonly unit: StatsRow["unit"];
  readonly cells: StatsCell[];
}

/**
 * Returns the lines, in the order of their first appearance.
 *
 * @param columns one entry per variant; null without stats.
 * @param references for each column the index of its reference column; null for none.
 */
export function tabulate(columns: readonly (Stats | null)[], references: readonly (number | null)[]): StatsLine[] {
  const first = new Map<string, StatsRow>();
  for (const row of columns.flatMap((c) => c?.rows ?? [])) if (!first.has(row.key)) first.set(row.key, row);
  return [...first.values()].map(({ key, label, group, unit }) => {
    const rows = columns.map((c) => c?.rows.find((r) => r.key === key) ?? null);
    const largest = Math.max(0, ...rows.map((r) => Math.abs(r?.value ?? 0)));
    const base = (i: number): number | null => exact(rows[references[i] ?? -1] ?? null);
    return { key, label, group: group ?? "", unit, cells: rows.map((row, i) => cell(row, base(i), largest)) };
  });
}

/** Returns the lines by their heading, in the order of its first appearance. */
export function groupsOf(lines: readonly StatsLine[]): [string, StatsLine[]][] {
  const groups = new Map<string, StatsLine[]>();
  for (const line of lines) groups.set(line.group, [...(groups.get(line.group) ?? []), line]);
  return [...groups];
}

/** Returns whether a number is known only partially. */
export const isPartial = (row: StatsRow): boolean => row.value !== null && row.reason !== null;

const exact = (row: StatsRow | null): number | null => (row && !isPartial(row) ? row.value : null);

function cell(row: StatsRow | null, base: number | null, largest: number): StatsCell {
  const value = row?.value ?? null;
  const known = exact(row);
  const delta = known === null || base === null ? null : known - base;
  const share = value === null || !largest ? 0 : Math.abs(value) / largest;
  if (delta === null || !row) return { row, delta, share, verdict: "unknown" };
  if (delta === 0) return { row, delta, share, verdict: "same" };
  const verdict = row.less_is_better ? (delta < 0 ? "better" : "worse") : "unknown";
  return { row, delta, share, verdict };
}
