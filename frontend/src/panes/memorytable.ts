// The memory of all variants: a row for each kind, and a column for each variant. Its head is the legend of the chart.

import { fill, h } from "../lib/dom.ts";
import { alwaysIn, kindsOf, liveAt } from "../lib/memory.ts";
import { tabulate } from "../lib/stats.ts";
import type * as messages from "../messages.ts";
import type { Message, Timed } from "../state/synced.ts";
import { type HeapChart, type HeapCurve, swatch } from "./heapchart.ts";
import { stateMark, tooltipOf } from "./labels.ts";
import type { Context } from "./pane.ts";
import { recordButton } from "./recording.ts";
import { content, referencesOf } from "./stats.ts";

/** A variant in the Memory pane. */
export interface MemoryColumn {
  readonly variant: Timed<messages.VariantMessage>;
  /** Its label, with the target if targets differ. */
  readonly label: string;
  readonly message: Message<"memory"> | null;
  /** Its use of the shown memory, or the reason why it is unknown. */
  readonly curve: HeapCurve | null;
  readonly reason: string;
  readonly canRecord: boolean;
}

export class MemoryTable {
  readonly element = h("div", {
    class: "insp-stats insp-stats-compared insp-memory-table insp-scroll",
    tabindex: 0,
    "aria-label": "Memory of all variants",
  });
  private columns: readonly MemoryColumn[] = [];
  private room = "";
  /** The contents on screen. A table that stays the same keeps its elements, so that clicks and the focus are not lost. */
  private shown = "";

  constructor(
    private readonly context: Context,
    private readonly chart: HeapChart,
  ) {}

  /** @param room is the name of the memory in the chart. */
  show(columns: readonly MemoryColumn[], room: string): void {
    [this.columns, this.room] = [columns, room];
    this.draw();
  }

  /** Shows the numbers at the selected position. */
  draw(): void {
    const { synced } = this.context;
    const variants = this.columns.map(({ variant }) => variant);
    const { places, names } = referencesOf(this.context, variants);
    const kinds = kindsOf(
      this.columns.map(({ variant, message, reason }) => ({
        stats: synced.latest("stats", { variant: variant.variant }),
        room: message?.rooms.find(({ is_main: isMain }) => isMain) ?? null,
        reason: variant.state === "failed" ? "this variant failed" : reason,
      })),
    );
    const lines = tabulate(
      kinds.map((stats, i) => ({ ...stats, rows: [this.inUse(this.columns[i]!), ...stats.rows] })),
      places,
    );
    const heads = this.columns.map(({ variant, label, canRecord }) => [tooltipOf(variant, false), label, canRecord]);
    const shown = JSON.stringify([heads, lines, names, this.context.local.active]);
    if (shown === this.shown) return;
    this.shown = shown;
    const active = (i: number): string =>
      variants[i]!.variant === this.context.local.active ? "insp-column-active" : "";
    const head = h(
      "tr",
      {},
      h("th", { scope: "col" }),
      ...this.columns.map((column, i) => this.heading(column, active(i))),
    );
    const rows = lines.map((line) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, line.label),
        ...line.cells.map((cell, i) => h("td", { class: active(i) }, content(cell, line, names[i]!))),
      ),
    );
    fill(this.element, h("table", { class: "insp-table" }, h("thead", {}, head), h("tbody", {}, ...rows)));
  }

  private heading({ variant, label, curve, canRecord }: MemoryColumn, className: string): HTMLElement {
    const choose = (): void => this.context.local.setActive(variant.variant);
    const isBaseline = variant.variant === this.context.synced.baseline;
    return h(
      "th",
      { scope: "col", class: className, title: tooltipOf(variant, isBaseline) },
      h(
        "div",
        { class: "insp-memory-head" },
        curve ? swatch(curve.style) : variant.state !== "done" && stateMark(variant.state),
        h(
          "button",
          { type: "button", class: "insp-sort", "aria-pressed": String(className !== ""), onclick: choose },
          h("span", { class: "insp-label" }, label),
        ),
        canRecord && recordButton(this.context, variant, "buffers", "Record"),
      ),
    );
  }

  /** Returns the bytes at the selected position. */
  private inUse({ curve, reason }: MemoryColumn): messages.StatsRow {
    const { chart } = this;
    return {
      key: "in_use",
      label: `${this.room} in use at ${chart.place}`,
      group: "memory",
      unit: "bytes",
      value: curve && alwaysIn(curve.room) + liveAt(curve.room.curve, chart.at(curve)),
      word: "",
      reason: curve ? null : reason,
      less_is_better: true,
    };
  }
}
