// The instructions of the active variant with what each costs, sorted by a click on a column.

import { type Choice, segments } from "../lib/controls.ts";
import { fill, h, update } from "../lib/dom.ts";
import { baseName, format, grouped } from "../lib/format.ts";
import type * as messages from "../messages.ts";
import { CHOSEN, LEVEL_CLASSES } from "../state/local.ts";
import type { Message } from "../state/synced.ts";
import { type Context, Drawing, follow, type Pane } from "./pane.ts";
import { awaited, empty, failure, loading } from "./states.ts";
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

class InstructionsPane implements Pane {
  readonly element = h("div", { class: "insp-instructions insp-scroll", tabindex: 0, "aria-label": "Instructions" });
  readonly tools = h("div", { class: "insp-tools" });
  private readonly drawing = new Drawing(() => this.draw());
  private readonly switcher = h("div", { class: "insp-segments", role: "group", "aria-label": "Which instructions" });
  private readonly ends: (() => void)[];
  private column: Column = "bytes_accessed";
  private isDescending = true;
  private which: Which = "kernels";
  // Random start: two browsers on one kernel must not take each other's replies.
  private requestId = Math.floor(Math.random() * 2 ** 30);
  private requested = "";
  private shown: Message<"instruction_table"> | null = null;
  private rows: HTMLTableRowElement[] = [];

  constructor(private readonly context: Context) {
    this.tools.append(this.switcher);
    this.ends = [
      follow(context, "instructions", this.drawing),
      context.local.signal.on(["active"], this.drawing.request),
      context.local.signal.on(["selection"], () => () => {
        if (this.drawing.isVisible) this.mark();
      }),
    ];
  }

  setVisible(visible: boolean): void {
    this.drawing.setVisible(visible);
    if (visible) this.mark();
  }

  destroy(): void {
    this.ends.forEach((end) => end());
  }

  private draw(): void {
    const { synced, local } = this.context;
    const variant = synced.variants.get(local.active ?? -1);
    this.tools.hidden = variant?.state !== "done";
    fill(this.switcher, ...segments(WHICH, this.which, (which) => this.ask(() => (this.which = which))));
    if (!variant) return this.say(empty("No instructions yet", "They come with the first compiled variant."));
    if (variant.state === "failed") return this.say(failure(variant.error, "No instructions: this variant failed"));
    if (variant.state === "cancelled") return this.say(empty("No instructions", "This variant was cancelled."));
    if (variant.state !== "done") return this.say(loading("Compiling", variant));
    this.request(variant.variant);
    const table = synced.reply("instruction_table", this.requestId);
    if (!table) {
      const isSorting = this.shown?.variant === variant.variant && synced.notebookKernel !== "gone";
      this.element.classList.toggle("insp-busy", isSorting);
      if (!isSorting) this.say(awaited(synced, "Counting flops and bytes", "The instructions were not received"));
      return;
    }
    if (table === this.shown) return;
    this.element.classList.remove("insp-busy");
    if (table.error) return this.say(failure(table.error, "The instructions cannot be counted"));
    this.drawTable(table);
  }

  /** Asks for the rows that are wanted now, unless they were asked for. */
  private request(variant: number): void {
    const wanted = [variant, this.column, this.isDescending, this.which].join("/");
    if (wanted === this.requested) return;
    this.requested = wanted;
    this.context.synced.send({
      type: "instructions",
      id: ++this.requestId,
      variant,
      column: this.column,
      is_descending: this.isDescending,
      has_fused: this.which === "all",
    });
  }

  private ask(change: () => void): void {
    change();
    this.drawing.request();
  }

  private say(state: HTMLElement): void {
    this.shown = null;
    this.rows = [];
    fill(this.element, state);
  }

  private drawTable(table: Message<"instruction_table">): void {
    this.shown = table;
    this.rows = table.rows.map((row, i) => this.row(row, i));
    const head = h("tr", {}, ...HEADINGS.map((heading) => this.heading(heading)));
    const order = HEADINGS.find(({ column }) => column === this.column)!.title.toLowerCase();
    const isCut = table.rows.length < table.total;
    const note = `The first ${grouped(table.rows.length)} of ${grouped(table.total)} instructions ${order}.`;
    fill(
      this.element,
      isCut && h("div", { class: "insp-note" }, note),
      h("table", { class: "insp-table insp-rows" }, h("thead", {}, head), h("tbody", {}, ...this.rows)),
    );
    this.mark();
  }

  private heading({ column, text, title, isNumber }: Heading): HTMLElement {
    const isSorted = column === this.column;
    const onclick = (): void =>
      this.ask(() => {
        this.isDescending = isSorted ? !this.isDescending : DESCENDING.has(column);
        this.column = column;
      });
    const sort = isSorted ? (this.isDescending ? "descending" : "ascending") : "none";
    const arrow = isSorted ? (this.isDescending ? " ↓" : " ↑") : "";
    return h(
      "th",
      { scope: "col", class: isNumber ? "insp-number" : "", "aria-sort": sort },
      h("button", { type: "button", class: "insp-sort", title, onclick }, text + arrow),
    );
  }

  private row(row: messages.InstructionRow, index: number): HTMLTableRowElement {
    const number = (value: number | null, unit: messages.StatsRow["unit"]): HTMLElement => {
      const title = value === null ? row.unknown || "not known" : grouped(value);
      const text = value === null ? "–" : format(value, unit);
      return h("td", { class: value ? "insp-number" : "insp-number insp-dim", title }, text);
    };
    const source = row.source && `${baseName(row.source.file)}${row.source.line === null ? "" : `:${row.source.line}`}`;
    const onkeydown = ((e: KeyboardEvent) => this.key(e, index)) as EventListener;
    return h(
      "tr",
      { tabindex: index === 0 ? 0 : -1, "aria-selected": "false", onclick: () => this.choose(index), onkeydown },
      h("td", { class: "insp-number insp-dim" }, String(index + 1)),
      h("th", { scope: "row", title: `${row.name} in ${row.computation}` }, row.name),
      h("td", {}, h("span", { class: "insp-tok-op" }, row.opcode)),
      h("td", { class: "insp-instruction-shape", title: row.shape }, h("code", {}, row.shape)),
      number(row.flops, "count"),
      number(row.bytes_accessed, "bytes"),
      number(row.executions, "count"),
      h("td", { title: row.source?.file ?? "" }, source ?? h("span", { class: "insp-dim" }, "unknown")),
    );
  }

  private key(e: KeyboardEvent, index: number): void {
    const step = { ArrowDown: 1, ArrowUp: -1, Enter: 0, " ": 0 }[e.key];
    if (step === undefined) return;
    e.preventDefault();
    const next = Math.max(0, Math.min(this.rows.length - 1, index + step));
    this.rows[next]!.focus({ preventScroll: false });
    this.choose(next);
  }

  /** Selects the instruction, so that its line in every text is lit and shown. */
  private choose(index: number): void {
    this.context.local.selectInstruction("instructions", "optimized", this.shown!.rows[index]!.name);
  }

  /** Lights the rows that belong to the selection. */
  private mark(): void {
    const { local } = this.context;
    this.shown?.rows.forEach(({ name }, i) => {
      const level = local.levelOfInstruction("optimized", name);
      update(this.rows[i]!, { class: LEVEL_CLASSES[level]!, "aria-selected": String(level === CHOSEN) });
    });
  }
}

export const pane = (context: Context): Pane => new InstructionsPane(context);
