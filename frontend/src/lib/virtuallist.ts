// A virtual list: all rows have the same height, and only visible rows have elements.

import { fill, h, oncePerFrame } from "./dom.ts";

export class VirtualList {
  readonly element: HTMLElement;
  private readonly sheet = h("div", { class: "insp-virtual-sheet", role: "presentation" });
  private readonly resizes = new ResizeObserver(() => this.draw());
  private count = 0;

  /** @param row makes the element of a row, from 0. */
  constructor(
    label: string,
    role: string,
    private readonly rowHeight: number,
    private readonly row: (index: number) => HTMLElement,
  ) {
    this.element = h("div", { class: "insp-virtual", role, tabindex: 0, "aria-label": label }, this.sheet);
    this.element.addEventListener(
      "scroll",
      oncePerFrame(() => this.draw()),
    );
    this.resizes.observe(this.element);
  }

  show(count: number): void {
    this.count = count;
    this.draw();
  }

  draw(): void {
    const { scrollTop, clientHeight } = this.element;
    const first = Math.max(0, Math.floor(scrollTop / this.rowHeight) - 2);
    const last = Math.min(this.count, Math.ceil((scrollTop + clientHeight) / this.rowHeight) + 2);
    const rows = Array.from({ length: Math.max(0, last - first) }, (_, i) => {
      const element = this.row(first + i);
      element.style.top = `${(first + i) * this.rowHeight}px`;
      element.style.height = `${this.rowHeight}px`;
      return element;
    });
    this.sheet.style.height = `${this.count * this.rowHeight}px`;
    fill(this.sheet, ...rows);
  }

  /** Scrolls the list (only) until a row is visible. */
  reveal(index: number): void {
    const { element, rowHeight } = this;
    const top = index * rowHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + rowHeight > element.scrollTop + element.clientHeight)
      element.scrollTop = top + rowHeight - element.clientHeight;
    this.draw();
  }

  destroy(): void {
    this.resizes.disconnect();
  }
}
