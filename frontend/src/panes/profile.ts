// The measured time of each kernel of the active variant, after a run.

import { type Choice, Switcher } from "../lib/controls.ts";
import { copyButton } from "../lib/copying.ts";
import { cellOf, columnsOf, textOf } from "../lib/described.ts";
import { fill, h } from "../lib/dom.ts";
import { grouped } from "../lib/format.ts";
import { type Column, Sorting } from "../lib/sorting.ts";
import { withUnitsInHeads } from "../lib/units.ts";
import type * as messages from "../messages.ts";
import { goesOn, type Request, type Timed } from "../state/synced.ts";
import { CountedPane } from "./counted.ts";
import { InstructionRows, shareCell, sourceCell } from "./instructionrows.ts";
import type { Context, Pane } from "./pane.ts";
import { notRunnable, runButton } from "./runbutton.ts";
import { empty, failure, loading } from "./states.ts";
import "../styles/instructions.css";
import "../styles/profile.css";

type By = messages.ProfileRequest["by"];
type Row = messages.ProfileTableRow;

const BY: Choice<By>[] = [
  { value: "instruction", text: "Instructions", title: "Each instruction on each device" },
  { value: "kernel", text: "Kernels", title: "Each kernel, summed over devices" },
  { value: "scope", text: "Scopes", title: "Kernels summed by JAX's name stack" },
  {
    value: "line",
    text: "Lines",
    title: "Times summed by the innermost line of your code. The time of a fusion is split by its instructions",
  },
  { value: "phase", text: "Phases", title: "Kernels summed by phase: forward, backward, recomputed, rest" },
  { value: "opcode", text: "Opcodes", title: "Kernels summed by opcode" },
];

class ProfilePane extends CountedPane<"profile_table"> {
  readonly element = h("div", { class: "insp-instructions insp-profile", "data-pane": "profile" });
  protected readonly reply = "profile_table";
  protected readonly what = "profile";
  protected override readonly doing = "Reading the profile";
  private readonly heading = h("div", { class: "insp-profile-heading" });
  private readonly by = new Switcher<By>("Rows", BY, "instruction", this.drawing.request);
  private readonly rows: InstructionRows;
  private readonly sorting = new Sorting<Row>(() => this.shown && this.drawTable(this.shown));
  /** The grouping of the rows on screen. Rows of another grouping may have been requested already. */
  private shownBy: By = "instruction";

  constructor(context: Context) {
    super(context, "profile");
    this.rows = new InstructionRows("Profile", context.local, "profile");
    const copied = (): string => (this.shown ? this.sorting.text(this.sorting.sorted(this.shown.rows)) : "");
    this.tools.append(this.by.element, copyButton(copied, "compiled.profile().table()"));
  }

  protected override draw(): void {
    super.draw();
    if (this.context.local.variant?.profile === 0) this.tools.hidden = true;
  }

  protected wanted(variant: number): Request {
    return { type: "profile", variant, number: this.context.local.variant!.profile, by: this.by.value };
  }

  /** A variant that was not run has no profile; one that is measured now shows its progress. */
  protected override missing(variant: Timed<messages.VariantMessage>): HTMLElement | null {
    const { synced } = this.context;
    const run = synced.latest("run", { variant: variant.variant });
    if (run && goesOn(run)) return loading("Running", run);
    const profiling = synced.latest("profiling", { variant: variant.variant });
    if (profiling && goesOn(profiling)) return loading("Measuring each kernel", profiling);
    if (variant.profile > 0) return null;
    if (profiling?.state === "failed") return failure(profiling.error, "The kernels could not be measured");
    const reason = notRunnable(this.context, variant);
    if (reason) return empty("No measured times", reason);
    const button = runButton(this.context, variant);
    return empty("Not measured yet", "Run the program to measure the time of each kernel.", button);
  }

  protected show(reply: messages.ProfileTable): void {
    if (!this.rows.element.isConnected) fill(this.element, this.heading, this.rows.element);
    this.shownBy = this.by.value;
    fill(
      this.heading,
      h("div", {}, reply.heading),
      ...reply.notes.map((note) => h("div", { class: "insp-dim" }, note)),
    );
    this.drawTable(reply);
  }

  protected mark(): void {
    this.rows.mark();
  }

  private drawTable(message: messages.ProfileTable): void {
    const reply = withUnitsInHeads(message);
    const by = this.shownBy;
    this.sorting.show(columnsOf(reply.columns, VALUES), "total_s");
    const rows = this.sorting.sorted(reply.rows);
    const what = BY.find(({ value }) => value === by)!.text.toLowerCase();
    const isCut = rows.length < reply.count;
    this.rows.show(
      isCut ? `Slowest ${grouped(rows.length)} of ${grouped(reply.count)} ${what}.` : "",
      this.sorting.head,
      rows.map((row) => ({
        instruction: row.instruction,
        cells: () => reply.columns.map((head, i) => cell(head, row, row.cells[i]!, by)),
      })),
    );
  }
}

/** Values of cells with names that Python's description lacks: a notebook cell is `In [3]`. */
const VALUES: Record<string, Column<Row>["value"]> = {
  source: ({ source }) => source && `${source.file}:${source.line}`,
};

function cell(head: messages.TableHead, row: Row, content: messages.TableCell, by: By): HTMLElement {
  const text = textOf(content);
  if (head.name === "name") {
    const shown = by === "line" ? text.slice(text.lastIndexOf("/") + 1) : text;
    return h("th", { scope: "row", title: text }, shown || h("span", { class: "insp-dim" }, "unknown"));
  }
  if (head.name === "opcode") return h("td", {}, h("span", { class: "insp-tok-op" }, text));
  if (head.name === "share") return shareCell(row.share);
  if (head.name === "source") return sourceCell(row.source);
  if (head.name === "slowest") return h("td", {}, h("code", {}, text));
  return cellOf(head, content);
}

export const pane = (context: Context): Pane => new ProfilePane(context);
