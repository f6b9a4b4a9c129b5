// Memory, cost and compile time of all variants, with differences from the first variant for the same target.

import { fill, h } from "../lib/dom.ts";
import { format, formatDelta, formatPercent, grouped, plural } from "../lib/format.ts";
import { groupsOf, isPartial, type StatsCell, type StatsLine, tabulate } from "../lib/stats.ts";
import type * as messages from "../messages.ts";
import type { Timed } from "../state/synced.ts";
import { nameOf, nameOfReference, stateMark, tooltipOf } from "./labels.ts";
import { type Context, Drawing, follow, type Pane } from "./pane.ts";
import { awaited, clock, empty, failure } from "./states.ts";

const TITLES: Readonly<Record<string, string>> = { memory: "Memory", time: "Time", work: "Work", counts: "Counts" };

class StatsPane implements Pane {
  readonly element = h("div", { class: "insp-stats insp-scroll", tabindex: 0, "aria-label": "Stats" });
  readonly tools = h("div", { class: "insp-tools" });
  private readonly drawing = new Drawing(() => this.draw());
  private readonly ends: (() => void)[];
  private scrolledTo: number | null = null;

  constructor(private readonly context: Context) {
    this.ends = [follow(context, "stats", this.drawing), context.local.signal.on(["active"], this.drawing.request)];
  }

  setVisible(visible: boolean): void {
    this.drawing.setVisible(visible);
  }

  destroy(): void {
    this.ends.forEach((end) => end());
  }

  private draw(): void {
    const { synced } = this.context;
    const variants = [...synced.variants.values()];
    const { places, names } = referencesOf(this.context, variants);
    const lines = tabulate(
      variants.map((v) => synced.latest("stats", { variant: v.variant })),
      places,
    );
    if (!lines.length) return fill(this.element, this.absence(variants[0] ?? null));
    const head = h("tr", {}, h("th", { scope: "col" }, ""), ...variants.map((v, i) => this.heading(v, i)));
    const groups = groupsOf(lines).map(([group, members]) => {
      const heading =
        group && h("tr", {}, h("th", { class: "insp-stats-group", scope: "rowgroup" }, TITLES[group] ?? group));
      return h("tbody", {}, heading || null, ...members.map((line) => this.row(line, variants, names)));
    });
    if (variants.length > 1) fill(this.element, h("table", { class: "insp-table" }, h("thead", {}, head), ...groups));
    else
      fill(
        this.element,
        h("div", { class: "insp-stats-one" }, ...groups.map((group) => h("table", { class: "insp-table" }, group))),
      );
    this.element.classList.toggle("insp-stats-compared", variants.length > 1);
    this.showActive(head);
  }

  /** Scrolls to the active variant after it changed, if the table is wider than the pane. */
  private showActive(head: HTMLElement): void {
    const { active } = this.context.local;
    if (active === this.scrolledTo) return;
    this.scrolledTo = active;
    const cell = head.querySelector<HTMLElement>(".insp-column-active");
    if (!cell) return;
    const { scrollLeft, clientWidth } = this.element;
    const labels = (head.firstElementChild as HTMLElement).offsetWidth; // sticky at the left edge
    const right = cell.offsetLeft + cell.offsetWidth;
    if (right > scrollLeft + clientWidth) this.element.scrollLeft = right - clientWidth;
    if (cell.offsetLeft < this.element.scrollLeft + labels) this.element.scrollLeft = cell.offsetLeft - labels;
  }

  private absence(baseline: Timed<messages.VariantMessage> | null): HTMLElement {
    if (!baseline) return empty("No stats yet", "Available once a variant is compiled.");
    if (baseline.state === "failed") return failure(baseline.error, "No stats: this variant failed");
    if (baseline.state === "cancelled") return empty("No stats", "This variant was canceled.");
    const title = baseline.state === "done" ? "Receiving stats" : "Compiling";
    return awaited(this.context.synced, title, "Stats not received", baseline);
  }

  private heading(variant: Timed<messages.VariantMessage>, index: number): HTMLElement {
    const isActive = variant.variant === this.context.local.active;
    return h(
      "th",
      { scope: "col", class: isActive ? "insp-column-active" : "", title: tooltipOf(variant, index === 0) },
      variant.state !== "done" && stateMark(variant.state),
      ...nameOf(variant),
      variant.state === "running" && clock(variant),
      index === 0 && variant.label !== "baseline" && h("span", { class: "insp-dim" }, " baseline"),
    );
  }

  /** @param names the names of the reference variants; null for a variant without one. */
  private row(line: StatsLine, variants: Timed<messages.VariantMessage>[], names: (string | null)[]): HTMLElement {
    const cells = line.cells.map((cell, i) => {
      const isActive = variants[i]!.variant === this.context.local.active;
      return h("td", { class: isActive ? "insp-column-active" : "" }, content(cell, line, names[i]!));
    });
    return h("tr", {}, h("th", { scope: "row" }, line.label), ...cells);
  }
}

/** Returns for each variant the index of the one that it is compared with (-1 for none), and its name. */
export function referencesOf(
  { synced, local }: Context,
  variants: readonly messages.VariantMessage[],
): { places: number[]; names: (string | null)[] } {
  const references = variants.map(({ variant }) => local.sameTargetReferenceOf(variant));
  return {
    places: references.map((reference) => variants.findIndex(({ variant }) => variant === reference)),
    names: references.map((reference) => (reference === null ? null : nameOfReference(synced, reference))),
  };
}

export function content(
  { row, delta, share, verdict }: StatsCell,
  line: StatsLine,
  against: string | null,
): HTMLElement {
  if (!row) return h("div", { class: "insp-stat insp-dim" }, "·");
  if (row.value === null) {
    const reason = row.reason ?? "not reported";
    return h(
      "div",
      { class: "insp-stat-none", title: reason },
      h("span", { class: "insp-unavailable" }, "unavailable"),
      " ",
      h("span", { class: "insp-reason" }, reason),
    );
  }
  const change =
    delta === null
      ? ""
      : delta === 0
        ? "="
        : `${formatDelta(delta, line.unit)} (${formatPercent(row.value, row.value - delta)})`;
  return h(
    "div",
    { class: "insp-stat" },
    h("span", { class: "insp-bar", style: `--share:${share.toFixed(3)}`, "aria-hidden": "true" }),
    h(
      "span",
      { class: "insp-value", title: exact(row.value, line.unit) },
      isPartial(row) && h("span", { class: "insp-dim" }, `${row.word} `),
      format(row.value, line.unit),
    ),
    " ",
    isPartial(row) && h("span", { class: "insp-reason", title: row.reason }, row.reason ?? ""),
    " ",
    against !== null && h("span", { class: `insp-delta insp-${verdict}`, title: `Compared with ${against}` }, change),
  );
}

function exact(value: number, unit: messages.StatsRow["unit"]): string {
  if (unit === "bytes" && Number.isInteger(value)) return plural(value, "byte");
  const words = { bytes: " bytes", count: "", seconds: " s" };
  return (Number.isInteger(value) ? grouped(value) : String(value)) + words[unit];
}

export const pane = (context: Context): Pane => new StatsPane(context);
