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
const SHOWN: readonly Column<Pass>[] = [
  { name: "index", text: "#", title: "In execution order", isPlace: true, value: ({ index }) => index },
  { name: "name", text: "pass", title: "By name", value: ({ name }) => name },
  { name: "duration_s", text: "time", title: "By time", isNumber: true, value: ({ duration_s }) => duration_s },
];
const COPIED: readonly Column<Pass>[] = [
  SHOWN[0]!,
  { name: "pipeline", text: "", value: ({ pipeline }) => pipeline },
  SHOWN[1]!,
  { name: "changed", text: "", value: ({ changed }) => changed },
  SHOWN[2]!,
  ...(["instructions", "fusions", "written_bytes", "collectives"] as const).map((name): Column<Pass> => ({
    name,
    text: "",
    value: ({ counts }) => counts && counts[name],
  })),
];

export class PassList {
  readonly which: Switcher<Which>;
  readonly copy = copyButton(() => tabbed(COPIED, this.listed()), "compiled.passes.table()");
  private readonly sorting = new Sorting<Pass>(() => this.draw());
  private readonly rows: RowList;
  private passes: messages.PassList | null = null;

  /**
   * @param choose is called with the index of the chosen pass.
   * @param changed is called when the listed passes change.
   */
  constructor(choose: (index: number) => void, changed: () => void) {
    this.which = new Switcher<Which>("Listed passes", WHICH, "changed", changed);
    this.sorting.show(SHOWN, "index");
    this.rows = new RowList(
      "Passes",
      "Filter passes",
      ["40px", null, "74px"],
      (key) => choose(Number(key)),
      this.sorting.head,
    );
  }

  get element(): HTMLElement {
    return this.rows.element;
  }

  get filter(): HTMLElement {
    return this.rows.filter;
  }

  show(passes: messages.PassList): void {
    this.passes = passes;
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
      cells: cells(pass, longest),
    }));
    const changed = passes.rows.filter(({ is_step }) => is_step).length;
    const count = `${plural(changed, "pass", "passes")} of ${passes.rows.length} changed the program`;
    this.rows.show(rows, [count, passes.note].filter(Boolean).join(". "));
  }
}

function cells(pass: Pass, longest: number): HTMLElement[] {
  const seconds = pass.duration_s;
  const share = seconds === null ? 0 : Math.sqrt(seconds / longest);
  return [
    h(
      "td",
      { class: "insp-pass-mark", title: pass.changed ? "Changed the program" : "No changes" },
      pass.changed ? (pass.is_step ? "●" : "○") : "",
    ),
    h("th", { scope: "row", title: `${pass.name} in ${pass.pipeline}` }, pass.name),
    h(
      "td",
      {
        class: "insp-number insp-pass-time",
        title: pass.reason || `${seconds} s`,
        style: `--share:${share.toFixed(3)}`,
      },
      seconds === null ? "–" : formatSeconds(seconds),
    ),
  ];
}
