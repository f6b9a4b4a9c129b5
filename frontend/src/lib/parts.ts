// The part of an array on each device of a mesh, as in `inspector.analysis.sharding.array_sharding.Sharding`.

import { coordinatesOf } from "./meshgrid.ts";

/** A half-open range of indices. */
type Range = readonly [number, number];

export interface Split {
  readonly shape: readonly number[];
  /** The mesh axes that split each dimension, the slowest first. */
  readonly axes: readonly (readonly string[])[];
  readonly axisNames: readonly string[];
  readonly axisSizes: readonly number[];
  /** The device ids by mesh position. */
  readonly ids: readonly number[];
}

export interface Part {
  readonly ranges: readonly Range[];
  readonly ids: number[];
  /** Whether it is smaller than other parts or empty, because a dimension does not divide evenly. */
  readonly isShort: boolean;
}

/** Returns the number of parts of a dimension. */
function countOf({ axisNames, axisSizes }: Split, axes: readonly string[]): number {
  return axes.reduce((count, axis) => count * axisSizes[axisNames.indexOf(axis)]!, 1);
}

/** Returns the shape of a full part. Its sizes are ceil(n / k), because XLA pads. */
export function partShape(split: Split): number[] {
  return split.shape.map((size, d) => Math.ceil(size / countOf(split, split.axes[d]!)));
}

/** Returns the distinct parts with their devices, in mesh order. */
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

/** Returns two dimensions to draw: split dimensions first, then the last ones. */
export function shownDimensions(split: Split): number[] {
  const all = split.shape.map((_, d) => d);
  const isSplit = (d: number): boolean => countOf(split, split.axes[d]!) > 1;
  return [...all.filter(isSplit), ...all.filter((d) => !isSplit(d)).reverse()].slice(0, 2).sort((a, b) => a - b);
}
