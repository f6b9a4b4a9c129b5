// The columns of a table: its head, by which the rows are sorted, and the rows as text that a data frame is read from.

import { fill, h, update } from "./dom.ts";

export interface Column<Row> {
  /** As the frames of Python call it; of a column that they have not, in the same way. */
  readonly name: string;
  readonly text: string;
  readonly title?: string;
  /** Numbers stand on the right, and are looked at from the largest; places from the first. */
  readonly isNumber?: boolean;
  readonly isPlace?: boolean;
  /** What it is sorted by, and what is copied; null where nothing is known. */
  readonly value: (row: Row) => string | number | boolean | null;
}

/** The order of a table's rows. The head stays while rows change, so that the keyboard's focus does. */
export class Sorting<Row> {
  readonly head = h("tr");
  /** The name of a column, "" for none. */
  by = "";
  isDescending = false;
  private columns: readonly Column<Row>[] = [];
  private heads: { column: Column<Row>; cell: HTMLElement; button: HTMLElement }[] = [];

  /** @param changed is told when the reader has chosen another order. */
  constructor(private readonly changed: () => void) {}

  /** Takes the columns of the table, and how the rows come; an order that the reader chose stays while its column does. */
  show(columns: readonly Column<Row>[], by = ""): void {
    const isSame = columns.length === this.columns.length && columns.every((c, i) => c.name === this.columns[i]!.name);
    this.columns = columns;
    if (isSame) {
      // The same data under another heading, such as scopes after lines.
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
      const cell = h("th", { scope: "col" }, button);
      return { column, cell, button };
    });
    fill(this.head, ...this.heads.map(({ cell }) => cell));
    this.draw();
  }

  sorted(rows: readonly Row[]): readonly Row[] {
    const column = this.columns.find(({ name }) => name === this.by);
    return column ? inOrder(rows, column.value, this.isDescending) : rows;
  }

  /** The rows as they are shown, with the numbers behind what is written. */
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

/** Rows by a value of theirs; equal ones stay in order, and those of which nothing is known come last. */
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

/** A line of names, then one a row, with tabs between: what `pandas.read_clipboard` takes for a frame. */
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
