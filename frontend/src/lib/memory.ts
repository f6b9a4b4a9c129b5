// The contents of a memory at a position of the schedule, and their sums.

import type * as messages from "../messages.ts";

/** The choice that stands for the main memories of all variants if their names differ, such as RAM and HBM. */
const MAIN = "Main memory";

export type GroupedBy = "buffer" | "scope" | "line" | "kind" | "phase";

/** A group of buffers. `row` is that of the largest one. */
export interface Share {
  readonly name: string;
  readonly bytes: number;
  readonly count: number;
  readonly padding: number;
  readonly row: number;
}

/** A rectangle of a treemap, in the units of its width and height. */
interface Tile {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly share: Share;
}

/**
 * Returns the rows of the buffers that are live in a memory at a position, in the order of the table, including all
 * arguments and outputs. Leaves out buffers that lie within another one, such as an operand whose memory the result
 * reuses, as `Timeline.alive` does.
 */
export function alive(buffers: messages.MemoryBuffers, room: number, position: number): number[] {
  const rows: number[] = [];
  const taken = new Map<number, [number, number][]>();
  for (let row = 0; row < buffers.bytes.length; row++) {
    if (buffers.room[row] !== room || buffers.start[row]! > position || position > buffers.end[row]!) continue;
    const allocation = buffers.allocation?.[row] ?? -1 - row; // older recordings lack this field
    const start = buffers.offset?.[row] ?? 0;
    const end = start + buffers.bytes[row]!;
    const places = taken.get(allocation) ?? [];
    if (places.some(([first, last]) => first <= start && end <= last)) continue;
    taken.set(allocation, [...places, [start, end]]);
    rows.push(row);
  }
  return rows;
}

/** Returns buffers summed by group, the largest sum first. */
export function shares(buffers: messages.MemoryBuffers, rows: readonly number[], by: GroupedBy): Share[] {
  const found = new Map<number, { bytes: number; count: number; padding: number; row: number }>();
  for (const row of rows) {
    const key = by === "buffer" ? row : buffers[by][row]!;
    const known = found.get(key);
    if (known) {
      known.bytes += buffers.bytes[row]!;
      known.padding += buffers.padding[row]!;
      known.count += 1;
    } else found.set(key, { bytes: buffers.bytes[row]!, count: 1, padding: buffers.padding[row]!, row });
  }
  return [...found]
    .map(([key, sum]) => ({ name: buffers.texts[by === "buffer" ? buffers.name[key]! : key]!, ...sum }))
    .sort((a, b) => b.bytes - a.bytes);
}

/** A curve as steps `[position, bytes]`, sorted by position. */
type Curve = readonly (readonly number[])[];

/** Returns the bytes of live temporaries at a position. */
export function liveAt(curve: Curve, position: number): number {
  let [low, high] = [0, curve.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (curve[middle]![0]! <= position) low = middle + 1;
    else high = middle;
  }
  return curve[low - 1]?.[1] ?? 0;
}

/** Returns the maximum of a curve in each of `parts` equal intervals between two positions. */
export function outline(curve: Curve, from: number, to: number, parts: number): number[] {
  let next = curve.findIndex(([position]) => position! > from);
  if (next < 0) next = curve.length;
  let level = liveAt(curve, from);
  return Array.from({ length: parts }, (_, i) => {
    const end = from + ((i + 1) / parts) * (to - from);
    let most = level;
    for (; next < curve.length && curve[next]![0]! < end; next++) {
      level = curve[next]![1]!;
      most = Math.max(most, level);
    }
    if (next < curve.length && curve[next]![0]! === end) {
      level = curve[next]![1]!;
      next += 1;
    }
    return most;
  });
}

/** Returns the position of a schedule at a share from 0 to 1. */
export function positionAt(share: number, length: number): number {
  return Math.max(0, Math.min(length - 1, Math.floor(share * length)));
}

/** Returns the share in the middle of a position, so that `positionAt` returns the position. */
export function shareOf(position: number, length: number): number {
  return (position + 0.5) / Math.max(1, length);
}

/** Returns the bytes that are allocated during the whole schedule: arguments, outputs and constants. */
export function alwaysIn(room: messages.MemoryRoom): number {
  return room.argument_bytes + room.output_bytes - room.alias_bytes + room.constant_bytes;
}

/** Returns the bytes beyond the memory's capacity; 0 if everything fits or the capacity is unknown. */
export function overflow(room: messages.MemoryRoom): number {
  return room.capacity_bytes === null ? 0 : Math.max(0, alwaysIn(room) + room.temp_bytes - room.capacity_bytes);
}

/** Returns the choices of memories of several variants, in order of their first appearance. */
export function choicesOf(variants: readonly (readonly messages.MemoryRoom[])[]): string[] {
  const mains = new Set(variants.flat().flatMap((room) => (room.is_main ? [room.name] : [])));
  return [...new Set(variants.flat().map(({ name }) => (mains.size > 1 && mains.has(name) ? MAIN : name)))];
}

/** Returns the index of a variant's memory for one of the choices; -1 if it has no such memory. */
export function roomAt(rooms: readonly messages.MemoryRoom[], choice: string): number {
  return rooms.findIndex(({ name, is_main: isMain }) => (choice === MAIN ? isMain : name === choice));
}

