// A table of the instructions of the active variant with their costs. Clicking a column sorts it.

import { type Choice, Switcher } from "../lib/controls.ts";
import { copyButton } from "../lib/copying.ts";
import { columnsOf, textOf } from "../lib/described.ts";
import { fill, h } from "../lib/dom.ts";
import { grouped } from "../lib/format.ts";
import { type Column, Sorting } from "../lib/sorting.ts";
import { withUnitsInHeads } from "../lib/units.ts";
import type * as messages from "../messages.ts";
import type { Request } from "../state/synced.ts";
import { CountedPane } from "./counted.ts";
import { type InstructionRow, InstructionRows, numberCell, sourceCell } from "./instructionrows.ts";
import type { Context, Pane } from "./pane.ts";
import "../styles/instructions.css";

type Row = messages.InstructionRow & { readonly place: number };
type Which = "kernels" | "all";

/** Values of cells with names that Python's description lacks: a notebook cell is `In [3]`. */
const VALUES: Record<string, Column<Row>["value"]> = {
  order: ({ place }) => place,
  source: ({ source }) => source && `${source.file}:${source.line}`,
};
const WHICH: Choice<Which>[] = [
  { value: "kernels", text: "Kernels", title: "Instructions that run by themselves, without those inside fusions" },
  { value: "all", text: "All", title: "All instructions, including those inside fusions" },
];
class InstructionsPane extends CountedPane<"instruction_table"> {
  readonly element = h("div", { class: "insp-instructions", "data-pane": "instructions" });
  protected readonly reply = "instruction_table";
  protected readonly what = "instructions";
  private readonly which = new Switcher<Which>("Instructions shown", WHICH, "kernels", this.drawing.request);
  private readonly rows: InstructionRows;
  /** The chosen order. Python sorts, because it has all rows. */
  private readonly sorting = new Sorting<Row>(() => {
    this.chosen = this.sorting.by as messages.InstructionColumn;
    this.drawing.request();
  });
  /** The column that the user chose; null for the first order, the most expensive instruction first. */
  private chosen: messages.InstructionColumn | null = null;

  constructor(context: Context) {
    super(context, "instructions");
    this.rows = new InstructionRows("Instructions", context.local, "instructions");
    const copied = (): string => this.sorting.text(this.shown ? placed(this.shown) : []);
    this.tools.append(this.which.element, copyButton(copied, "compiled.instructions()"));
  }

  protected wanted(variant: number): Request {
    const { variant: shown, costs } = this.context.local;
    return {
      type: "instructions",
      variant,
      column: this.chosen,
      is_descending: this.chosen === null || this.sorting.isDescending,
      has_fused: this.which.value === "all",
      profile: shown!.profile,
      measured_roofs: costs.measuredRoofs,
    };
  }

  protected show(message: messages.InstructionTable): void {
    const table = withUnitsInHeads(message);
    if (this.sorting.by !== message.column) [this.sorting.by, this.sorting.isDescending] = [message.column, true]; // Python's choice
    this.sorting.show(
      columnsOf(table.columns, VALUES).map((column) =>
        column.name === "order" ? { ...column, isNumber: false, isPlace: true } : column,
      ),
    );
    const { name, title } = table.columns.find((column) => column.name === this.sorting.by)!;
    const order = name === "order" ? "in text order" : `by ${title}`;
    const isCut = table.rows.length < table.total;
    if (!this.rows.element.isConnected) fill(this.element, this.rows.element);
    this.rows.show(
      isCut ? `First ${grouped(table.rows.length)} of ${grouped(table.total)} instructions, ${order}.` : "",
      this.sorting.head,
      placed(table).map((row) => rowOf(row, table.columns)),
    );
  }

  protected mark(): void {
    this.rows.mark();
  }
}

function placed({ rows }: messages.InstructionTable): Row[] {
  return rows.map((row, i) => ({ ...row, place: i + 1 }));
}

function rowOf(row: Row, columns: readonly messages.TableHead[]): InstructionRow {
  const instruction = textOf(row.cells[columns.findIndex(({ name }) => name === "name")]!);
  return { instruction, cells: () => columns.map((head, i) => cell(head, row, row.cells[i]!)) };
}

function cell(head: messages.TableHead, row: Row, content: messages.TableCell): HTMLElement {
  const { value, note } = content;
  const text = textOf(content);
  if (head.name === "order") return h("td", { class: "insp-number insp-dim" }, String(row.place));
  if (head.name === "name") return h("th", { scope: "row", title: `${text} in ${row.computation}` }, text);
  if (head.name === "opcode") return h("td", {}, h("span", { class: "insp-tok-op" }, text));
  if (head.name === "shape") return h("td", { title: text }, h("code", {}, text));
  if (head.name === "source") return sourceCell(row.source);
  const number = value as number | null;
  const title = number === null ? note || "unknown" : head.name.endsWith("_s") ? `${number} s` : grouped(number);
  return numberCell(number, () => text, title);
}

export const pane = (context: Context): Pane => new InstructionsPane(context);
