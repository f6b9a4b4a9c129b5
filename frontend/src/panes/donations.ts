// The arguments of a program: which of them outputs reuse, and why the others are not reused.

import { cellOf, columnsOf, textOf } from "../lib/described.ts";
import { fill, h } from "../lib/dom.ts";
import { Sorting } from "../lib/sorting.ts";
import { StickyColumns } from "../lib/stickycolumns.ts";
import { withUnitsInHeads } from "../lib/units.ts";
import type * as messages from "../messages.ts";

export class DonationTable {
  readonly element = h("div", { class: "insp-scroll", tabindex: 0, role: "region", "aria-label": "Donated arguments" });
  private readonly body = h("tbody");
  private readonly sorting = new Sorting<messages.DonationRow>(() => this.drawRows());
  private columns: readonly messages.TableHead[] = [];
  private rows: readonly messages.DonationRow[] = [];

  show({ donation_columns, donations }: messages.MemoryTimeline): void {
    const { columns, rows } = withUnitsInHeads({ columns: donation_columns, rows: donations });
    [this.columns, this.rows] = [columns, rows];
    this.sorting.show(columnsOf(columns));
    const table = h("table", { class: "insp-table" }, h("thead", {}, this.sorting.head), this.body);
    const sticky = new StickyColumns(table);
    sticky.show(this.sorting.head);
    fill(
      this.element,
      table,
      rows.length ? null : h("div", { class: "insp-note" }, "The program has no array arguments."),
    );
    this.drawRows();
  }

  text(): string {
    return this.sorting.text(this.sorting.sorted(this.rows));
  }

  private drawRows(): void {
    fill(
      this.body,
      ...this.sorting
        .sorted(this.rows)
        .map(({ cells }) => h("tr", {}, ...this.columns.map((head, i) => this.cell(head, cells[i]!)))),
    );
  }

  private cell(head: messages.TableHead, cell: messages.TableCell): HTMLElement {
    if (head.name === "argument") return h("th", { scope: "row" }, cell.text || String(cell.value));
    if (head.name === "remark") return h("td", { class: "insp-remark" }, textOf(cell) || "–");
    return cellOf(head, cell);
  }
}
