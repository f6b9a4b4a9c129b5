// Equal operations told apart by their order, such as those of the layers that one Python loop makes: they have the same
// name and call stack.

import { computationsOf } from "./computations.ts";
import type { TextDocument } from "./documents.ts";

/** Returns lines by the kernel that runs them, in order. A line of a fusion belongs to the kernel of the fusion. */
export function byKernel(document: TextDocument, lines: Int32Array): readonly (readonly number[])[] {
  const found = new Map<number, number[]>();
  for (const line of lines) {
    const kernel = kernelOf(document, line);
    const known = found.get(kernel);
    if (known) known.push(line);
    else found.set(kernel, [line]);
  }
  return [...found].sort(([a], [b]) => a - b).map(([, each]) => each);
}

/**
 * Returns the lines of a text for one of several equal operations of another text: those in the same turn. All lines if
 * the order cannot tell them apart, because one text has neither as many as the other nor a multiple.
 *
 * @param at the operation's place among the `count` equal ones of its text.
 */
export function inTurn(
  kernels: readonly (readonly number[])[],
  at: number,
  count: number,
): readonly (readonly number[])[] {
  const [each, share] = [kernels.length / count, count / kernels.length];
  if (Number.isInteger(each)) return kernels.slice(at * each, (at + 1) * each);
  return Number.isInteger(share) ? [kernels[Math.floor(at / share)]!] : kernels;
}

/** Returns the line that runs an instruction: the caller of its computation, unless that is a loop or a branch. */
function kernelOf(document: TextDocument, line: number): number {
  const path = computationsOf(document).path(line);
  let kernel = line;
  for (const { computation, call } of path.reverse()) {
    kernel = call;
    const isPart = computation.role === "calls" || computation.role === "to_apply";
    if (computation.isEntry || !isPart || computation.callCount !== 1) break;
  }
  return kernel;
}
