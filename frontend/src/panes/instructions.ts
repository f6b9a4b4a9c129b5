// A table of the instructions of the active variant with their costs. Clicking a column sorts it.

import { type Choice, Switcher } from "../lib/controls.ts";
import { copyButton } from "../lib/copying.ts";
import { fill, h } from "../lib/dom.ts";
import { format, grouped } from "../lib/format.ts";
import { type Column, Sorting } from "../lib/sorting.ts";
import type * as messages from "../messages.ts";
import type { Request } from "../state/synced.ts";
import { CountedPane } from "./counted.ts";
import { type InstructionRow, InstructionRows, numberCell, sourceCell } from "./instructionrows.ts";
import type { Context, Pane } from "./pane.ts";
import "../styles/instructions.css";

type Row = messages.InstructionRow & { readonly place: number };
type Which = "kernels" | "all";

const COLUMNS: readonly (Column<Row> & { readonly name: messages.InstructionColumn })[] = [
  { name: "order", text: "#", title: "In text order", isPlace: true, value: ({ place }) => place },
  { name: "name", text: "instruction", title: "By name", value: ({ name }) => name },
  { name: "opcode", text: "opcode", title: "By opcode", value: ({ opcode }) => opcode },
  { name: "shape", text: "shape", title: "By shape", value: ({ shape }) => shape },
  {
    name: "flops",
    text: "flops",
    title: "By FLOPs of one run, including called computations",
    isNumber: true,
    value: ({ flops }) => flops,
  },
  {
    name: "bytes_accessed",
    text: "bytes",
    title: "By bytes read and written in one run",
    isNumber: true,
    value: ({ bytes_accessed }) => bytes_accessed,
  },
  {
    name: "executions",
    text: "runs",
    title: "By runs per execution of the program",
    isNumber: true,
    value: ({ executions }) => executions,
  },
  {
    name: "source",
    text: "source",
    title: "By source line",
    value: ({ source }) => source && `${source.file}:${source.line}`,
  },
];
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
  private readonly sorting = new Sorting<Row>(this.drawing.request);

  constructor(context: Context) {
    super(context, "instructions");
    this.rows = new InstructionRows("Instructions", context.local, "instructions");
    this.sorting.show(COLUMNS, "bytes_accessed");
    const copied = (): string => this.sorting.text(this.shown ? placed(this.shown) : []);
    this.tools.append(this.which.element, copyButton(copied, "compiled.instructions()"));
  }

  protected wanted(variant: number): Request {
    const { isDescending: is_descending } = this.sorting;
    const column = this.sorting.by as messages.InstructionColumn;
    return { type: "instructions", variant, column, is_descending, has_fused: this.which.value === "all" };
  }

  protected show(table: messages.InstructionTable): void {
    const order = COLUMNS.find(({ name }) => name === this.sorting.by)!.title!.toLowerCase();
    const isCut = table.rows.length < table.total;
    if (!this.rows.element.isConnected) fill(this.element, this.rows.element);
    this.rows.show(
      isCut ? `First ${grouped(table.rows.length)} of ${grouped(table.total)} instructions, ${order}.` : "",
      this.sorting.head,
      placed(table).map(rowOf),
    );
  }

  protected mark(): void {
    this.rows.mark();
  }
}

function placed({ rows }: messages.InstructionTable): Row[] {
  return rows.map((row, i) => ({ ...row, place: i + 1 }));
}

function rowOf(row: Row): InstructionRow {
  const number = (value: number | null, unit: messages.StatsRow["unit"]): HTMLElement =>
    numberCell(value, (known) => format(known, unit), value === null ? row.unknown || "unknown" : grouped(value));
  return {
    instruction: row.name,
    cells: () => [
      h("td", { class: "insp-number insp-dim" }, String(row.place)),
      h("th", { scope: "row", title: `${row.name} in ${row.computation}` }, row.name),
      h("td", {}, h("span", { class: "insp-tok-op" }, row.opcode)),
      h("td", { title: row.shape }, h("code", {}, row.shape)),
      number(row.flops, "count"),
      number(row.bytes_accessed, "bytes"),
      number(row.executions, "count"),
      sourceCell(row.source),
    ],
  };
}

export const pane = (context: Context): Pane => new InstructionsPane(context);
