// Axis environments that the user types: parsing, and the device groups of axes.

import type { MeshMessage } from "../messages.ts";
import { grouped } from "./format.ts";

const MOST_DEVICES = 4096;
const MOST_AXES = 6;

/** Parses text such as `i=4, j=2`. Returns an axis environment or an error message. */
export function parseAxes(text: string): MeshMessage | string {
  const parts = text.split(",").map((part) => part.trim());
  if (parts.length === 1 && !parts[0]) return "Enter at least one axis, such as i=4.";
  if (parts.length > MOST_AXES) return `${parts.length} axes are too many to draw; the limit is ${MOST_AXES}.`;
  const names: string[] = [];
  const sizes: number[] = [];
  for (const part of parts) {
    const [, name, size] = /^([^=\s]+)\s*=\s*(\S*)$/.exec(part) ?? [];
    if (name === undefined) return `“${part}” is not an axis. Enter a name and a size, such as i=4.`;
    if (!/^\d+$/.test(size!)) return `The size of ${name} is “${size}”, not a whole number.`;
    if (Number(size) < 1) return `The size of ${name} is ${size}. It must be at least 1.`;
    if (names.includes(name)) return `The axis ${name} is given twice.`;
    names.push(name);
    sizes.push(Number(size));
  }
  const count = sizes.reduce((a, b) => a * b, 1);
  if (count > MOST_DEVICES)
    return `${grouped(count)} devices are too many to draw; the limit is ${grouped(MOST_DEVICES)}.`;
  return { axis_names: names, axis_sizes: sizes, kind: "replica", device_ids: null, physical_ids: null };
}

export function axesText({ axis_names: names, axis_sizes: sizes }: MeshMessage): string {
  return names.map((name, i) => `${name}=${sizes[i]}`).join(", ");
}

/** Returns the groups of ids that differ along `axes` only. In each group, the last axis varies fastest. */
export function groupsOver({ axis_names: names, axis_sizes: sizes }: MeshMessage, axes: readonly string[]): number[][] {
  const strides = sizes.map((_, i) => sizes.slice(i + 1).reduce((a, b) => a * b, 1));
  const ids = (indices: readonly number[]): number[] =>
    indices.reduce<number[]>(
      (found, axis) => found.flatMap((id) => Array.from({ length: sizes[axis]! }, (_, i) => id + i * strides[axis]!)),
      [0],
    );
  const inside = axes.map((axis) => names.indexOf(axis));
  const outside = names.map((_, i) => i).filter((i) => !inside.includes(i));
  const offsets = ids(inside);
  return ids(outside).map((first) => offsets.map((offset) => first + offset));
}
