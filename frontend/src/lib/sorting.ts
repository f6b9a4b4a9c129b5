// The columns of a table: a head for sorting the rows, and the rows as text for data frames.

import { fill, h, update } from "./dom.ts";

export interface Column<Row> {
  /** The name of the column in Python's data frames, or a similar name for other columns. */
  readonly name: string;
  readonly text: string;
  readonly title?: string;
  /** Numbers are right-aligned and sorted in descending order at first; places in ascending order. */
  readonly isNumber?: boolean;
  readonly isPlace?: boolean;
  /** Returns the value for sorting and copying; null if unknown. */
  readonly value: (row: Row) => string | number | boolean | null;
}

/** The order of a table's rows. The head element is kept while rows change, which keeps the keyboard focus. */
export class Sorting<Row> {
  readonly head = h("tr");
  /** The name of the column to sort by; "" for none. */
  by = "";
  isDescending = false;
  private columns: readonly Column<Row>[] = [];
  private heads: { column: Column<Row>; cell: HTMLElement; button: HTMLElement }[] = [];

  /** @param changed is called when the user has chosen another order. */
  constructor(private readonly changed: () => void) {}

  /** Sets the columns and the default order. An order that the user chose is kept as long as its column exists. */
  show(columns: readonly Column<Row>[], by = ""): void {
    const isSame = columns.length === this.columns.length && columns.every((c, i) => c.name === this.columns[i]!.name);
    this.columns = columns;
    if (isSame) {
      // The same columns with other headings, such as lines instead of scopes.
      this.heads = this.heads.map((head, i) => ({ ...head, column: columns[i]! }));
      return this.draw();
    }
    if (!columns.some(({ name }) => name === this.by)) {
      this.by = by;
      this.isDescending = columns.find(({ name }) => name === by)?.isNumber ?? false;
    }
    this.heads = columns.map((column) => {
      const onclick = (): void => this.choose(column);
      const button = h("button", { type: "button", class: "insp-sort", onclick });
      const cell = h("th", { scope: "col", "data-column": column.name }, button);
      return { column, cell, button };
    });
    fill(this.head, ...this.heads.map(({ cell }) => cell));
    this.draw();
  }

  sorted(rows: readonly Row[]): readonly Row[] {
    const column = this.columns.find(({ name }) => name === this.by);
    return column ? inOrder(rows, column.value, this.isDescending) : rows;
  }

  /** Returns the rows in the shown order as text, with unformatted numbers. */
  text(rows: readonly Row[]): string {
    return tabbed(this.columns, rows);
  }

  private choose({ name, isNumber = false }: Column<Row>): void {
    this.isDescending = name === this.by ? !this.isDescending : isNumber;
    this.by = name;
    this.draw();
    this.changed();
  }

  private draw(): void {
    for (const { column, cell, button } of this.heads) {
      const isSorted = column.name === this.by;
      const isRight = column.isNumber || column.isPlace;
      update(cell, {
        class: isRight ? "insp-number" : "",
        "aria-sort": isSorted ? (this.isDescending ? "descending" : "ascending") : "none",
      });
      update(button, { title: column.title ?? "" });
      const text = column.text + (isSorted ? (this.isDescending ? " ↓" : " ↑") : "");
      if (button.textContent !== text) button.textContent = text;
    }
  }
}

/** Sorts rows by a value. The sort is stable, and unknown values come last. */
export function inOrder<Row>(rows: readonly Row[], value: Column<Row>["value"], isDescending: boolean): readonly Row[] {
  const values = new Map(rows.map((row) => [row, value(row)]));
  const sign = isDescending ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [one, other] = [values.get(a)!, values.get(b)!];
    if (one === null || other === null) return Number(one === null) - Number(other === null);
    const order =
      typeof one === "string" && typeof other === "string" ? collate(one, other) : Number(one) - Number(other);
    return sign * order;
  });
}

/** Returns a line of column names and one line per row, separated by tabs, for `pandas.read_clipboard`. */
export function tabbed<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): string {
  const cell = (value: string | number | boolean | null): string =>
    typeof value === "boolean" ? (value ? "True" : "False") : quoted(String(value ?? ""));
  return [
    columns.map(({ name }) => name).join("\t"),
    ...rows.map((row) => columns.map(({ value }) => cell(value(row))).join("\t")),
  ].join("\n");
}

function quoted(text: string): string {
  return /["\t\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const { compare: collate } = new Intl.Collator("en", { numeric: true });
