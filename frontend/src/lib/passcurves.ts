// Durations and counts of compiler passes as SVG paths, for the strip above the passes.

import type * as messages from "../messages.ts";

export type Scale = "log" | "linear";
export type Count = keyof messages.ModuleCounts;

/** Returns the height of a bar between 0 and 1. */
export function barHeight(seconds: number, longest: number, shortest: number, scale: Scale): number {
  if (seconds <= 0 || longest <= 0) return 0;
  if (scale === "linear") return seconds / longest;
  const low = Math.min(shortest, longest / 10);
  return Math.max(0.04, Math.log(seconds / low) / Math.log(longest / low));
}

/** Returns bars of unit width as one path, in a box of `rows.length` by 1. */
export function barsPath(
  rows: readonly messages.PassRow[],
  isOf: (row: messages.PassRow) => boolean,
  scale: Scale,
): string {
  const known = rows.flatMap(({ duration_s }) => (duration_s ? [duration_s] : []));
  const [longest, shortest] = [Math.max(0, ...known), Math.min(Infinity, ...known)];
  return rows
    .map((row, i) => {
      const height = row.duration_s && isOf(row) ? barHeight(row.duration_s, longest, shortest, scale) : 0;
      return height ? `M${i},1V${(1 - height).toFixed(4)}h1V1z` : "";
    })
    .join("");
}

/** Returns a count after each pass as a step curve in the same box, with its maximum at the top; "" without counts. */
export function curvePath(list: messages.PassList, count: Count): string {
  const values = list.rows.map(({ counts }) => counts?.[count] ?? null);
  const start = list.start?.[count] ?? null;
  const most = Math.max(start ?? 0, ...values.map((value) => value ?? 0));
  if (start === null || values.some((value) => value === null)) return "";
  const y = (value: number): string => (most ? 1 - (0.94 * value) / most : 1).toFixed(4);
  let path = `M0,${y(start)}`;
  let level = start;
  values.forEach((value, i) => {
    if (value === level) return;
    path += `H${i}V${y(value!)}`;
    level = value!;
  });
  return `${path}H${values.length}`;
}

/** Returns the next listed pass in a direction, or `index` if there is none. */
export function nextOf(listed: readonly number[], index: number, direction: 1 | -1): number {
  const found = direction > 0 ? listed.find((i) => i > index) : [...listed].reverse().find((i) => i < index);
  return found ?? index;
}

/** Returns the listed pass that is nearest to a position between 0 and 1. */
export function nearest(listed: readonly number[], count: number, place: number): number {
  const wanted = place * count - 0.5;
  return listed.reduce((best, i) => (Math.abs(i - wanted) < Math.abs(best - wanted) ? i : best), listed[0] ?? 0);
}

/** Returns the counts of the module before a pass. */
export function countsBefore(list: messages.PassList, index: number): messages.ModuleCounts | null {
  return index > 0 ? (list.rows[index - 1]!.counts ?? null) : list.start;
}

interface Part {
  readonly part: messages.CompileTimePart;
  readonly start: number;
  readonly share: number;
}

/** Returns the known parts of a compile's time, each with its start and share between 0 and 1. */
export function timeParts(times: readonly messages.CompileTimePart[]): Part[] {
  const total = times.reduce((sum, { duration_s }) => sum + (duration_s ?? 0), 0);
  let start = 0;
  return times.flatMap((part) => {
    if (!part.duration_s || !total) return [];
    const share = part.duration_s / total;
    start += share;
    return [{ part, start: start - share, share }];
  });
}
