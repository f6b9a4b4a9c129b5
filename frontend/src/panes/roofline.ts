// The kernels of the active variant under the roofs of its chip: a plot, and a table of their estimated times.

import { type Choice, Switcher, textButton } from "../lib/controls.ts";
import { copyButton } from "../lib/copying.ts";
import { cellOf, columnsOf, textOf } from "../lib/described.ts";
import { fill, h } from "../lib/dom.ts";
import { formatRate, formatSeconds, grouped } from "../lib/format.ts";
import { type Column, Sorting } from "../lib/sorting.ts";
import { listSplitter } from "../lib/splitter.ts";
import { withUnitsInHeads } from "../lib/units.ts";
import type * as messages from "../messages.ts";
import { lightUp } from "../state/local.ts";
import type { Request } from "../state/synced.ts";
import { CountedPane } from "./counted.ts";
import { InstructionRows, numberCell, shareCell, sourceCell } from "./instructionrows.ts";
import type { Context, Pane } from "./pane.ts";
import { drawBars, drawPlot, isProfiled, type Mark } from "./roofpicture.ts";
import { empty } from "./states.ts";
import "../styles/pictured.css";
import "../styles/roofline.css";

type By = messages.RooflineRequest["by"];
type Row = messages.RooflineRow;

const BY: Choice<By>[] = [
  { value: "kernel", text: "Kernels", title: "Each kernel: a fusion, matrix product, copy or collective" },
  { value: "scope", text: "Scopes", title: "Kernels summed by JAX's name stack" },
  {
    value: "line",
    text: "Lines",
    title: "Costs summed by the innermost line of your code. Costs of a fusion are split by its instructions",
  },
  { value: "phase", text: "Phases", title: "Kernels summed by phase: forward, backward, recomputed, rest" },
  { value: "opcode", text: "Opcodes", title: "Kernels summed by opcode" },
  { value: "roof", text: "Roofs", title: "Kernels summed by the roof that limits them" },
];

class RooflinePane extends CountedPane<"roofline"> {
  readonly element = h("div", { class: "insp-pictured", "data-pane": "roofline" });
  protected readonly reply = "roofline";
  protected readonly what = "roofline";
  private readonly plot = h("div", { class: "insp-plot" });
  private readonly picture = h("div", { class: "insp-picture" });
  private readonly border = listSplitter("Plot width", this.element, () => this.picture);
  private readonly by = new Switcher<By>("Rows", BY, "kernel", this.drawing.request);
  private readonly rows: InstructionRows;
  private readonly sorting = new Sorting<Row>(() => this.shown && this.drawTable(this.shown));
  /** Whether the user has asked to measure the roofs of this machine. */
  private isMeasured = false;
  private points: readonly Mark[] = [];
  /** The grouping of the rows on screen. Rows of another grouping may have been requested already. */
  private shownBy: By = "kernel";

  constructor(context: Context) {
    super(context, "roofline");
    this.rows = new InstructionRows("Roofline", context.local, "roofline");
    const copied = (): string => (this.shown ? this.sorting.text(this.sorting.sorted(this.shown.rows)) : "");
    this.tools.append(this.by.element, copyButton(copied, "compiled.roofline().table()"));
    this.watch(this.plot);
  }

  protected wanted(variant: number): Request {
    const profile = this.context.local.variant!.profile;
    return { type: "roofline", variant, by: this.by.value, is_measured: this.isMeasured, profile };
  }

  protected show(message: messages.RooflineMessage): void {
    const reply = withUnitsInHeads(message);
    if (!this.rows.element.isConnected) fill(this.element, this.picture, this.border, this.rows.element);
    this.points = [];
    this.shownBy = this.by.value;
    if (reply.peak) {
      fill(this.picture, captionOf(reply), this.plot);
      this.drawPicture(reply);
    } else fill(this.picture, this.noRoofs(reply));
    this.drawTable(reply);
  }

  /** Highlights the rows and points that belong to the selection. */
  protected mark(): void {
    this.rows.mark();
    const levelOf = this.context.local.levelsOfInstructions("optimized");
    for (const { name, mark } of this.points) lightUp(mark, levelOf(name));
  }

  protected override resize(): void {
    if (!this.shown?.peak) return;
    this.drawPicture(this.shown);
    this.mark();
  }

  /** Draws measured kernels under the roofs. Without a profile, all would be exactly on them: then bars of time. */
  private drawPicture(reply: messages.RooflineMessage): void {
    const select = (name: string): void => this.context.local.selectInstruction("roofline", "optimized", name);
    if (isProfiled(reply)) this.points = drawPlot(this.plot, reply, select);
    else this.points = drawBars(this.plot, reply, select);
  }

