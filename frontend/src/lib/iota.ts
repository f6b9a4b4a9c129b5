// Replica groups over axes of a mesh in HLO's iota notation, such as `[4,2]<=[2,4]T(1,0)`.

import type { MeshMessage } from "../messages.ts";

/** Returns the groups over axes in iota notation, in its shortest form. In each group, the last of `over` varies fastest. */
export function iotaText({ axis_names: names, axis_sizes: sizes }: AxisSizes, over: readonly string[]): string {
  const inside = over.map((axis) => names.indexOf(axis));
  const outside = names.map((_, i) => i).filter((i) => !inside.includes(i));
  const product = (axes: readonly number[]): number => axes.reduce((all, axis) => all * sizes[axis]!, 1);
  const { dims, order } = merged(sizes, [...outside, ...inside]);
  const isSorted = order.every((axis, i) => axis === i);
  const list = isSorted ? String(dims.reduce((all, size) => all * size, 1)) : dims.join(",");
  return `[${product(outside)},${product(inside)}]<=[${list}]${isSorted ? "" : `T(${order.join(",")})`}`;
}

type AxisSizes = Pick<MeshMessage, "axis_names" | "axis_sizes">;

/** Leaves out axes of size 1, and joins axes that stay next to each other in the same order. */
function merged(sizes: readonly number[], order: readonly number[]): { dims: number[]; order: number[] } {
  const kept = sizes.map((_, axis) => axis).filter((axis) => sizes[axis]! > 1);
  const parts: number[][] = [];
  for (const axis of order.filter((each) => kept.includes(each))) {
    const last = parts.at(-1);
    if (last && kept.indexOf(axis) === kept.indexOf(last.at(-1)!) + 1) last.push(axis);
    else parts.push([axis]);
  }
  const sorted = [...parts].sort((a, b) => a[0]! - b[0]!);
  return {
    dims: sorted.map((part) => part.reduce((all, axis) => all * sizes[axis]!, 1)),
    order: parts.map((part) => sorted.indexOf(part)),
  };
}