/** Returns the main memory, whose peak is in the headline, if it has temporaries; or else the largest memory, the first one. */
export function initialChoice(choices: readonly string[], rooms: readonly messages.MemoryRoom[]): string {
  const main = rooms.findIndex((room) => room.is_main && room.live_bytes > 0);
  return choices.find((choice) => roomAt(rooms, choice) === Math.max(0, main))!;
}

/** A column of the table of kinds of memory. `room` is the main memory of a variant without stats, such as a failed one. */
interface Kinds {
  readonly stats: messages.Stats | null;
  readonly room: messages.MemoryRoom | null;
  readonly reason: string;
}

/** Rows of the stats that describe a compiler's report or a kernel instead of a program's memory. */
const OTHERS = ["peak_memory_in_bytes", "vmem_scratch_bytes"];

/** Returns the kinds of memory of each variant. Every column has every row, with the reason of unknown numbers. */
export function kindsOf(columns: readonly Kinds[]): messages.Stats[] {
  const rows = new Map<string, messages.StatsRow>();
  for (const row of columns.flatMap(({ stats }) => stats?.rows ?? []))
    if (row.group === "memory" && !OTHERS.includes(row.key) && !rows.has(row.key)) rows.set(row.key, row);
  return columns.map(({ stats, room, reason }, variant) => ({
    type: "stats",
    variant,
    rows: [...rows.values()].map((row) => {
      const own = stats?.rows.find(({ key }) => key === row.key);
      if (own) return own;
      const value = stats ? absent(row.key) : room && planned(room, row.key);
      const why = stats ? "this program has no such memory" : reason;
      return { ...row, value, word: "", reason: value === null ? why : null };
    }),
  }));
}

/** Returns a number that only the stats of other variants list: they list host memory only if some is used. */
const absent = (key: string): number | null => (key.startsWith("host_") ? 0 : null);

/** Returns a number of a program that was not compiled to its end. */
function planned(room: messages.MemoryRoom, key: string): number | null {
  const sums: Record<string, number> = {
    peak_bytes: alwaysIn(room) + room.temp_bytes,
    argument_bytes: room.argument_bytes,
    output_bytes: room.output_bytes,
    alias_bytes: room.alias_bytes,
    temp_bytes: room.temp_bytes,
    constant_bytes: room.constant_bytes,
  };
  return sums[key] ?? null;
}

/** A group of buffers in several variants; null for a variant without such buffers. */
export interface SharedGroup {
  readonly name: string;
  readonly shares: readonly (Share | null)[];
}

/** Returns the groups of several variants side by side, the largest first. */
export function sideBySide(columns: readonly (readonly Share[])[]): SharedGroup[] {
  const groups = new Map<string, (Share | null)[]>();
  columns.forEach((shares, i) => {
    for (const share of shares) {
      if (!groups.has(share.name))
        groups.set(
          share.name,
          columns.map(() => null),
        );
      groups.get(share.name)![i] = share;
    }
  });
  const most = ({ shares }: SharedGroup): number => Math.max(...shares.map((share) => share?.bytes ?? 0));
  return [...groups].map(([name, shares]) => ({ name, shares })).sort((a, b) => most(b) - most(a));
}

/**
 * Returns a squarified treemap: rectangles with areas proportional to bytes, as square as possible.
 * Bruls, Huizing, van Wijk, "Squarified Treemaps", 2000.
 */
export function treemap(all: readonly Share[], width: number, height: number): Tile[] {
  const some = all.filter(({ bytes }) => bytes > 0);
  const total = some.reduce((sum, { bytes }) => sum + bytes, 0);
  if (!total || width <= 0 || height <= 0) return [];
  const scale = (width * height) / total;
  const tiles: Tile[] = [];
  let [x, y, w, h] = [0, 0, width, height];
  for (let start = 0; start < some.length;) {
    const side = Math.min(w, h);
    let end = start + 1;
    let sum = some[start]!.bytes * scale;
    while (end < some.length) {
      const more = sum + some[end]!.bytes * scale;
      if (worst(some, start, end + 1, more, side, scale) > worst(some, start, end, sum, side, scale)) break;
      sum = more;
      end += 1;
    }
    const depth = side ? sum / side : 0;
    let along = 0;
    for (const share of some.slice(start, end)) {
      const length = depth ? (share.bytes * scale) / depth : 0;
      tiles.push(
        w < h
          ? { x: x + along, y, width: length, height: depth, share }
          : { x, y: y + along, width: depth, height: length, share },
      );
      along += length;
    }
    if (w < h) [y, h] = [y + depth, h - depth];
    else [x, w] = [x + depth, w - depth];
    start = end;
  }
  return tiles;
}

/** Returns the largest aspect ratio of the rectangles of a row. */
function worst(all: readonly Share[], start: number, end: number, sum: number, side: number, scale: number): number {
  const square = (side * side) / (sum * sum);
  const [largest, smallest] = [all[start]!.bytes * scale, all[end - 1]!.bytes * scale];
  return Math.max(square * largest, 1 / (square * smallest));
}
