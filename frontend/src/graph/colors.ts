// The meaning of a node's color: its kind, or an amount relative to the other nodes on screen.

import { format, formatSeconds, plural } from "../lib/format.ts";
import type { GraphModel, Metric } from "./model.ts";

/** The change of a cost from another variant. */
type Change = `change:${Metric}`;
export type Coloring = "kind" | Party | Metric | "measured" | "alive" | Change;
/** Colorings by category: devices that work together, effects of a pass. */
type Party = "devices" | "pass";

export function isParty(coloring: Coloring): coloring is Party {
  return coloring === "devices" || coloring === "pass";
}

/** Returns the cost whose change a coloring shows; null for other colorings. */
export function changeOf(coloring: Coloring): Metric | null {
  return coloring.startsWith("change:") ? (coloring.slice("change:".length) as Metric) : null;
}

/** Kinds of instructions by opcode; "other" covers the rest, such as elementwise operations. */
export const KINDS = ["product", "fusion", "collective", "flow", "input", "moves", "call", "other"] as const;
type Kind = (typeof KINDS)[number];

export const KIND_WORDS: Readonly<Record<Kind, string>> = {
  product: "products",
  fusion: "fusions",
  collective: "collectives",
  flow: "loops, branches, calls",
  input: "inputs",
  moves: "data movement",
  call: "custom calls",
  other: "other",
};

const OF_OPCODES = new Map<string, Kind>([
  ...["dot", "convolution", "ragged-dot", "scaled-dot"].map((opcode) => [opcode, "product"] as const),
  ...["fusion"].map((opcode) => [opcode, "fusion"] as const),
  ...["while", "conditional", "call", "async-start", "async-update", "async-done"].map((o) => [o, "flow"] as const),
  ...["parameter", "constant", "iota"].map((opcode) => [opcode, "input"] as const),
  ...["custom-call"].map((opcode) => [opcode, "call"] as const),
  ...(
    "copy copy-start copy-done transpose reshape bitcast tuple get-tuple-element broadcast slice dynamic-slice " +
    "dynamic-update-slice concatenate pad gather scatter reverse bitcast-convert opt-barrier"
  )
    .split(" ")
    .map((opcode) => [opcode, "moves"] as const),
]);
const COLLECTIVE = /^(all-|reduce-scatter|collective-|ragged-all-to-all|send|recv)/;

export function kindOf(opcode: string): Kind {
  return COLLECTIVE.test(opcode) ? "collective" : (OF_OPCODES.get(opcode) ?? "other");
}

/** Returns the amount of a node, or its change; NaN if unknown. */
export function amountOf(model: GraphModel, node: number, coloring: Coloring): number {
  const change = changeOf(coloring);
  if (change) return model.change(node, change);
  if (coloring === "alive") return aliveIn(model, node);
  if (coloring === "measured") return model.measuredTime(node);
  return coloring === "kind" || isParty(coloring) ? NaN : model.cost(node, coloring as Metric).value;
}

/** Returns the length of a live range in schedule steps; for a box, the longest of its instructions. */
function aliveIn(model: GraphModel, node: number): number {
  if (!model.isBox(node)) {
    const span = model.span(node);
    return span ? span[1] - span[0] : NaN;
  }
  let most = NaN;
  for (const each of model.children(node)) {
    const steps = aliveIn(model, each);
    if (!(steps <= most)) most = Number.isNaN(steps) ? most : steps;
  }
  return most;
}

export function amountText(model: GraphModel, node: number, coloring: Coloring): string {
  if (isParty(coloring)) return model.parties(node).join("; ");
  const amount = amountOf(model, node, coloring);
  if (Number.isNaN(amount)) return changeOf(coloring) ? "new or unknown" : "";
  const isCost = coloring === "flops" || coloring === "bytes" || coloring === "seconds";
  return (isCost && model.cost(node, coloring).isPartial ? "≈ " : "") + textOf(amount, coloring);
}

export function textOf(amount: number, coloring: Coloring): string {
  const change = changeOf(coloring);
  if (change) return amount ? `${amount < 0 ? "−" : "+"}${textOf(Math.abs(amount), change)}` : "no change";
  if (coloring === "bytes") return format(amount, "bytes");
  if (coloring === "flops") return `${format(amount, "count")} FLOPs`;
  return coloring === "seconds" || coloring === "measured" ? formatSeconds(amount) : plural(amount, "step");
}

/** Returns the intensity of the color from 0 to 1, as a square root, so that small amounts are visible. */
export function heat(amount: number, most: number): number {
  return most > 0 && amount ? Math.sqrt(Math.min(1, Math.abs(amount) / most)) : 0;
}
