// The same text of several variants side by side, one column each. Columns are linked by origin and scroll separately.

import { closeSearchPanel, openSearchPanel, searchPanelOpen, type SearchQuery } from "@codemirror/search";
import type { EditorView } from "@codemirror/view";
import { toolButton } from "../lib/controls.ts";
import type { TextDocument } from "../lib/documents.ts";
import { fill, h } from "../lib/dom.ts";
import { searchToo } from "../lib/editor.ts";
import type { EditorEvents } from "../lib/editorevents.ts";
import { plural } from "../lib/format.ts";
import { splitter } from "../lib/splitter.ts";
import type { TextPane as Name } from "../messages.ts";
import { goesOn } from "../state/synced.ts";
import { nameOf, stateMark, textOf, tooltipOf } from "./labels.ts";
import { type Context, TITLES } from "./pane.ts";
import { clock } from "./states.ts";
import { TextPane } from "./text.ts";

const LEAST_WIDTH_PX = 120;
const KEY_STEP_PX = 24;

type OnSearch = (query: SearchQuery) => void;

/** A text in a column. A column has room for two tools only. */
class ColumnText extends TextPane {
  constructor(
    context: Context,
    name: Name,
    variant: number,
    private readonly onSearch: OnSearch,
  ) {
    super(context, name, variant);
    this.tools.replaceChildren(this.matches.stepper, this.findButton);
  }

  get view(): EditorView | null {
    return this.own?.view ?? null;
  }

  protected override events(document: TextDocument): EditorEvents {
    return { ...super.events(document), onSearch: this.onSearch };
  }
}

class Column {
  readonly element: HTMLElement;
  private readonly main: HTMLButtonElement;
  private readonly hide: HTMLButtonElement;
  private readonly text: ColumnText;

  constructor(
    private readonly context: Context,
    name: Name,
    readonly variant: number,
    onSearch: OnSearch,
  ) {
    const { local } = context;
    this.text = new ColumnText(context, name, variant, onSearch);
    this.main = h("button", {
      type: "button",
      class: "insp-column-name",
      "data-column": variant,
      onclick: () => local.setActive(variant),
    });
    this.hide = toolButton("close", "Hide this column", () => local.hideColumn(variant));
    const head = h("div", { class: "insp-column-head" }, this.main, this.text.tools, this.hide);
    this.element = h("section", { class: "insp-column", "data-variant": variant }, head, this.text.element);
    this.drawHead();
  }

  setVisible(visible: boolean): void {
    this.text.setVisible(visible);
  }

  /** Applies the width that the user set; without one, all columns have the same width. */
  resize(): void {
    const share = this.context.local.columnShares.get(this.variant);
    this.element.style.flex = share === undefined ? "" : `${share} 0 ${100 * share}%`;
    this.element.classList.toggle("insp-column-sized", share !== undefined);
  }

  get hasFocus(): boolean {
    return this.element.contains(document.activeElement);
  }

  focus(): void {
    this.main.focus();
  }

  destroy(): void {
    this.text.destroy();
    this.element.remove();
  }

  get view(): EditorView | null {
    return this.text.view;
  }

  drawHead(): void {
    const { synced, local } = this.context;
    const variant = synced.variants.get(this.variant);
    if (!variant) return;
    const lines = synced.document(this.text.name, this.variant)?.lines.length;
    fill(
      this.main,
      stateMark(variant.state),
      ...nameOf(variant),
      goesOn(variant)
        ? clock(variant)
        : h("span", { class: "insp-dim insp-line-count" }, lines === undefined ? "" : plural(lines, "line")),
    );
    const isBaseline = this.variant === synced.baseline;
    this.main.title = tooltipOf(variant, isBaseline);
    this.main.setAttribute("aria-pressed", String(this.variant === local.active));
    this.element.setAttribute("aria-label", `${TITLES[this.text.name]} of ${textOf(variant)}`);
    this.element.classList.toggle("insp-column-active", this.variant === local.active);
    this.text.tools.hidden = lines === undefined;
    this.hide.hidden = local.columns.length < 3;
  }
}

export class Columns {
  readonly element = h("div", { class: "insp-side-by-side" });
  private readonly columns = new Map<number, Column>();
  private readonly splitters = new Map<number, HTMLElement>();
  private isVisible = false;
  private order: readonly number[] = [];
  private active: number | null = null;

  constructor(
    private readonly context: Context,
    private readonly name: Name,
  ) {}

  setVisible(visible: boolean): void {
    this.isVisible = visible;
    this.columns.forEach((column) => column.setVisible(visible));
  }

