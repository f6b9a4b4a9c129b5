// The contents of a memory at a position of the schedule, and their sums.

import type * as messages from "../messages.ts";

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
