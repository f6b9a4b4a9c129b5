// A table whose rows stand for instructions. A click or a key selects a row; rows are highlighted with the selection.

import { fill, h, oncePerFrame, update } from "../lib/dom.ts";
import { shortSource, wholeSource } from "../lib/format.ts";
import { StickyColumns } from "../lib/stickycolumns.ts";
import type * as messages from "../messages.ts";
import { CHOSEN, LEVEL_CLASSES, type Local } from "../state/local.ts";

export interface InstructionRow {
  /** The instruction that a click selects; for a group, the one with the highest cost; "" for none. */
  readonly instruction: string;
  /** Makes the cells when the row is scrolled into view. */
  readonly cells: () => readonly (HTMLElement | false)[];
}

/** Number of rows made at once, more than fit into the panel. More are made when their end comes near. */
const ROWS = 26;
const NEAR_PX = 300;

export class InstructionRows {
  readonly element: HTMLElement;
  private readonly note = h("div", { class: "insp-note" });
  private readonly head = h("thead");
  private readonly body = h("tbody");
  private readonly sticky: StickyColumns;
  private all: readonly InstructionRow[] = [];
  /** The rows that have been made. */
  private rows: { instruction: string; element: HTMLTableRowElement }[] = [];
  private isScrolled = false;
  private readonly growSoon = oncePerFrame(() => this.scrolled());

  constructor(
    label: string,
    private readonly local: Local,
    private readonly pane: messages.Pane,
  ) {
    this.element = h("div", {
      class: "insp-scroll",
      tabindex: 0,
      "aria-label": label,
      onclick: (e) => this.choose(this.indexOf(e)),
      onkeydown: ((e: KeyboardEvent) => this.key(e)) as EventListener,
      onscroll: () => this.growSoon(),
    });
    const table = h("table", { class: "insp-table" }, this.head, this.body);
    this.sticky = new StickyColumns(table);
    this.element.append(this.note, table);
    new ResizeObserver(this.growSoon).observe(this.element);
  }

  /** @param head the head row of a `Sorting`. */
  show(note: string, head: HTMLElement, rows: readonly InstructionRow[]): void {
    this.all = rows;
    this.rows = [];
    fill(this.body);
    this.note.textContent = note;
    this.note.hidden = !note;
    if (head.parentElement !== this.head) fill(this.head, head);
    this.sticky.show(head);
    this.grow();
    this.growSoon(); // until the panel is full
    if (this.isScrolled) this.element.scrollTop = 0; // only if needed: it forces a layout of all changes
    this.isScrolled = false;
  }

  private grow(): void {
    const from = this.rows.length;
    const made = this.all.slice(from, from + ROWS).map(({ instruction, cells }, i) => ({
      instruction,
      element: h("tr", { tabindex: from + i ? -1 : 0, "aria-selected": "false" }, ...cells()),
    }));
    this.rows.push(...made);
    this.body.append(...made.map(({ element }) => element));
    this.mark();
  }

  private scrolled(): void {
    const { scrollTop, clientHeight, scrollHeight } = this.element;
    this.isScrolled = scrollTop > 0;
    this.sticky.place(this.element);
    if (!clientHeight || this.rows.length === this.all.length || scrollTop + clientHeight <= scrollHeight - NEAR_PX)
      return;
    this.grow();
    this.growSoon();
  }

  mark(): void {
    const levelOf = this.local.levelsOfInstructions("optimized");
    for (const { instruction, element } of this.rows) {
      const level = levelOf(instruction);
      update(element, { class: LEVEL_CLASSES[level]!, "aria-selected": String(level === CHOSEN) });
    }
  }

  private indexOf(e: Event): number {
    const row = (e.target as Element).closest<HTMLTableRowElement>("tbody tr");
    return row?.sectionRowIndex ?? -1;
  }

  private key(e: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1, Enter: 0, " ": 0 }[e.key];
    const index = this.indexOf(e);
    if (step === undefined || index < 0) return;
    e.preventDefault();
    if (index + step >= this.rows.length) this.grow();
    const next = Math.max(0, Math.min(this.rows.length - 1, index + step));
    this.rows[next]!.element.focus({ preventScroll: false });
    this.choose(next);
  }

  /** Selects the instruction of a row, so that all panes highlight and show it. */
  private choose(index: number): void {
    const row = this.rows[index];
    if (!row?.instruction) return;
    this.rows.forEach(({ element }, i) => update(element, { tabindex: i === index ? "0" : "-1" }));
    this.local.selectInstruction(this.pane, "optimized", row.instruction);
  }
}

/** A cell with a number, dimmed if it is 0 or unknown. */
export function numberCell(value: number | null, text: (value: number) => string, title: string): HTMLElement {
  const kind = value ? "insp-number" : "insp-number insp-dim";
  return h("td", { class: kind, title }, value === null ? "–" : text(value));
}

/** A cell with a percentage and a bar behind it. */
export function shareCell(share: number | null): HTMLElement {
  const bar = { class: "insp-number insp-share", style: `--share:${(share ?? 0).toFixed(4)}` };
  return h("td", bar, share === null ? "–" : `${(100 * share).toFixed(1)} %`);
}

export function sourceCell(source: messages.SourceLine | null): HTMLElement {
  return h(
    "td",
    { title: source ? wholeSource(source) : "" },
    source ? shortSource(source) : h("span", { class: "insp-dim" }, "unknown"),
  );
}
