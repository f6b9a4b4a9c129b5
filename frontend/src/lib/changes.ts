// The differences between two programs as the rows of a list: headings by kind, with the changes below unfolded ones.

import type { ChangeMessage } from "../messages.ts";
import { format, formatDelta, plural } from "./format.ts";

/** FLOPs before and after, and bytes before and after, per execution; null if unknown. */
type Cost = readonly (number | null)[];

export interface HeadingItem {
  readonly heading: string;
  readonly count: number;
  readonly isFolded: boolean;
}

export interface ChangeItem {
  readonly change: ChangeMessage;
  readonly index: number;
}

export type Item = HeadingItem | ChangeItem;

/** Returns the rows of the list that match the filter. */
export function itemsOf(changes: readonly ChangeMessage[], folded: ReadonlySet<string>, filter: string): Item[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = (change: ChangeMessage): boolean => {
    const text = [change.kind, change.opcode, ...change.before, ...change.after, change.what].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  };
  const items: Item[] = [];
  const byKind = new Map<string, ChangeItem[]>();
  changes.forEach((change, index) => {
    if (!matches(change)) return;
    if (!byKind.has(change.kind)) byKind.set(change.kind, []);
    byKind.get(change.kind)!.push({ change, index });
  });
  for (const [heading, rows] of byKind) {
    const isFolded = folded.has(heading);
    items.push({ heading, count: rows.length, isFolded });
    if (!isFolded) items.push(...rows);
  }
  return items;
}

/** Returns both sides in one line: `a → b, c`, `+ b`, `− a`, or the name that both share. */
export function namesOf({ before, after, names }: ChangeMessage): string {
  const rest = names - before.length - after.length;
  const more = rest > 0 ? `, ${rest} more` : "";
  const [a, b] = [before.join(", "), after.join(", ")];
  if (!a && !b) return "";
  if (!a) return `+ ${b}${more}`;
  if (!b) return `− ${a}${more}`;
  return a === b ? a : `${a} → ${b}${more}`;
}

/** Returns the change of the cost in short form; "" if it is zero or unknown. */
export function costOf(cost: Cost | undefined): string {
  if (!cost) return "";
  const [flopsBefore, flopsAfter, bytesBefore, bytesAfter] = cost as [number, number, number, number];
  const bytes = bytesAfter - bytesBefore;
  if (bytesBefore !== null && bytesAfter !== null && bytes) return formatDelta(bytes, "bytes");
  const flops = flopsAfter - flopsBefore;
  return flopsBefore !== null && flopsAfter !== null && flops ? `${formatDelta(flops, "count")} FLOPs` : "";
}

/** Returns the costs before and after a change, for a tooltip. */
export function costWords(cost: Cost | undefined, unknown: string | undefined): string {
  if (!cost) return "";
  const side = (value: number | null | undefined, unit: "bytes" | "count"): string =>
    value === null || value === undefined ? "unknown" : format(value, unit);
  const words = [
    `FLOPs ${side(cost[0], "count")} → ${side(cost[1], "count")}`,
    `Bytes ${side(cost[2], "bytes")} → ${side(cost[3], "bytes")} (per execution)`,
  ];
  return [...words, unknown].filter(Boolean).join("\n");
}

/** `"split", 12` -> `Split · 12 changes`. */
export function headingWords(heading: string, count: number): string {
  return `${heading[0]!.toUpperCase()}${heading.slice(1)} · ${plural(count, "change")}`;
}
