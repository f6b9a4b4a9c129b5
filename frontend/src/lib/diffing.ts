// Conversion of the hunks of lines that Python computed into the character ranges that CodeMirror needs.

import { diff } from "@codemirror/merge";
import type { DiffMessage } from "../messages.ts";
import { TextDocument } from "./documents.ts";
import { definedInstruction } from "./names.ts";
import { NONE } from "./origins.ts";

type Range = [fromA: number, toA: number, fromB: number, toB: number];

// CodeMirror's own diff marks the changes inside a hunk. It is slow on long, dissimilar texts. Hunks longer than the
// first limit, and all hunks after the second limit, are therefore marked as a whole.
const MAX_HUNK = 20_000;
const MAX_TOTAL = 200_000;

/** Returns the changes for `diffConfig.override`, in document order. */
export function changesOf(
  hunks: readonly (readonly [number, number, number, number])[],
  a: TextDocument,
  b: TextDocument,
): Range[] {
  let budget = MAX_TOTAL;
  return hunks.flatMap(([a0, a1, b0, b1]): Range[] => {
    // At the end of a text, the line break before a hunk belongs to it, because there is none after it.
    const isAtEnd = a0 >= a.text.lines || b0 >= b.text.lines;
    const shift = isAtEnd && a0 > 0 && b0 > 0 ? 1 : 0;
    const fromA = offset(a, a0) - shift;
    const toA = Math.min(offset(a, a1), a.text.length);
    const fromB = offset(b, b0) - shift;
    const toB = Math.min(offset(b, b1), b.text.length);
    const length = toA - fromA + toB - fromB;
    if (a0 === a1 || b0 === b1 || length > MAX_HUNK || budget < length) return [[fromA, toA, fromB, toB]];
    budget -= length;
    const inside = diff(a.text.sliceString(fromA, toA), b.text.sliceString(fromB, toB), { scanLimit: 500 });
    return inside.map((c): Range => [fromA + c.fromA, fromA + c.toA, fromB + c.fromB, fromB + c.toB]);
  });
}

/** Returns the start of a line, or one past the end of the text for the line after the last. */
function offset(document: TextDocument, line: number): number {
  return line < document.text.lines ? document.text.line(line + 1).from : document.text.length + 1;
}

/** Rebuilds the lines before a change from the lines after it, the hunks, and the removed lines. */
export function linesBefore(
  after: readonly string[],
  hunks: DiffMessage["hunks"],
  removed: readonly string[],
): string[] {
  const lines: string[] = [];
  const add = (from: readonly string[], start: number, end: number): void => {
    for (let i = start; i < end; i++) lines.push(from[i]!);
  };
  let kept = 0;
  let taken = 0;
  for (const [a0, a1, b0, b1] of hunks) {
    add(after, kept, b0);
    add(removed, taken, taken + a1 - a0);
    taken += a1 - a0;
    kept = b1;
  }
  add(after, kept, after.length);
  return lines;
}

/**
 * Rebuilds the text before a change, in the order and with the names of the text after it. Unchanged and changed lines
 * get the origin and instruction of their counterparts; removed lines get none.
 */
export function alignedBefore(diff: Pick<DiffMessage, "hunks">, after: TextDocument, removed: string): TextDocument {
  const lines = linesBefore(after.lines, diff.hunks, removed.split("\n"));
  const origins = new Int32Array(lines.length).fill(NONE);
  const defining = new Uint8Array(lines.length);
  let [a, b] = [0, 0];
  const keep = (end: number): void => {
    for (; b < end; a++, b++) [origins[a], defining[a]] = [after.origin(b), Number(after.defines(b))];
  };
  for (const [, a1, b0, b1] of diff.hunks) {
    keep(b0);
    for (; a < a1; a++) {
      const line = after.lineOfInstruction(definedInstruction(lines[a]!) ?? "");
      if (line >= b0 && line < b1) [origins[a], defining[a]] = [after.origin(line), Number(after.defines(line))];
    }
    b = b1;
  }
  keep(after.lines.length);
  const about = { pane: after.pane, variant: after.variant, language: after.language, title: after.title };
  return new TextDocument(about, lines.join("\n"), origins, { labels: null, defining });
}
