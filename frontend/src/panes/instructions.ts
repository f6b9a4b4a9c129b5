// The instructions of the active variant with what each costs, sorted by a click on a column.

import { type Choice, Switcher } from "../lib/controls.ts";
import { fill, h } from "../lib/dom.ts";
import { format, grouped } from "../lib/format.ts";
import type * as messages from "../messages.ts";
import type { Request } from "../state/synced.ts";
import { CountedPane } from "./counted.ts";
import { type InstructionRow, InstructionRows, numberCell, sourceCell } from "./instructionrows.ts";
import type { Context, Pane } from "./pane.ts";
import "../styles/instructions.css";

type Column = messages.InstructionColumn;
type Which = "kernels" | "all";

interface Heading {
  readonly column: Column;
  readonly text: string;
  readonly title: string;
  readonly isNumber: boolean;
}

const HEADINGS: readonly Heading[] = [
  { column: "order", text: "#", title: "By the order of the text", isNumber: true },
  { column: "name", text: "instruction", title: "By name", isNumber: false },
  { column: "opcode", text: "opcode", title: "By opcode", isNumber: false },
  { column: "shape", text: "shape", title: "By shape", isNumber: false },
  { column: "flops", text: "flops", title: "By operations, of one execution with all that it calls", isNumber: true },
  { column: "bytes_accessed", text: "bytes", title: "By bytes read and written, of one execution", isNumber: true },
  { column: "executions", text: "runs", title: "By how often it runs in one execution", isNumber: true },
  { column: "source", text: "source", title: "By source line", isNumber: false },
];
const WHICH: Choice<Which>[] = [
  { value: "kernels", text: "Kernels", title: "What runs by itself: not what is inside of fusions" },
  { value: "all", text: "All", title: "Every instruction, those inside of fusions too" },
];
/** Numbers are looked at from the largest, texts from the first. */
const DESCENDING: ReadonlySet<Column> = new Set(["flops", "bytes_accessed", "executions"]);

class InstructionsPane extends CountedPane<"instruction_table"> {
  readonly element = h("div", { class: "insp-instructions", "data-pane": "instructions" });
  protected readonly reply = "instruction_table";
  protected readonly what = "instructions";
  private readonly which = new Switcher<Which>("Which instructions", WHICH, "kernels", this.drawing.request);
  private readonly rows: InstructionRows;
  private column: Column = "bytes_accessed";
  private isDescending = true;

  constructor(context: Context) {
    super(context, "instructions");
    this.rows = new InstructionRows("Instructions", context.local, "instructions");
    this.tools.append(this.which.element);
  }

  protected wanted(variant: number): Request {
    const { column, isDescending: is_descending } = this;
    return { type: "instructions", variant, column, is_descending, has_fused: this.which.value === "all" };
  }

  protected show(table: messages.InstructionTable): void {
    const order = HEADINGS.find(({ column }) => column === this.column)!.title.toLowerCase();
    const isCut = table.rows.length < table.total;
    fill(this.element, this.rows.element);
    this.rows.show(
      isCut ? `The first ${grouped(table.rows.length)} of ${grouped(table.total)} instructions ${order}.` : "",
      HEADINGS.map((each) => this.heading(each)),
      table.rows.map(rowOf),
    );
  }

  protected mark(): void {
    this.rows.mark();
  }

  private heading({ column, text, title, isNumber }: Heading): HTMLElement {
    const isSorted = column === this.column;
    const onclick = (): void => {
      this.isDescending = isSorted ? !this.isDescending : DESCENDING.has(column);
      this.column = column;
      this.drawing.request();
    };
    const sort = isSorted ? (this.isDescending ? "descending" : "ascending") : "none";
    const arrow = isSorted ? (this.isDescending ? " ↓" : " ↑") : "";
    return h(
      "th",
      { scope: "col", class: isNumber ? "insp-number" : "", "aria-sort": sort },
      h("button", { type: "button", class: "insp-sort", title, onclick }, text + arrow),
    );
  }
}

function rowOf(row: messages.InstructionRow, index: number): InstructionRow {
  const number = (value: number | null, unit: messages.StatsRow["unit"]): HTMLElement =>
    numberCell(value, (known) => format(known, unit), value === null ? row.unknown || "not known" : grouped(value));
  return {
    instruction: row.name,
    cells: () => [
      h("td", { class: "insp-number insp-dim" }, String(index + 1)),
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
