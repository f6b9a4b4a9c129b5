// The grid of a Pallas kernel: its steps, and the blocks of each step. Pure functions.

import type * as messages from "../messages.ts";

/** Returns `pl.program_id` for a step: row-major, with the last dimension innermost. */
export function programIds(step: number, grid: readonly (number | null)[]): number[] {
  const ids: number[] = [];
  let rest = step;
  for (const size of [...grid].reverse()) {
    ids.unshift(rest % (size ?? 1));
    rest = Math.floor(rest / (size ?? 1));
  }
  return ids;
}

/** Returns the blocks of an operand that were visited up to and including a step. */
export function visitedBlocks(operand: messages.KernelOperand, step: number): Set<number> {
  return new Set(operand.steps.slice(0, step + 1));
}

/** Returns whether the pipeline copies the operand's block before a step, because the block has changed. */
export function isCopied(operand: messages.KernelOperand, step: number): boolean {
  return step === 0 || operand.steps[step] !== operand.steps[step - 1];
}

interface Plane {
  readonly rows: number;
  readonly columns: number;
}

/** Returns the last two dimensions of a shape. Missing dimensions have size 1. */
export function planeOf(shape: readonly number[]): Plane {
  return { rows: shape[shape.length - 2] ?? 1, columns: shape[shape.length - 1] ?? 1 };
}

/** Returns the blocks in the same plane as `block`, with equal starts except in the last two dimensions. */
export function blocksInPlane(operand: messages.KernelOperand, block: number): number[] {
  const leading = Math.max(0, operand.shape.length - 2);
  const at = operand.starts[block]?.slice(0, leading) ?? [];
  const isSame = (start: readonly number[]): boolean => at.every((value, i) => start[i] === value);
  return operand.starts.flatMap((start, i) => (isSame(start) ? [i] : []));
}

export interface Size {
  readonly width: number;
  readonly height: number;
}

/** Returns the size of a plane's drawing in pixels: to scale, but at least `thinnest`. */
export function sizeOf({ rows, columns }: Plane, longest: number, thinnest: number): Size {
  const larger = Math.max(rows, columns, 1);
  const pixels = (count: number): number => Math.max(thinnest, Math.round((longest * count) / larger));
  return { width: pixels(columns), height: pixels(rows) };
}
