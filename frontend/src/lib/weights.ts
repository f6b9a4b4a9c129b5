// Which of several lines of HLO matters most, by what its own text says: how much its instruction reads and
// writes, and multiplies. A line is read once, when it is asked about or when there is time.

import type { TextDocument } from "./documents.ts";
import { Gradual, PIECE } from "./gradual.ts";

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

/** Of the array or arrays that an instruction makes. */
interface Size {
  readonly bytes: number;
  readonly elements: number;
}

const NOTHING: Size = { bytes: 0, elements: 0 };
const known = new WeakMap<TextDocument, Weights>();

/** Index into `lines` of the one that costs most; -1 where the text does not tell, or tells of none. */
export function heaviest(document: TextDocument, lines: Int32Array): number {
  if (document.language !== "hlo") return -1;
  const weights = weightsOf(document);
  let best = -1;
  let most = [-1, 0];
  // From the end, where the entry computation is: what stands above it is then seldom weighed.
  for (let i = lines.length - 1; i >= 0; i--) {
    const kind = weights.kind(lines[i]!);
    if (kind < most[0]!) continue;
    const bytes = weights.weight(lines[i]!);
    if (bytes && (kind > most[0]! || bytes >= most[1]!)) [best, most] = [i, [kind, bytes]];
  }
  return best;
}

/** Weighs all lines of HLO, piece by piece. */
export function* weigh(document: TextDocument): Generator<void> {
  if (document.language === "hlo") yield* weightsOf(document).make();
}

function weightsOf(document: TextDocument): Weights {
  let weights = known.get(document);
  if (!weights) known.set(document, (weights = new Weights(document)));
  return weights;
}

class Weights {
  private readonly weights: Float64Array;
  private readonly sizes: (Size | undefined)[] = [];
  private readonly computations: Gradual<{ starts: number[]; kind: number[] }>;

  constructor(private readonly document: TextDocument) {
    this.weights = new Float64Array(document.lines.length).fill(NaN);
    this.computations = new Gradual(computations(document.lines));
  }

  *make(): Generator<void> {
    yield* this.computations.make();
    for (let line = 0; line < this.weights.length; line++) {
      this.weight(line);
      if (line % PIECE === 0) yield;
    }
  }

  /** Of the computation that a line belongs to. */
  kind(line: number): number {
    const { starts, kind } = this.computations.value;
    return kind[lastAtMost(starts, line)] ?? RUN;
  }

  /** Bytes that the instruction of a line reads and writes, and what it multiplies as bytes; 0 without one. */
  weight(line: number): number {
    const weight = this.weights[line]!;
    return Number.isNaN(weight) ? (this.weights[line] = this.weighed(line)) : weight;
  }

  private weighed(line: number): number {
    const found = INSTRUCTION.exec(this.document.lines[line] ?? "");
    if (!found) return 0;
    const [, , result, opcode, operands] = found;
    const own = (this.sizes[line] ??= sizes(result!));
    if (FREE.has(opcode!)) return 0;
    const all = [own, ...(operands!.match(/[\w.-]+/g) ?? []).map((name) => this.size(name))];
    const bytes = all.reduce((sum, { bytes }) => sum + bytes, 0);
    if (opcode !== "dot" && opcode !== "convolution") return bytes;
    // (m k) (k n) (m n) = (m k n)²
    const product = all.reduce((product, { elements }) => product * Math.max(1, elements), 1);
    return bytes + (2 * Math.sqrt(product)) / FLOPS_A_BYTE;
  }

  /** Of what an instruction makes. */
  private size(name: string): Size {
    const line = this.document.lineOfInstruction(name);
    if (line < 0) return NOTHING;
    return (this.sizes[line] ??= sizes(INSTRUCTION.exec(this.document.lines[line]!)?.[2] ?? ""));
  }
}

function sizes(shapes: string): Size {
  let [bytes, elements] = [0, 0];
  for (const [, , bits, dimensions] of shapes.matchAll(SHAPE)) {
    const count = (dimensions ? dimensions.split(",") : []).reduce((all, size) => all * Number(size), 1);
    elements += count;
    bytes += (count * Number(bits ?? 8)) / 8;
  }
  return { bytes, elements };
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
function* computations(lines: readonly string[]): Generator<void, { starts: number[]; kind: number[] }> {
  const starts: number[] = [];
  const names: string[] = [];
  const kindOfName = new Map<string, number>();
  for (const [line, text] of lines.entries()) {
    const header = text.endsWith("{") && !text.startsWith(" ") ? HEADER.exec(text) : null;
    if (header) {
      starts.push(line);
      names.push(header[1]!);
    } else if (text.includes("calls=") || text.includes("to_apply="))
      for (const [, how, name] of text.matchAll(CALLED))
        if (how === "to_apply" && !text.includes(" call(")) kindOfName.set(name!, APPLIED);
        else if (text.includes(" fusion(")) kindOfName.set(name!, FUSED);
    if (line % PIECE === 0) yield;
  }
  return { starts, kind: names.map((name) => kindOfName.get(name) ?? RUN) };
}
