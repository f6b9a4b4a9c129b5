// A list of rows under headings, with a filter. Used by the Passes and Code panes.

import { fill, h, update, whenLaidOut } from "../lib/dom.ts";

export interface Row {
  readonly key: string;
  /** The heading above the row; "" for none. */
  readonly group: string;
  /** The text that the filter searches. */
  readonly text: string;
  readonly className: string;
  readonly cells: readonly HTMLElement[];
}

/**
 * The list. `widths` are CSS lengths of the columns, null for the remaining width; `head` is the head of a `Sorting`.
 */
export class RowList {
  readonly element = h("div", { class: "insp-rowlist" });
  readonly filter: HTMLInputElement;
  private readonly body = h("tbody");
  private readonly note = h("div", { class: "insp-note" });
  private readonly scroller: HTMLElement;
  private rows: readonly Row[] = [];
  private shown: { row: Row; element: HTMLTableRowElement }[] = [];
  private selected = "";

  constructor(
    label: string,
    filterLabel: string,
    widths: readonly (string | null)[],
    private readonly choose: (key: string) => void,
    head?: HTMLElement,
  ) {
    this.filter = h("input", {
      type: "search",
      class: "insp-filter",
      placeholder: filterLabel,
      "aria-label": filterLabel,
      oninput: () => this.draw(),
    });
    const columns = widths.map((width) => h("col", { style: width && `width:${width}` }));
    const table = h(
      "table",
      { class: "insp-table insp-rows", "aria-label": label },
      h("colgroup", {}, ...columns),
      head && h("thead", {}, head),
      this.body,
    );
    this.scroller = h("div", { class: "insp-scroll" }, this.note, table); // the note scrolls with the rows
    this.element.append(this.scroller);
  }

  show(rows: readonly Row[], note: string): void {
    this.rows = rows;
    this.note.textContent = note;
    this.note.hidden = !note;
    this.draw();
  }

  /** Marks a row and scrolls to it. */
  select(key: string): void {
    const isNew = key !== this.selected;
    this.selected = key;
    for (const { row, element } of this.shown) {
      const isChosen = row.key === key;
      element.classList.toggle("insp-chosen", isChosen);
      update(element, { "aria-selected": String(isChosen), tabindex: isChosen ? "0" : "-1" });
      if (isChosen && isNew) whenLaidOut(element, () => this.reveal(element));
    }
    if (!this.shown.some(({ row }) => row.key === key) && this.shown[0]) this.shown[0].element.tabIndex = 0;
  }

  private draw(): void {
    const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const matching = this.rows.filter(({ text }) => words.every((word) => text.toLowerCase().includes(word)));
    this.shown = matching.map((row) => ({ row, element: this.row(row) }));
    const lines = this.shown.flatMap(({ row, element }, i) => {
      const isFirst = row.group !== "" && row.group !== matching[i - 1]?.group;
      return isFirst ? [heading(row.group, row.cells.length), element] : [element];
    });
    const none = h("tr", {}, h("td", { class: "insp-dim" }, this.rows.length ? "No matches." : "None."));
    fill(this.body, ...(lines.length ? lines : [none]));
    this.select(this.selected);
  }

  private row(row: Row): HTMLTableRowElement {
    const onkeydown = ((e: KeyboardEvent) => this.key(e, row)) as EventListener;
    return h(
      "tr",
      { class: row.className, tabindex: -1, "aria-selected": "false", onclick: () => this.choose(row.key), onkeydown },
      ...row.cells,
    );
  }

  private key(e: KeyboardEvent, row: Row): void {
    const step = { ArrowDown: 1, ArrowUp: -1, Enter: 0, " ": 0 }[e.key];
    if (step === undefined) return;
    e.preventDefault();
    const index = this.shown.findIndex((shown) => shown.row === row) + step;
    const next = this.shown[Math.max(0, Math.min(this.shown.length - 1, index))];
    if (!next) return;
    this.choose(next.row.key);
    next.element.focus({ preventScroll: true });
  }

  /** Scrolls the list only, not the notebook around it. */
  private reveal(row: HTMLElement): void {
    const frame = this.scroller.getBoundingClientRect();
    const box = row.getBoundingClientRect();
    if (box.top < frame.top || box.bottom > frame.bottom)
      this.scroller.scrollTop += box.top - frame.top - (frame.height - box.height) / 2;
  }
}

function heading(text: string, columns: number): HTMLElement {
  return h("tr", { class: "insp-rowlist-group" }, h("td", { colspan: columns, title: text }, text));
}
