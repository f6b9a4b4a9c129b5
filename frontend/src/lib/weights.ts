// Which of several lines of HLO matters most, by what its own text says: how much its instruction reads and
// writes, and multiplies. Only lines that are asked about are read.

import type { TextDocument } from "./documents.ts";

/** Of what a computation is: launched by itself, a part of a fusion, or applied to pairs of elements. */
const RUN = 2;
const FUSED = 1;
const APPLIED = 0;
/** Instructions that hand on what is there. */
const FREE = new Set([
  "parameter",
  "constant",
  "tuple",
  "get-tuple-element",
  "bitcast",
  "while",
  "conditional",
  "call",
]);
const SHAPE = /\b(pred|[a-z]+(\d+)\w*)\[([\d,]*)\]/g;
const INSTRUCTION = /^\s*(?:ROOT )?%?([\w.-]+) = (.*?)([a-z][a-z\d-]*)\(([^)]*)\)/;
const CALLED = /\b(calls|to_apply)=%?([\w.-]+)/g;
const HEADER = /^(?:ENTRY )?%?([\w.-]+) .*\{$/;
/** Operations that cost about as much as a byte: what multiplies is slower than what copies. */
const FLOPS_A_BYTE = 8;

const kinds = new WeakMap<TextDocument, { starts: number[]; kind: number[] }>();

/** Index into `lines` of the one that costs most; -1 where the text does not tell, or tells of none. */
export function heaviest(document: TextDocument, lines: Int32Array): number {
  if (document.language !== "hlo") return -1;
  let best = -1;
  let most = [-1, 0];
  // From the end, where the entry computation is: what stands above it is then seldom weighed.
  for (let i = lines.length - 1; i >= 0; i--) {
    const kind = kindOf(document, lines[i]!);
    if (kind < most[0]!) continue;
    const bytes = weight(document, lines[i]!);
    if (bytes && (kind > most[0]! || bytes >= most[1]!)) [best, most] = [i, [kind, bytes]];
  }
  return best;
}

/** Bytes that the instruction of a line reads and writes, and what it multiplies as bytes; null without one. */
function weight(document: TextDocument, line: number): number | null {
  const found = INSTRUCTION.exec(document.lines[line] ?? "");
  if (!found) return null;
  const [, , result, opcode, operands] = found;
  if (FREE.has(opcode!)) return 0;
  const own = sizes(result!);
  const inputs = (operands!.match(/[\w.-]+/g) ?? []).map((name) => sizes(resultOf(document, name)));
  const bytes = [own, ...inputs].reduce((sum, { bytes }) => sum + bytes, 0);
  if (opcode !== "dot" && opcode !== "convolution") return bytes;
  // (m k) (k n) (m n) = (m k n)²
  const product = [own, ...inputs].reduce((all, { elements }) => all * Math.max(1, elements), 1);
  return bytes + (2 * Math.sqrt(product)) / FLOPS_A_BYTE;
}

function resultOf(document: TextDocument, name: string): string {
  const line = document.lineOfInstruction(name);
  return line < 0 ? "" : (INSTRUCTION.exec(document.lines[line]!)?.[2] ?? "");
}

function sizes(shapes: string): { bytes: number; elements: number } {
  let [bytes, elements] = [0, 0];
  for (const [, , bits, dimensions] of shapes.matchAll(SHAPE)) {
    const count = (dimensions ? dimensions.split(",") : []).reduce((all, size) => all * Number(size), 1);
    elements += count;
    bytes += (count * Number(bits ?? 8)) / 8;
  }
  return { bytes, elements };
}

function kindOf(document: TextDocument, line: number): number {
  let known = kinds.get(document);
  if (!known) kinds.set(document, (known = computations(document.lines)));
  return known.kind[lastAtMost(known.starts, line)] ?? RUN;
}

/** Index of the last entry of a sorted array that is not above `value`, else 0. */
function lastAtMost(sorted: readonly number[], value: number): number {
  let [low, high] = [0, sorted.length];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! <= value) low = middle;
    else high = middle;
  }
  return low;
}

/** Where computations begin, and what each is. */
function computations(lines: readonly string[]): { starts: number[]; kind: number[] } {
  const starts: number[] = [];
  const names: string[] = [];
  const kindOfName = new Map<string, number>();
  lines.forEach((text, line) => {
    const header = text.endsWith("{") && !text.startsWith(" ") ? HEADER.exec(text) : null;
    if (header) {
      starts.push(line);
      names.push(header[1]!);
    } else if (text.includes("calls=") || text.includes("to_apply="))
      for (const [, how, name] of text.matchAll(CALLED))
        if (how === "to_apply" && !text.includes(" call(")) kindOfName.set(name!, APPLIED);
        else if (text.includes(" fusion(")) kindOfName.set(name!, FUSED);
  });
  return { starts, kind: names.map((name) => kindOfName.get(name) ?? RUN) };
}
