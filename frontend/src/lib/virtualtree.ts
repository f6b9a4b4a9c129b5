// A virtual tree: all rows have the same height, and only visible rows have elements. Its keys follow WAI-ARIA's tree
// view.

import { h } from "./dom.ts";
import { VirtualList } from "./virtuallist.ts";

export interface TreeRow {
  /** The depth, from 1. */
  readonly level: number;
  /** Null for leaves. */
  readonly isOpen: boolean | null;
  readonly isChosen: boolean;
  readonly title: string;
  readonly className: string;
  readonly content: readonly (Node | null)[];
}

/** The rows of a tree, without the children of closed ones. Rows start at 0. */
export interface TreeSource {
  readonly length: number;
  row(index: number): TreeRow;
  /** Returns the parent of a row; -1 for none. */
  parentOf(index: number): number;
  toggle(index: number): void;
  choose(index: number): void;
}

const PAGE = 12;
let count = 0;

export class VirtualTree {
  readonly element: HTMLElement;
  private readonly id = `insp-tree-${count++}`;
  private readonly list: VirtualList;
  /** The row with the keyboard focus. */
  private current = -1;

  constructor(
    label: string,
    rowHeight: number,
    private readonly source: TreeSource,
  ) {
    this.list = new VirtualList(label, "tree", rowHeight, (index) => this.row(index));
    this.element = this.list.element;
    this.element.addEventListener("click", (e) => this.click(e));
    this.element.addEventListener("dblclick", (e) => this.toggle(this.indexOf(e)));
    this.element.addEventListener("keydown", (e) => this.key(e));
  }

  /** Draws the current rows of the source. */
  show(): void {
    this.current = Math.min(this.current, this.source.length - 1);
    this.list.show(this.source.length);
  }

  /** Moves the keyboard focus to a row and scrolls to it. */
  reach(index: number): void {
    this.current = index;
    this.element.setAttribute("aria-activedescendant", `${this.id}-${index}`);
    this.list.reveal(index);
  }

  destroy(): void {
    this.list.destroy();
  }

  private row(index: number): HTMLElement {
    const { level, isOpen, isChosen, title, className, content } = this.source.row(index);
    const sign = isOpen === null ? "" : isOpen ? "▾" : "▸";
    const current = index === this.current ? " insp-tree-current" : "";
    return h(
      "div",
      {
        id: `${this.id}-${index}`,
        class: `insp-virtual-row insp-tree-row ${className}${current}`,
        role: "treeitem",
        style: `--level:${level - 1}`,
        "data-index": index,
        "aria-level": level,
        "aria-expanded": isOpen === null ? null : String(isOpen),
        "aria-selected": String(isChosen),
        title,
      },
      h("span", { class: "insp-tree-sign", "aria-hidden": "true" }, sign),
      ...content,
    );
  }

  private indexOf(e: Event): number {
    return Number((e.target as Element).closest<HTMLElement>("[data-index]")?.dataset["index"] ?? -1);
  }

  private click(e: Event): void {
    const index = this.indexOf(e);
    if (index < 0) return;
    const isSign = (e.target as Element).classList.contains("insp-tree-sign");
    this.reach(index);
    if (isSign) this.toggle(index);
    else this.source.choose(index);
  }

  private toggle(index: number): void {
    if (index < 0 || this.source.row(index).isOpen === null) return;
    this.source.toggle(index);
    this.show();
  }

  private key(e: KeyboardEvent): void {
    if (e.ctrlKey || e.metaKey || e.altKey || !this.source.length) return;
    const { current } = this;
    const last = this.source.length - 1;
    const steps: Record<string, number> = {
      ArrowDown: current + 1,
      ArrowUp: current - 1,
      PageDown: current + PAGE,
      PageUp: current - PAGE,
      Home: 0,
      End: last,
    };
    const next = steps[e.key];
    if (next !== undefined) this.go(Math.max(0, Math.min(last, next)));
    else if (!this.act(e.key)) return;
    e.preventDefault();
    e.stopPropagation();
  }

  /** Moves to a row. Chooses it at once if it is a leaf, as with lines of texts. */
  private go(index: number): void {
    this.reach(index);
    if (this.source.row(index).isOpen === null) this.source.choose(index);
  }

  /** Handles a key for the current row. Returns whether it had an effect. */
  private act(key: string): boolean {
    const { current, source } = this;
    if (current < 0) return false;
    const { isOpen } = source.row(current);
    if (key === "Enter") source.choose(current);
    else if (key === " ") this.toggle(current);
    else if (key === "ArrowRight" && isOpen === false) this.toggle(current);
    else if (key === "ArrowRight") this.go(Math.min(source.length - 1, current + (isOpen ? 1 : 0)));
    else if (key === "ArrowLeft" && isOpen) this.toggle(current);
    else if (key === "ArrowLeft") this.go(Math.max(0, source.parentOf(current)));
    else return false;
    return true;
  }
}
