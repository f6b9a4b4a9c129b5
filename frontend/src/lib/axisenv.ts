// Axis environments that a reader types: are they valid, and which groups do axes make?

import type { Mesh } from "../messages.ts";
import { grouped } from "./format.ts";

export const MOST_DEVICES = 4096;
const MOST_AXES = 6;

/** An axis environment from text such as `i=4, j=2`, or why it is none. */
export function parseAxes(text: string): Mesh | string {
  const parts = text.split(",").map((part) => part.trim());
  if (parts.length === 1 && !parts[0]) return "Name at least one axis, such as i=4.";
  if (parts.length > MOST_AXES) return `${parts.length} axes are more than the ${MOST_AXES} that are drawn.`;
  const names: string[] = [];
  const sizes: number[] = [];
  for (const part of parts) {
    const [, name, size] = /^([^=\s]+)\s*=\s*(\S*)$/.exec(part) ?? [];
    if (name === undefined) return `“${part}” is no axis: write a name and a size, such as i=4.`;
    if (!/^\d+$/.test(size!)) return `The size of ${name} is “${size}”: write a whole number.`;
    if (Number(size) < 1) return `No replica is on ${name}=${size}: its size must be 1 or more.`;
    if (names.includes(name)) return `The axis ${name} is there twice.`;
    names.push(name);
    sizes.push(Number(size));
  }
  const count = sizes.reduce((a, b) => a * b, 1);
  if (count > MOST_DEVICES)
    return `${grouped(count)} devices are more than the ${grouped(MOST_DEVICES)} that are drawn.`;
  return { axis_names: names, axis_sizes: sizes, kind: "replica", device_ids: null, physical_ids: null };
}

export function axesText({ axis_names: names, axis_sizes: sizes }: Mesh): string {
  return names.map((name, i) => `${name}=${sizes[i]}`).join(", ");
}

/** The ids that differ along `axes` alone, in the order of these: the last one varies fastest. */
export function groupsOver({ axis_names: names, axis_sizes: sizes }: Mesh, axes: readonly string[]): number[][] {
  const strides = sizes.map((_, i) => sizes.slice(i + 1).reduce((a, b) => a * b, 1));
  const ids = (which: readonly number[]): number[] =>
    which.reduce<number[]>(
      (found, axis) => found.flatMap((id) => Array.from({ length: sizes[axis]! }, (_, i) => id + i * strides[axis]!)),
      [0],
    );
  const inside = axes.map((axis) => names.indexOf(axis));
  const outside = names.map((_, i) => i).filter((i) => !inside.includes(i));
  const offsets = ids(inside);
  return ids(outside).map((first) => offsets.map((offset) => first + offset));
}
