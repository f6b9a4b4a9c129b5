// The list of passes: all of them or those that changed the program, sorted by order or duration.

import { type Choice, Switcher } from "../lib/controls.ts";
import { copyButton } from "../lib/copying.ts";
import { h } from "../lib/dom.ts";
import { formatSeconds, plural } from "../lib/format.ts";
import { type Column, Sorting, tabbed } from "../lib/sorting.ts";
import type * as messages from "../messages.ts";
import { type Row, RowList } from "./rowlist.ts";

type Which = "changed" | "all";
type Pass = messages.PassRow & { readonly index: number };

const WHICH: Choice<Which>[] = [
  { value: "changed", text: "Changed", title: "Passes that changed the program" },
  { value: "all", text: "All", title: "Every pass that ran" },
];
/** Widths of the columns that Python describes: the mark of changes, the name and the time. */
const WIDTHS = ["40px", null, "74px"];

export class PassList {
  readonly which: Switcher<Which>;
  readonly copy = copyButton(() => this.text(), "compiled.passes.table()");
  private readonly sorting = new Sorting<Pass>(() => this.draw());
  private readonly rows: RowList;
  private passes: messages.PassList | null = null;

  /**
   * @param choose is called with the index of the chosen pass.
   * @param changed is called when the listed passes change.
   */
  constructor(choose: (index: number) => void, changed: () => void) {
    this.which = new Switcher<Which>("Listed passes", WHICH, "changed", changed);
    this.rows = new RowList("Passes", "Filter passes", WIDTHS, (key) => choose(Number(key)), this.sorting.head);
  }

  get element(): HTMLElement {
    return this.rows.element;
  }

  get filter(): HTMLElement {
    return this.rows.filter;
  }

  show(passes: messages.PassList): void {
    this.passes = passes;
    this.sorting.show(columnsOf(passes.columns), "index");
    this.draw();
  }

  select(index: number): void {
    this.rows.select(String(index));
  }

  /** Returns the indices of the passes to step through, in execution order. */
  indices(passes: messages.PassList): number[] {
    const all = [...passes.rows.keys()];
    const steps = all.filter((i) => this.which.value === "all" || passes.rows[i]!.is_step);
    return steps.length ? steps : all;
  }

  /** Returns the listed passes with the columns of Python's data frame. */
  private text(): string {
    const columns = (this.passes?.copied ?? []).map((name) => ({ name, text: "", value: valueOf(name) }));
    return tabbed(columns, this.listed());
  }

  private listed(): readonly Pass[] {
    const { passes } = this;
    if (!passes) return [];
    return this.sorting.sorted(this.indices(passes).map((index) => ({ ...passes.rows[index]!, index })));
  }

  private draw(): void {
    const { passes } = this;
    if (!passes) return;
    const longest = Math.max(1e-9, ...passes.rows.map(({ duration_s }) => duration_s ?? 0));
    const isGrouped = this.sorting.by === "index" && !this.sorting.isDescending;
    const rows = this.listed().map((pass): Row => ({
      key: String(pass.index),
      group: isGrouped ? pass.pipeline : "",
      text: `${pass.name} ${pass.pipeline}`,
      className: pass.changed ? "" : "insp-unchanged",
      cells: passes.columns.map(({ name }) => CELLS[name]!(pass, longest)),
    }));
    const changed = passes.rows.filter(({ is_step }) => is_step).length;
    const count = `${plural(changed, "pass", "passes")} of ${passes.rows.length} changed the program`;
    this.rows.show(rows, [count, passes.note].filter(Boolean).join(". "));
  }
}

function columnsOf(heads: readonly messages.TableHead[]): Column<Pass>[] {
  return heads.map(({ name, title, tooltip, is_number }) => {
    const isPlace = name === "index";
    return { name, text: title, title: tooltip, isPlace, isNumber: is_number && !isPlace, value: valueOf(name) };
  });
}

/** Returns the value of a column: a field of the pass or one of its counts. */
function valueOf(name: string): Column<Pass>["value"] {
  return (pass) => {
    const values: Partial<Record<string, unknown>> = { ...pass.counts, ...pass };
    return (values[name] ?? null) as string | number | boolean | null;
  };
}

const CELLS: Record<string, (pass: Pass, longest: number) => HTMLElement> = {
  index: ({ changed, is_step }) =>
    h(
      "td",
      { class: "insp-pass-mark", title: changed ? "Changed the program" : "No changes" },
      changed ? (is_step ? "●" : "○") : "",
    ),
  name: ({ name, pipeline }) => h("th", { scope: "row", title: `${name} in ${pipeline}` }, name),
  duration_s: ({ duration_s: seconds, reason }, longest) => {
    const share = seconds === null ? 0 : Math.sqrt(seconds / longest);
    const attributes = {
      class: "insp-number insp-pass-time",
      title: reason || `${seconds} s`,
      style: `--share:${share.toFixed(3)}`,
    };
    return h("td", attributes, seconds === null ? "–" : formatSeconds(seconds));
  },
};
