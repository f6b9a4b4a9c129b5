// The grid of a Pallas kernel: steps and what blocks they work on. Pure functions.

import type * as messages from "../messages.ts";

/** `pl.program_id` of a step: row-major, the last dimension innermost. */
export function programIds(step: number, grid: readonly (number | null)[]): number[] {
  const ids: number[] = [];
  let rest = step;
  for (const size of [...grid].reverse()) {
    ids.unshift(rest % (size ?? 1));
    rest = Math.floor(rest / (size ?? 1));
  }
  return ids;
}

/** The blocks of an operand that were worked on up to a step, that of the step included. */
export function visitedBlocks(operand: messages.KernelOperand, step: number): Set<number> {
  return new Set(operand.steps.slice(0, step + 1));
}

/** Whether the pipeline copies the operand's block before this step: it is another one than before. */
export function isCopied(operand: messages.KernelOperand, step: number): boolean {
  return step === 0 || operand.steps[step] !== operand.steps[step - 1];
}

export interface Plane {
  readonly rows: number;
  readonly columns: number;
}

/** The last two dimensions of a shape; what there is not has size 1. */
export function planeOf(shape: readonly number[]): Plane {
  return { rows: shape[shape.length - 2] ?? 1, columns: shape[shape.length - 1] ?? 1 };
}

/** Blocks that lie in the same plane as a given one: equal in all but the last two dimensions. */
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

/** Pixels of a plane's drawing: to scale, but never too thin to be seen. */
export function sizeOf({ rows, columns }: Plane, longest: number, thinnest: number): Size {
  const larger = Math.max(rows, columns, 1);
  const pixels = (count: number): number => Math.max(thinnest, Math.round((longest * count) / larger));
  return { width: pixels(columns), height: pixels(rows) };
}
