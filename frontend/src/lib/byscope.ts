// The outline by scope: the phases of a differentiated program, its scopes, and the kernels in them.

import { computationsOf } from "./computations.ts";
import type { TextDocument } from "./documents.ts";
import { plural } from "./format.ts";
import { type Measure, MEASURES } from "./linecosts.ts";
import type { Arrangement, Holding, OutlineNode } from "./outline.ts";
import type { ScopeCostColumns } from "../messages.ts";

interface ScopeNode extends OutlineNode {
  readonly parent: Scope | null;
  /** The row of a kernel in the columns; of a scope, that of its most expensive kernel: XLA moves others far away. */
  readonly row: number;
}

interface Scope extends ScopeNode {
  note: string;
  row: number;
  line: number;
  /** The highest weight of a row in it. */
  weight: number;
  /** The number of kernels with a part in it, and the line of the latest of them. */
  kernels: number;
  latest: number;
  readonly below: Map<string, Scope>;
  /** The rows of the kernels in it, without those in scopes below it. */
  readonly rows: number[];
  readonly sums: Record<Measure, number>;
}

const UNKNOWN = "unknown";
/** Stands for parts of kernels that belong to several phases. */
const SEVERAL = "several";
const ORDER = ["forward", "backward", "recomputed", SEVERAL, "rest", UNKNOWN];
/** Share of the kernels from which a scope stands for the one that it is in. */
const MOST = 0.8;
const NOTES: Readonly<Record<string, string>> = { rest: "not differentiated", [UNKNOWN]: "no scope recorded" };

export class ByScope implements Arrangement<ScopeNode> {
  readonly roots: readonly ScopeNode[];
  /** Whether the program has scopes or phases. */
  readonly hasScopes: boolean;
  private rowsOfLines: ReadonlyMap<number, readonly number[]> | null = null;
  private readonly scopes: readonly Scope[];

  constructor(
    private readonly document: TextDocument,
    private readonly columns: ScopeCostColumns,
  ) {
    const isPhased = columns.scopes.some(([phase]) => phase && phase !== "rest");
    this.hasScopes = isPhased || columns.scopes.some(({ length }) => length > 1);
    const weights = columns.least_s.some(Boolean) ? columns.least_s : columns.main_memory_bytes;
    const top = scopeOf(null, "scope", "");
    const places = new Map<number, Scope>();
    columns.scope.forEach((number, row) => {
      let scope = places.get(number);
      if (!scope) places.set(number, (scope = this.place(top, columns.scopes[number]!, isPhased)));
      scope.rows.push(row);
      const line = columns.line[row]!;
      for (let at: Scope | null = scope; at; at = at.parent) {
        if (weights[row]! > at.weight) [at.weight, at.row, at.line] = [weights[row]!, row, line];
        if (at.latest !== line) at.kernels += 1; // the rows of a kernel follow each other
        at.latest = line;
      }
    });
    this.scopes = columns.scopes.map((_, number) => places.get(number)!);
    for (const { value } of MEASURES) this.sum(value);
    describe(top);
    this.roots = isPhased ? [...top.below.values()].sort((a, b) => rank(a) - rank(b)) : this.childrenOf(top);
  }

  /** The roots, and below each the scope with most of its kernels, such as the model. */
  get first(): readonly ScopeNode[] {
    const open: ScopeNode[] = [];
    for (const root of this.roots)
      for (let at: Scope | undefined = root.name ? (root as Scope) : undefined; at; at = largest(at)) open.push(at);
    return open;
  }

  childrenOf(node: ScopeNode): readonly ScopeNode[] {
    const { below, rows } = node as Scope;
    const parent = node.name ? (node as Scope) : null;
    const kernels = rows.map((row): ScopeNode => ({
      parent,
      kind: "instruction",
      name: "",
      note: "",
      line: this.columns.line[row]!,
      row,
    }));
    return [...below.values(), ...kernels].sort((a, b) => a.row - b.row);
  }

  amount(node: ScopeNode, measure: Measure): number {
    return node.kind === "instruction" ? this.columns[measure][node.row]! : (node as Scope).sums[measure];
  }

  holding(line: number): Holding<ScopeNode> {
    const path = computationsOf(this.document).path(line).reverse();
    const rowsOfLines = (this.rowsOfLines ??= indexed(this.columns.line));
    const kernel = path.find(({ call }) => rowsOfLines.has(call));
    const rows = new Set(kernel && rowsOfLines.get(kernel.call));
    const around = new Set<ScopeNode | null>();
    for (const row of rows)
      for (let at: Scope | null = this.scopes[this.columns.scope[row]!]!; at; at = at.parent) around.add(at);
    return { has: (node) => (node.kind === "instruction" ? rows.has(node.row) : around.has(node)) };
  }

  private sum(measure: Measure): void {
    const { scope, [measure]: amounts } = this.columns;
    const sums = new Float64Array(this.scopes.length);
    scope.forEach((number, row) => (sums[number]! += amounts[row]!));
    this.scopes.forEach((own, number) => {
      for (let at: Scope | null = own; at; at = at.parent) at.sums[measure] += sums[number]!;
    });
  }

  private place(top: Scope, [phase, ...names]: readonly string[], isPhased: boolean): Scope {
    let scope = top;
    if (isPhased) scope = below(scope, "phase", phase || UNKNOWN);
    for (const name of names) scope = below(scope, "scope", name);
    return scope;
  }
}

function scopeOf(parent: Scope | null, kind: "phase" | "scope", name: string): Scope {
  const sums = Object.fromEntries(MEASURES.map(({ value }) => [value, 0])) as Record<Measure, number>;
  return {
    parent,
    kind,
    name,
    note: "",
    weight: -1,
    kernels: 0,
    latest: -2,
    line: -1,
    row: 0,
    below: new Map(),
    rows: [],
    sums,
  };
}

/** Returns a scope in a scope, which is made for its first kernel. */
function below(scope: Scope, kind: "phase" | "scope", name: string): Scope {
  let found = scope.below.get(name);
  if (!found) scope.below.set(name, (found = scopeOf(scope.name ? scope : null, kind, name)));
  return found;
}

/** Returns the scope with most of the kernels in a scope. */
function largest({ below, kernels }: Scope): Scope | undefined {
  return [...below.values()].find((each) => each.kernels > MOST * kernels);
}

/** Returns the rows of each line. */
function indexed(lines: readonly number[]): Map<number, number[]> {
  const rows = new Map<number, number[]>();
  lines.forEach((line, row) => {
    const known = rows.get(line);
    if (known) known.push(row);
    else rows.set(line, [row]);
  });
  return rows;
}

function describe(scope: Scope): void {
  scope.note = [scope.kind === "phase" && NOTES[scope.name], plural(scope.kernels, "kernel")]
    .filter(Boolean)
    .join(", ");
  scope.below.forEach(describe);
}

function rank({ name }: OutlineNode): number {
  const place = ORDER.indexOf(name);
  return place < 0 ? ORDER.indexOf(SEVERAL) : place;
}
