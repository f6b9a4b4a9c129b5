// Weights of HLO lines, to find the most expensive one: the bytes that an instruction reads and writes, and its
// multiplications, estimated from the text. Each line is parsed once, on demand or while the browser is idle.

import { type Computations, computationsOf, type Kind } from "./computations.ts";
import type { TextDocument } from "./documents.ts";
import { PIECE } from "./gradual.ts";

/** Ranks of computations: those that run by themselves, fused ones, and those applied to pairs of elements. */
const RANKS: Readonly<Record<Kind, number>> = { run: 2, fused: 1, applied: 0 };
/** Instructions with zero weight. */
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
/** Number of FLOPs that cost about as much as one byte. */
const FLOPS_A_BYTE = 8;

/** The size of the arrays that an instruction produces. */
interface Size {
  readonly bytes: number;
  readonly elements: number;
}

const NOTHING: Size = { bytes: 0, elements: 0 };
const known = new WeakMap<TextDocument, Weights>();

/** Returns the index in `lines` of the most expensive one; -1 if the text is not HLO or no line has a weight. */
export function heaviest(document: TextDocument, lines: Int32Array): number {
  if (document.language !== "hlo") return -1;
  const weights = weightsOf(document);
  let best = -1;
  let most = [-1, 0];
  // From the end, where the entry computation is, so that the lines above it are rarely weighed.
  for (let i = lines.length - 1; i >= 0; i--) {
    const rank = weights.rank(lines[i]!);
    if (rank < most[0]!) continue;
    const bytes = weights.weight(lines[i]!);
    if (bytes && (rank > most[0]! || bytes >= most[1]!)) [best, most] = [i, [rank, bytes]];
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
  private readonly computations: Computations;

  constructor(private readonly document: TextDocument) {
    this.weights = new Float64Array(document.lines.length).fill(NaN);
    this.computations = computationsOf(document);
  }

  *make(): Generator<void> {
    yield* this.computations.make();
    for (let line = 0; line < this.weights.length; line++) {
      this.weight(line);
      if (line % PIECE === 0) yield;
    }
  }

  /** Returns the rank of the computation that contains a line. */
  rank(line: number): number {
    return RANKS[this.computations.at(line)?.kind ?? "run"];
  }

  /**
   * Returns the bytes that a line's instruction reads and writes, plus its FLOPs as bytes; 0 without an instruction.
   */
  weight(line: number): number {
    const weight = this.weights[line]!;
    return Number.isNaN(weight) ? (this.weights[line] = this.weighed(line)) : weight;
  }

  private weighed(line: number): number {
    const match = INSTRUCTION.exec(this.document.lines[line] ?? "");
    if (!match) return 0;
    const [, , result, opcode, operands] = match;
    const own = (this.sizes[line] ??= sizes(result!));
    if (FREE.has(opcode!)) return 0;
    const all = [own, ...(operands!.match(/[\w.-]+/g) ?? []).map((name) => this.size(name))];
    const bytes = all.reduce((sum, { bytes }) => sum + bytes, 0);
    if (opcode !== "dot" && opcode !== "convolution") return bytes;
    // (m k) (k n) (m n) = (m k n)²
    const product = all.reduce((product, { elements }) => product * Math.max(1, elements), 1);
    return bytes + (2 * Math.sqrt(product)) / FLOPS_A_BYTE;
  }

  /** Returns the size of the value that an instruction produces. */
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
