// The open and closed boxes of a graph. It limits the number of nodes on screen, and every node can be reached.

import { type GraphModel, NOWHERE } from "./model.ts";

/** Largest number of nodes on screen. */
export const MOST_SHOWN = 150;
/** Number of nodes that are shown at first, if the module has that many. */
const FIRST_SHOWN = 40;
const FEWEST_SHOWN = 12;

export class Folding {
  /** The node that fills the pane: the module, or a box in it. */
  top: number;
  /** The open nodes, in the order in which they were opened. */
  private readonly opened = new Set<number>();

  constructor(readonly model: GraphModel) {
    this.top = model.root;
    this.opened.add(model.root);
    this.openFirst();
  }

  isOpen(node: number): boolean {
    return this.opened.has(node);
  }

  /** Returns the nodes on screen, each before its children, without the one that fills the pane. */
  shown(): number[] {
    const found: number[] = [];
    const waiting = [...this.model.children(this.top)].reverse();
    while (waiting.length) {
      const node = waiting.pop()!;
      found.push(node);
      if (this.isOpen(node)) waiting.push(...[...this.model.children(node)].reverse());
    }
    return found;
  }

  /** Returns the node on screen that stands for a node: itself or a closed box around it; NOWHERE outside of `top`. */
  standIn(node: number): number {
    let found = node;
    let at = node;
    for (; at !== NOWHERE && at !== this.top; at = this.model.parents[at]!) if (!this.isOpen(at)) found = at;
    return at === this.top && node !== this.top ? found : NOWHERE;
  }

  open(node: number): void {
    if (!this.model.canOpen(node)) return;
    for (const outer of [...this.model.path(node), node]) {
      this.opened.delete(outer);
      this.opened.add(outer);
    }
    if (!this.model.isWithin(node, this.top)) this.top = this.model.root;
    this.makeRoom(node);
  }

  close(node: number): void {
    if (node !== this.top) this.opened.delete(node);
  }

  /** Opens the boxes around a node. */
  reveal(node: number): void {
    const parent = this.model.parents[node]!;
    if (parent !== NOWHERE) this.open(parent);
  }

  /** Fills the pane with a box or with the module. */
  enter(node: number): void {
    if (!this.model.canOpen(node)) return;
    this.top = node;
    this.open(node);
  }

  /** Opens the same boxes as in another graph, matched by title, so that both look alike. */
  openLike(other: Folding): void {
    this.opened.clear();
    this.opened.add(this.model.root);
    for (const node of other.opened) {
      const found = counterpart(this.model, other.model, node);
      if (found !== NOWHERE) this.opened.add(found);
    }
    const top = counterpart(this.model, other.model, other.top);
    this.top = top !== NOWHERE && this.isOpen(top) ? top : this.model.root;
    this.makeRoom(this.top);
  }

  /** Closes the boxes that were opened first. If that is not enough, hides the surroundings of `kept`. */
  private makeRoom(kept: number): void {
    let count = this.shown().length;
    for (const node of [...this.opened]) {
      if (count <= MOST_SHOWN) return;
      if (node === this.top || this.model.isWithin(kept, node) || this.standIn(node) !== node) continue;
      this.opened.delete(node);
      count = this.shown().length;
    }
    while (count > MOST_SHOWN && this.top !== kept) {
      let next = kept;
      while (this.model.parents[next] !== this.top) next = this.model.parents[next]!;
      this.top = next;
      count = this.shown().length;
    }
  }

  /** Opens the boxes with the most instructions, up to `FIRST_SHOWN` nodes. */
  private openFirst(): void {
    const { model } = this;
    for (;;) {
      const shown = this.shown();
      if (shown.length >= FEWEST_SHOWN) return;
      const room = FIRST_SHOWN - shown.length;
      const fits = (node: number): boolean =>
        model.isBox(node) && model.kind(node) !== "inputs" && !this.isOpen(node) && model.children(node).length <= room;
      const found = shown.filter(fits);
      if (!found.length) return;
      const largest = found.reduce((a, b) => (model.instructionsIn(b) > model.instructionsIn(a) ? b : a));
      this.opened.add(largest);
    }
  }
}

/** Returns the node with the same path of titles as a node of another graph; NOWHERE if there is none. */
export function counterpart(model: GraphModel, other: GraphModel, node: number): number {
  let found = model.root;
  for (const step of [...other.path(node), node].slice(1)) {
    const title = other.title(step);
    const next = model.children(found).find((child) => model.title(child) === title);
    if (next === undefined) return NOWHERE;
    found = next;
  }
  return found;
}