  /** Adds and removes columns so that they match the shown variants. The other columns keep their scroll positions. */
  draw(): void {
    const wanted = this.context.local.columns;
    const gone = [...this.columns.values()].find((column) => column.hasFocus && !wanted.includes(column.variant));
    for (const [variant, column] of this.columns) if (!wanted.includes(variant)) this.drop(variant, column);
    wanted.forEach((variant, index) => {
      const column = this.columns.get(variant);
      if (column) column.drawHead();
      else this.add(variant, index);
    });
    this.drawSplitters(wanted);
    if (gone) this.columns.get(wanted[0]!)?.focus();
    if (this.active === this.context.local.active) return;
    this.active = this.context.local.active;
    // In the next frame, because it needs the sizes of elements.
    requestAnimationFrame(() => this.reveal(this.active));
  }

  /** Opens the search panel in every column, with a shared query. Closes them if all are open. */
  find(): void {
    const { active } = this.context.local;
    const isActive = (column: Column): boolean => column.variant === active;
    // The panel that opens last gets the focus.
    const columns = [...this.columns.values()].sort((a, b) => Number(isActive(a)) - Number(isActive(b)));
    const views = columns.map((column) => column.view).filter((view) => view !== null);
    const areOpen = views.every((view) => searchPanelOpen(view.state));
    views.forEach(areOpen ? closeSearchPanel : openSearchPanel);
  }

  destroy(): void {
    this.columns.forEach((column) => column.destroy());
    this.columns.clear();
  }

  private add(variant: number, index: number): void {
    const column = new Column(this.context, this.name, variant, (query) => this.search(query));
    this.columns.set(variant, column);
    const next = [...this.element.querySelectorAll<HTMLElement>(":scope > .insp-column")][index] ?? null;
    this.element.insertBefore(column.element, next);
    column.resize();
    column.setVisible(this.isVisible);
  }

  private search(query: SearchQuery): void {
    for (const { view } of this.columns.values()) if (view) searchToo(view, query);
  }

  private drop(variant: number, column: Column): void {
    column.destroy();
    this.columns.delete(variant);
  }

  /** Draws a splitter between neighboring columns. Each is identified by the variant at its left. */
  private drawSplitters(wanted: readonly number[]): void {
    this.order = wanted;
    const lefts = wanted.slice(0, -1);
    if (lefts.length === this.splitters.size && lefts.every((left) => this.splitters.has(left))) return;
    this.splitters.forEach((each) => each.remove());
    this.splitters.clear();
    for (const left of lefts) {
      const border = this.splitter(left);
      this.splitters.set(left, border);
      this.columns.get(left)!.element.after(border);
    }
  }

  private splitter(left: number): HTMLElement {
    const { local, synced } = this.context;
    return splitter({
      label: `${synced.variants.get(left)?.label ?? "Column"} width`,
      isVertical: true,
      className: "insp-splitter",
      start: () => {
        const from = this.widths(left);
        return (pixels) => this.move(left, from, pixels);
      },
      step: (direction) => this.move(left, this.widths(left), direction * KEY_STEP_PX),
      reset: () => {
        local.columnShares.clear();
        this.columns.forEach((column) => column.resize());
      },
      position: () => this.widths(left)[0] / Math.max(1, this.element.clientWidth),
    });
  }

  /** Returns the widths of a column and of its right neighbor, in pixels. */
  private widths(left: number): readonly [number, number] {
    const width = (variant: number): number => this.columns.get(variant)!.element.offsetWidth;
    return [width(left), width(this.right(left))];
  }

  private right(left: number): number {
    return this.order[this.order.indexOf(left) + 1]!;
  }

  private move(left: number, [own, next]: readonly [number, number], pixels: number): void {
    const by = Math.max(LEAST_WIDTH_PX - own, Math.min(next - LEAST_WIDTH_PX, pixels));
    // Sets every share: columns without one would take the remaining width.
    for (const [variant, { element }] of this.columns) this.share(variant, element.offsetWidth);
    this.share(left, own + by);
    this.share(this.right(left), next - by);
    this.columns.forEach((column) => column.resize());
  }

  private share(variant: number, width: number): void {
    this.context.local.columnShares.set(variant, width / Math.max(1, this.element.clientWidth));
  }

  /** Scrolls to a column if the columns are wider than the pane, without moving anything around them. */
  private reveal(variant: number | null): void {
    const column = this.columns.get(variant ?? -1)?.element;
    if (!column) return;
    const left = column.offsetLeft - this.element.offsetLeft;
    const { scrollLeft, clientWidth } = this.element;
    if (left < scrollLeft) this.element.scrollLeft = left;
    else if (left + column.offsetWidth > scrollLeft + clientWidth)
      this.element.scrollLeft = left + column.offsetWidth - clientWidth;
  }
}
