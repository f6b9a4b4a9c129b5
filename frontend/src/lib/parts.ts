// Which part of an array each device of a mesh holds: as `inspector.analysis.sharding.array_sharding.Sharding`.

import { coordinatesOf } from "./meshgrid.ts";

/** From one index until before another. */
export type Range = readonly [number, number];

export interface Split {
  readonly shape: readonly number[];
  /** Of each dimension, the mesh axes that split it, the first the slowest. */
  readonly axes: readonly (readonly string[])[];
  readonly axisNames: readonly string[];
  readonly axisSizes: readonly number[];
  /** Of the devices, at each position of the mesh. */
  readonly ids: readonly number[];
}

export interface Part {
  readonly ranges: readonly Range[];
  readonly ids: number[];
  /** It has less than others, because a dimension does not divide; or nothing. */
  readonly isShort: boolean;
}

/** How many parts a dimension goes in. */
function countOf({ axisNames, axisSizes }: Split, axes: readonly string[]): number {
  return axes.reduce((count, axis) => count * axisSizes[axisNames.indexOf(axis)]!, 1);
}

/** Of a part that is not short: parts of ceil(n / k), as XLA pads. */
export function partShape(split: Split): number[] {
  return split.shape.map((size, d) => Math.ceil(size / countOf(split, split.axes[d]!)));
}

/** All different parts with the devices that hold them, in the order of the mesh. */
export function partsOf(split: Split): Part[] {
  const steps = partShape(split);
  const found = new Map<string, Part>();
  split.ids.forEach((id, position) => {
    const place = coordinatesOf(position, split.axisSizes);
    const ranges = split.shape.map((size, d): Range => {
      const index = split.axes[d]!.reduce((at, axis) => {
        const number = split.axisNames.indexOf(axis);
        return at * split.axisSizes[number]! + place[number]!;
      }, 0);
      return [Math.min(index * steps[d]!, size), Math.min((index + 1) * steps[d]!, size)];
    });
    const key = ranges.join(";");
    const part = found.get(key);
    if (part) part.ids.push(id);
    else found.set(key, { ranges, ids: [id], isShort: ranges.some(([a, b], d) => b - a !== steps[d]) });
  });
  return [...found.values()];
}

/** Two dimensions to draw: those that are split first, else the last ones. */
export function shownDimensions(split: Split): number[] {
  const all = split.shape.map((_, d) => d);
  const isSplit = (d: number): boolean => countOf(split, split.axes[d]!) > 1;
  return [...all.filter(isSplit), ...all.filter((d) => !isSplit(d)).reverse()].slice(0, 2).sort((a, b) => a - b);
}

/** As inspector writes a split: `(data, -, model)`. */
export function specText(axes: readonly (readonly string[])[]): string {
  return `(${axes.map((names) => names.join("+") || "-").join(", ")})`;
}
