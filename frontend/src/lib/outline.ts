// The outline of a module: its computations with their instructions. The entry comes first, then the others by cost.

import { type Computation, computationsOf } from "./computations.ts";
import type { TextDocument } from "./documents.ts";
import type { LineCosts } from "./linecosts.ts";

/** A computation as a branch of the outline. */
export interface Branch {
  readonly computation: Computation;
  /**
   * The cost of the computation with everything that it calls; for a fused one, that of the fusion; 0 without costs.
   */
  readonly amount: number;
  /** The number of instructions in it. */
  readonly count: number;
}

/** A visible row: a branch, or an instruction (its line). */
type OutlineRow = { readonly branch: Branch; readonly line: number | null };

/** Largest number of entry instructions that are listed at first. */
const FEW = 24;

export class Outline {
  private readonly branches: readonly Branch[];
  private readonly inside = new Map<Branch, Int32Array>();
  /** The row of each branch. */
  private starts: number[] = [];
  private size = 0;

  /**
   * @param open names of the computations whose instructions are listed. `toggle` changes it.
   * @param costs the costs to sort by; null to sort branches by size and instructions in text order.
   */
  constructor(
    private readonly document: TextDocument,
    private readonly costs: LineCosts | null,
    private readonly open: Set<string>,
  ) {
    this.branches = branchesOf(document, costs);
    this.place();
  }

  /** Lists the instructions of the entry computation if they leave room for the other branches. */
  begin(): void {
    const entry = this.branches[0];
    if (entry && entry.count <= FEW && !this.isOpen(entry)) this.toggle(entry);
  }

  get length(): number {
    return this.size;
  }

  /** The number of instructions in the module. */
  get instructionCount(): number {
    return this.branches.reduce((sum, { count }) => sum + count, 0);
  }

  at(index: number): OutlineRow {
    const place = this.placeAt(index);
    const branch = this.branches[place]!;
    const within = index - this.starts[place]! - 1;
    return { branch, line: within < 0 ? null : this.linesOf(branch)[within]! };
  }

  isOpen({ computation }: Branch): boolean {
    return this.open.has(computation.name);
  }

  toggle({ computation: { name } }: Branch): void {
    if (!this.open.delete(name)) this.open.add(name);
    this.place();
  }

  /** Returns the row of the branch that contains a row; -1 for a branch. */
  parentOf(index: number): number {
    const start = this.starts[this.placeAt(index)]!;
    return start === index ? -1 : start;
  }

  /** Returns the row of a line, or of its branch while that is closed; -1 if there is none. */
  rowOf(line: number): number {
    const computation = computationsOf(this.document).at(line);
    const place = this.branches.findIndex((branch) => branch.computation === computation);
    if (place < 0) return -1;
    const branch = this.branches[place]!;
    const within = this.isOpen(branch) ? this.linesOf(branch).indexOf(line) : -1;
    return this.starts[place]! + 1 + within;
  }

  private place(): void {
    this.size = 0;
    this.starts = this.branches.map((branch) => {
      const start = this.size;
      this.size += 1 + (this.isOpen(branch) ? this.linesOf(branch).length : 0);
      return start;
    });
  }

  private placeAt(index: number): number {
    let [low, high] = [0, this.starts.length];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.starts[middle]! <= index) low = middle;
      else high = middle;
    }
    return low;
  }

  /** Returns the lines of a branch's instructions, those with the highest cost first. */
  private linesOf(branch: Branch): Int32Array {
    const known = this.inside.get(branch);
    if (known) return known;
    const lines = instructionLines(this.document, branch.computation);
    if (this.costs) {
      const amounts = new Map(Array.from(lines, (line) => [line, this.costs!.of(line)?.amount ?? 0]));
      lines.sort((a, b) => amounts.get(b)! - amounts.get(a)! || a - b);
    }
    this.inside.set(branch, lines);
    return lines;
  }
}

function instructionLines(document: TextDocument, { first, last }: Computation): Int32Array {
  const lines = Array.from({ length: last - first + 1 }, (_, i) => first + i);
  return Int32Array.from(lines.filter((line) => document.defines(line)));
}

function branchesOf(document: TextDocument, costs: LineCosts | null): Branch[] {
  const computations = computationsOf(document).all;
  const amounts = costs && amountsOf(document, costs);
  const branches = computations.map((computation) => ({
    computation,
    amount: amounts?.get(computation) ?? 0,
    count: countOf(document, computation),
  }));
  const first = ({ computation }: Branch): number => Number(!computation.isEntry);
  return branches.sort((a, b) => first(a) - first(b) || b.amount - a.amount || b.count - a.count);
}

function countOf(document: TextDocument, { first, last }: Computation): number {
  let count = 0;
  for (let line = first; line <= last; line++) if (document.defines(line)) count += 1;
  return count;
}

/**
 * Returns the costs of computations with everything that they call. Fused computations get the cost of their fusion.
 */
function amountsOf(document: TextDocument, costs: LineCosts): Map<Computation, number> {
  const computations = computationsOf(document);
  const amounts = new Map(computations.all.map((computation) => [computation, 0]));
  for (const { line, amount } of costs.all) {
    const seen = new Set<Computation>();
    for (let at = computations.at(line); at && !seen.has(at); at = computations.at(at.caller)) {
      seen.add(at);
      amounts.set(at, amounts.get(at)! + amount);
    }
  }
  for (const fused of computations.all)
    if (fused.kind === "fused") amounts.set(fused, amounts.get(fused)! + (costs.of(fused.caller)?.amount ?? 0));
  return amounts;
}