  private noRoofs(reply: messages.RooflineMessage): HTMLElement {
    const measure = (): void => {
      this.isMeasured = true;
      this.drawing.request();
    };
    const button = textButton(
      "Measure this machine",
      "Times a matrix product and a copy with NumPy, which takes about a second",
      measure,
    );
    return reply.can_measure
      ? empty(
          "No published roofs for this CPU",
          "Measure this machine to get the attainable speed of each kernel.",
          button,
        )
      : empty("No roofs", reply.reason);
  }

  private drawTable(reply: messages.RooflineMessage): void {
    const by = this.shownBy;
    const what = nameOf(by);
    const isMeasured = reply.columns.some(({ name }) => name === "measured_s");
    this.sorting.show(columnsOf(reply.columns, VALUES), isMeasured ? "measured_s" : "least_s");
    const rows = this.sorting.sorted(reply.rows);
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

/** Returns the name of the rows in the plural, such as "kernels". */
function nameOf(by: By): string {
  return BY.find(({ value }) => value === by)!.text.toLowerCase();
}

/** Values of cells with names that Python's description lacks: a notebook cell is `In [3]`. */
const VALUES: Record<string, Column<Row>["value"]> = {
  source: ({ source }) => source && `${source.file}:${source.line}`,
};
/** Columns whose 0 means that there is nothing: no traffic on the links, no matrix product. */
const ABSENT_IF_ZERO = ["link_bytes", "exposed_s", "filled"];

/** Returns a cell of the table. An unknown number has its reason as tooltip. */
function cell(head: messages.TableHead, row: Row, content: messages.TableCell, by: By): HTMLElement {
  const { value, note } = content;
  const text = textOf(content);
  if (head.name === "name") {
    const shown = by === "line" ? text.slice(text.lastIndexOf("/") + 1) : text;
    return h("th", { scope: "row", title: text }, shown || h("span", { class: "insp-dim" }, "unknown"));
  }
  if (head.name === "opcode") return h("td", {}, h("span", { class: "insp-tok-op" }, text));
  if (head.name === "share") return shareCell(row.share);
  if (head.name === "bound_by")
    return h("td", {}, h("span", { class: `insp-roof-key insp-roof-${row.bound_by || "unknown"}` }), text);
  if (head.name === "source") return sourceCell(row.source);
  if (head.name === "slowest") return h("td", {}, h("code", {}, text));
  if (!head.is_number) return cellOf(head, content);
  const number = value as number | null;
  const isAbsent = !number && ABSENT_IF_ZERO.includes(head.name);
  const beside = row.beside.length ? `Overlaps with ${row.beside.join(", ")}` : "No overlapping kernel";
  const title = note || (head.name === "exposed_s" && !isAbsent ? beside : number === null ? "unknown" : "");
  return numberCell(isAbsent ? null : number, () => text, title);
}

function captionOf({ peak, total, columns }: messages.RooflineMessage): HTMLElement {
  const flat =
    peak!.flops_per_s === null ? peak!.reason : `${formatRate(peak!.flops_per_s, "flop/s")} in ${peak!.name}`;
  const least =
    total?.least_s == null
      ? "Estimated time unknown"
      : `Estimated time: ${formatSeconds(total.least_s)}${total.bound_by ? `, bound by ${total.bound_by}` : ""}`;
  const links =
    total?.link_bytes && total.exposed_s !== null ? `; ${formatSeconds(total.exposed_s)} of exposed link time` : "";
  return h(
    "div",
    { class: "insp-roofline-caption" },
    h("div", {}, h("b", {}, least + links), total?.unknown && h("span", { class: "insp-dim" }, ` (${total.unknown})`)),
    typeof total?.filled === "number" &&
      h(
        "div",
        { title: columns.find(({ name }) => name === "filled")?.tooltip ?? "" },
        `Matrix products use at most ${(100 * total.filled).toFixed(0)} % of the matrix unit; the rest is padding. ` +
          "See column unit, also by line. The use in a real run is unknown: no clock rate is published.",
      ),
    h(
      "div",
      { class: "insp-dim", title: `${peak!.source}` },
      `${peak!.chip}: ${flat}, ${formatRate(peak!.memory_bytes_per_s, "B/s")}; ${peak!.source}`,
    ),
  );
}

export const pane = (context: Context): Pane => new RooflinePane(context);
