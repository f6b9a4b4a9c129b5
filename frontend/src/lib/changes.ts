// What differs between two programs, as the lines of a list: headings by kind, and the changes below those not folded.

import type { Change } from "../messages.ts";
import { format, formatDelta, plural } from "./format.ts";

/** Flops before and after, bytes before and after, of one execution; null where not known. */
export type Cost = readonly (number | null)[];

export interface HeadingItem {
  readonly heading: string;
  readonly count: number;
  readonly isFolded: boolean;
}

export interface ChangeItem {
  readonly change: Change;
  readonly index: number;
}

export type Item = HeadingItem | ChangeItem;

/** The lines of the list; what matches no filter is left out. */
export function itemsOf(changes: readonly Change[], folded: ReadonlySet<string>, filter: string): Item[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = (change: Change): boolean => {
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

/** Both sides in one line: `a → b, c`, `+ b`, `− a`, or the one name that both have. */
export function namesOf({ before, after, names }: Change): string {
  const rest = names - before.length - after.length;
  const more = rest > 0 ? `, ${rest} more` : "";
  const [a, b] = [before.join(", "), after.join(", ")];
  if (!a && !b) return "";
  if (!a) return `+ ${b}${more}`;
  if (!b) return `− ${a}${more}`;
  return a === b ? a : `${a} → ${b}${more}`;
}

/** How much more or less it costs, in few words; "" where that is nothing or not known. */
export function costOf(cost: Cost | undefined): string {
  if (!cost) return "";
  const [flopsBefore, flopsAfter, bytesBefore, bytesAfter] = cost as [number, number, number, number];
  const bytes = bytesAfter - bytesBefore;
  if (bytesBefore !== null && bytesAfter !== null && bytes) return formatDelta(bytes, "bytes");
  const flops = flopsAfter - flopsBefore;
  return flopsBefore !== null && flopsAfter !== null && flops ? `${formatDelta(flops, "count")} flop` : "";
}

/** All that is known of what a change costs, for a tooltip. */
export function costWords(cost: Cost | undefined, unknown: string | undefined): string {
  if (!cost) return "";
  const side = (value: number | null | undefined, unit: "bytes" | "count"): string =>
    value === null || value === undefined ? "not known" : format(value, unit);
  const words = [
    `flops ${side(cost[0], "count")} → ${side(cost[1], "count")}`,
    `bytes ${side(cost[2], "bytes")} → ${side(cost[3], "bytes")} (one execution)`,
  ];
  return [...words, unknown].filter(Boolean).join("\n");
}

/** `12, "split"` -> `12 split`. */
export function headingWords(heading: string, count: number): string {
  return `${heading[0]!.toUpperCase()}${heading.slice(1)} · ${plural(count, "change")}`;
}
