// A base class for panes that are drawn while they are on screen and highlight the selection.

import { h } from "../lib/dom.ts";
import type { Pane as PaneName } from "../messages.ts";
import { type Context, Drawing, follow, type Pane } from "./pane.ts";

export abstract class LinkedPane implements Pane {
  abstract readonly element: HTMLElement;
  readonly tools = h("div", { class: "insp-tools" });
  protected readonly drawing = new Drawing(() => this.draw());
  private readonly marking = new Drawing(() => this.mark());
  private readonly resizes = new ResizeObserver(() => {
    if (this.drawing.isVisible) this.resize();
  });
  private readonly ends: (() => void)[];

  constructor(
    protected readonly context: Context,
    name: PaneName,
  ) {
    this.ends = [
      follow(context, name, this.drawing),
      context.local.signal.on(["active"], this.drawing.request),
      context.local.signal.on(["selection"], () => this.marking.request),
      context.local.signal.on(["reveal"], () => {
        const { revealed, revealedPart } = context.local;
        if (revealed === name && revealedPart) this.showPart(revealedPart);
      }),
      () => this.resizes.disconnect(),
    ];
  }

  setVisible(visible: boolean): void {
    this.drawing.setVisible(visible);
    this.marking.setVisible(visible);
  }

  destroy(): void {
    this.ends.forEach((end) => end());
  }

  /** Calls `resize` when the size of an element on screen changes. */
  protected watch(element: Element): void {
    this.resizes.observe(element);
  }

  protected abstract draw(): void;
  /** Highlights everything that belongs to the selection. */
  protected abstract mark(): void;
  protected resize(): void {}
  /** Shows a part of the pane, named by `Local.revealedPart`. */
  protected showPart(_part: string): void {}
}
