// The outline by computation: the entry with its instructions, and below an instruction the computations that it calls.

import { type Call, type Computation, computationsOf } from "./computations.ts";
import type { TextDocument } from "./documents.ts";
import { plural } from "./format.ts";
import type { LineCosts, Measure } from "./linecosts.ts";
import type { Arrangement, Holding, OutlineNode } from "./outline.ts";

/** Instructions that name or pass on values, without work. */
const IDLE = / = (?:\(.*?\)|\S+) (?:parameter|constant|tuple|get-tuple-element|bitcast)\(/;

interface ComputationNode extends OutlineNode {
  readonly parent: ComputationNode | null;
  /** The computation whose instructions are below it. */
  readonly computation: Computation | null;
  /** The instructions of a group. */
  readonly lines?: readonly number[];
}

export class ByComputation implements Arrangement<ComputationNode> {
  readonly roots: readonly ComputationNode[];
  readonly first: readonly ComputationNode[];
  private readonly sums = new Map<Measure, ReadonlyMap<Computation, number>>();

  /** @param costs the costs of the lines by a measure; null if they are unknown. */
  constructor(
    private readonly document: TextDocument,
    private readonly costs: (measure: Measure) => LineCosts | null,
  ) {
    const { all } = computationsOf(document);
    const unused = all.filter(({ isEntry, callCount }) => !isEntry && !callCount);
    this.first = all.filter(({ isEntry }) => isEntry).map((entry) => nodeOf(null, entry, "ENTRY"));
    this.roots = [...this.first, ...unused.map((computation) => nodeOf(null, computation, "never called"))];
  }

  childrenOf(node: ComputationNode): readonly ComputationNode[] {
    if (node.lines) return node.lines.map((line) => this.instruction(node, line));
    if (node.computation) return this.inside(node, node.computation);
    return this.callsOf(node).map(({ computation, role }, i) => nodeOf(node, computation, roleOf(role, i)));
  }

  amount(node: ComputationNode, measure: Measure): number {
    if (node.kind === "computation") return this.sumsOf(measure).get(node.computation!) ?? 0;
    if (node.lines) return node.lines.reduce((sum, line) => sum + this.own(line, measure), 0);
    return this.callsOf(node).reduce(
      (sum, { computation }) => sum + (computation.kind === "run" ? (this.sumsOf(measure).get(computation) ?? 0) : 0),
      this.own(node.line, measure),
    );
  }

  holding(line: number): Holding<ComputationNode> {
    const path = computationsOf(this.document).path(line);
    const computations = new Set(path.map(({ computation }) => computation));
    const lines = new Set(path.map(({ call }) => call));
    const has = (node: ComputationNode): boolean => {
      if (node.kind === "computation") return computations.has(node.computation!);
      return node.lines ? node.lines.includes(line) : lines.has(node.line);
    };
    return { has };
  }

  private own(line: number, measure: Measure): number {
    return this.costs(measure)?.of(line)?.amount ?? 0;
  }

  /** Returns the instructions of a computation. Those of fusions are complete; elsewhere, those without work form a group. */
  private inside(node: ComputationNode, { kind, first, last }: Computation): ComputationNode[] {
    const { document } = this;
    const [working, idle]: [number[], number[]] = [[], []];
    for (let line = first; line <= last; line++) {
      if (!document.defines(line)) continue;
      const isIdle = kind === "run" && IDLE.test(document.lines[line]!);
      (isIdle ? idle : working).push(line);
    }
    const nodes = working.map((line) => this.instruction(node, line));
    if (idle.length) {
      const note = `${plural(idle.length, "instruction")} without work`;
      const name = "parameters, tuples …";
      nodes.push({ parent: node, kind: "idle", name, note, line: idle[0]!, computation: null, lines: idle });
    }
    return nodes;
  }

  private instruction(parent: ComputationNode, line: number): ComputationNode {
    const node = { parent, kind: "instruction", name: "", note: "", line, computation: null } as const;
    const calls = this.callsOf(node);
    if (!calls.length) return node;
    return {
      ...node,
      name: this.document.instruction(line)!,
      computation: calls.length === 1 ? calls[0]!.computation : null,
    };
  }

  /** Returns the computations that an instruction calls, except those that it is in: damaged texts may have cycles. */
  private callsOf(node: ComputationNode): readonly Call[] {
    const computations = computationsOf(this.document);
    const calls = computations.calls.get(node.line) ?? [];
    if (!calls.length) return calls;
    const around = new Set<Computation | null>();
    for (let at: ComputationNode | null = node; at; at = at.parent) around.add(computations.at(at.line));
    return calls.filter(({ computation }) => !around.has(computation));
  }

  /** Returns the costs of computations with everything that they call. */
  private sumsOf(measure: Measure): ReadonlyMap<Computation, number> {
    let sums = this.sums.get(measure);
    if (!sums) this.sums.set(measure, (sums = sumsOf(this.document, this.costs(measure))));
    return sums;
  }
}

function nodeOf(parent: ComputationNode | null, computation: Computation, note: string): ComputationNode {
  const { name, first, callCount } = computation;
  const often = callCount > 1 ? `, called ${callCount} times: cost of all calls` : "";
  return { parent, kind: "computation", name, note: note + often, line: first, computation };
}

function roleOf(role: string, index: number): string {
  return role.includes("computation") ? `branch ${index}` : role;
}

function sumsOf(document: TextDocument, costs: LineCosts | null): Map<Computation, number> {
  const computations = computationsOf(document);
  const sums = new Map<Computation, number>();
  for (const { line, amount } of costs?.all ?? []) {
    const seen = new Set<Computation>();
    for (let at = computations.at(line); at && !seen.has(at); at = computations.at(at.caller)) {
      seen.add(at);
      sums.set(at, (sums.get(at) ?? 0) + amount);
    }
  }
  return sums;
}
