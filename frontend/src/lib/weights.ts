// Which of several lines of HLO matters most, by what its own text says: how much its instruction reads and
// writes, and multiplies. A line is read once, when it is asked about or when there is time.

import { type Computations, computationsOf, type Kind } from "./computations.ts";
import type { TextDocument } from "./documents.ts";
import { PIECE } from "./gradual.ts";

/** What runs by itself comes before what is fused, and that before what is applied to pairs of elements. */
const RANKS: Readonly<Record<Kind, number>> = { run: 2, fused: 1, applied: 0 };
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

  /** Of the computation that a line belongs to. */
  rank(line: number): number {
    return RANKS[this.computations.at(line)?.kind ?? "run"];
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
