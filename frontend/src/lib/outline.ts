// The visible rows of the outline. The rows below a row are made when it is opened.

import type { Measure } from "./linecosts.ts";

export interface OutlineNode {
  readonly parent: OutlineNode | null;
  /**
   * A phase of a differentiated program, a scope, a computation, the instructions of a computation that do no work, or an
   * instruction.
   */
  readonly kind: "phase" | "scope" | "computation" | "idle" | "instruction";
  /** Distinct among siblings; "" for rows without other rows below them. */
  readonly name: string;
  /** Its role or size in words. */
  readonly note: string;
  /** The line of the instruction; the line that a scope, group or computation leads to; -1 for none. */
  readonly line: number;
}

/** A way to arrange the instructions of a module as a tree. */
export interface Arrangement<N extends OutlineNode = OutlineNode> {
  readonly roots: readonly N[];
  /** The rows that are open at first. */
  readonly first: readonly N[];
  /** Returns the rows below a row, in the order of the program. */
  childrenOf(node: N): readonly N[];
  /** Returns the cost of a row with everything below it. */
  amount(node: N, measure: Measure): number;
  /** Returns the rows that are, or contain, the instruction of a line. */
  holding(line: number): Holding<N>;
}

/** A set of rows. */
export interface Holding<N extends OutlineNode = OutlineNode> {
  has(node: N): boolean;
}

interface Row {
  readonly node: OutlineNode;
  readonly level: number;
  /** The row of the parent; -1 for none. */
  readonly parent: number;
}

export class Outline {
  private rows: Row[] = [];
  private readonly children = new Map<OutlineNode, readonly OutlineNode[]>();

  /**
   * @param measure the rows with the highest amounts come first; null for the order of the program.
   * @param open paths of the rows that are open. `toggle` changes it.
   */
  constructor(
    readonly arrangement: Arrangement,
    private readonly measure: Measure | null,
    private readonly open: Set<string>,
  ) {
    this.place();
  }

  /** Opens the rows that are open at first. */
  begin(): void {
    for (const node of this.arrangement.first) this.open.add(pathOf(node));
    this.place();
  }

  get length(): number {
    return this.rows.length;
  }

  at(index: number): OutlineNode {
    return this.rows[index]!.node;
  }

  /** Returns the depth of a row, from 1. */
  level(index: number): number {
    return this.rows[index]!.level;
  }

  /** Returns whether a row is open; null without rows below it. */
  isOpen(index: number): boolean | null {
    const { node } = this.rows[index]!;
    return node.name ? this.open.has(pathOf(node)) : null;
  }

  toggle(index: number): void {
    const path = pathOf(this.rows[index]!.node);
    if (!this.open.delete(path)) this.open.add(path);
    this.place();
  }

  /** Returns the row that contains a row; -1 for none. */
  parentOf(index: number): number {
    return this.rows[index]!.parent;
  }

  /** Returns the row of a line, or the innermost one that hides it; -1 if there is none. */
  rowOf(line: number): number {
    const held = this.arrangement.holding(line);
    const holding = new Set([-1]);
    let found = -1;
    this.rows.forEach(({ node, level, parent }, index) => {
      if (!holding.has(parent) || !held.has(node)) return;
      holding.add(index);
      if (found < 0 || level > this.rows[found]!.level) found = index;
    });
    return found;
  }

  private place(): void {
    this.rows = [];
    this.add(this.arranged(this.arrangement.roots), 1, -1);
  }

  private add(nodes: readonly OutlineNode[], level: number, parent: number): void {
    for (const node of nodes) {
      const index = this.rows.push({ node, level, parent }) - 1;
      if (node.name && this.open.has(pathOf(node))) this.add(this.childrenOf(node), level + 1, index);
    }
  }

  private childrenOf(node: OutlineNode): readonly OutlineNode[] {
    let children = this.children.get(node);
    if (!children) this.children.set(node, (children = this.arranged(this.arrangement.childrenOf(node))));
    return children;
  }

  private arranged(nodes: readonly OutlineNode[]): readonly OutlineNode[] {
    const { arrangement, measure } = this;
    if (!measure) return nodes;
    const amounts = new Map(nodes.map((node) => [node, arrangement.amount(node, measure)]));
    return [...nodes].sort((a, b) => amounts.get(b)! - amounts.get(a)!);
  }
}

function pathOf({ parent, name }: OutlineNode): string {
  return parent ? `${pathOf(parent)}\n${name}` : name;
}
