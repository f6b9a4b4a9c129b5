// What differs between a variant and its baseline, by kind, with both sides and what they cost; a click shows where.

import { costOf, costWords, headingWords, type Item, itemsOf, namesOf } from "../lib/changes.ts";
import { h } from "../lib/dom.ts";
import { grouped } from "../lib/format.ts";
import { VirtualList } from "../lib/virtuallist.ts";
import type * as messages from "../messages.ts";
import { unfinished } from "./states.ts";
import type { Context } from "./pane.ts";

const ROW_PX = 22;
/** What most readers leave for later. */
const FOLDED = ["configured"];

let count = 0;

export class ChangeList {
  readonly element: HTMLElement;
  private readonly list: VirtualList;
  private readonly filter: HTMLInputElement;
  private readonly note = h("span", { class: "insp-dim" });
  private readonly id = `insp-changes-${count++}`;
  private readonly folded = new Set(FOLDED);
  private items: readonly Item[] = [];
  private chosen = -1;
  private diff: messages.Diff | null = null;
  private asked: { readonly diff: messages.Diff; readonly id: number } | null = null;

  /** @param reveal shows a change in the text. */
  constructor(
    private readonly context: Context,
    private readonly reveal: (change: messages.Change) => void,
  ) {
    this.list = new VirtualList("Changes by kind", "tree", ROW_PX, (index) => this.row(index));
    this.list.element.addEventListener("click", (e) => this.onClick(e));
    this.list.element.addEventListener("keydown", (e) => this.onKey(e));
    this.filter = h("input", {
      type: "search",
      class: "insp-filter",
      placeholder: "Filter changes",
      "aria-label": "Filter changes",
      oninput: () => this.draw(),
    });
    const head = h("div", { class: "insp-changes-head" }, this.filter, this.note);
    this.element = h("div", { class: "insp-changes" }, head, this.list.element);
  }

  show(diff: messages.Diff): void {
    if (this.diff !== diff) this.chosen = -1;
    this.diff = diff;
    this.element.hidden = !diff.changes.length;
    this.askForCosts();
    this.draw();
  }

  destroy(): void {
    this.list.destroy();
  }

  private draw(): void {
    const { diff } = this;
    if (!diff) return;
    this.items = itemsOf(diff.changes, this.folded, this.filter.value);
    const isCut = diff.changes.length < diff.count;
    const first = `the first ${grouped(diff.changes.length)} of ${grouped(diff.count)}; all: Compiled.diff(...).table()`;
    this.note.textContent = isCut ? first : "";
    this.list.show(this.items.length);
  }

  private get costs(): messages.DiffCosts | null {
    const reply = this.asked && this.context.synced.reply("diff_costs", this.asked.id);
    return reply && !reply.error ? reply : null;
  }

  /** What XLA has to count, once for each comparison, when both programs are compiled. */
  private askForCosts(): void {
    const { diff } = this;
    const { synced } = this.context;
    if (!diff || this.asked?.diff === diff || !diff.changes.length) return;
    const sides = [diff.baseline, diff.variant].map((number) => synced.variants.get(number) ?? null);
    if (sides.some((variant) => unfinished(variant, "costs") !== null)) return;
    const id = synced.ask({ type: "diff_costs", baseline: diff.baseline, variant: diff.variant });
    this.asked = { diff, id };
  }

  private row(index: number): HTMLElement {
    const item = this.items[index]!;
    const place = { "data-index": index, id: `${this.id}-${index}` };
    if ("heading" in item) {
      const sign = item.isFolded ? "▸" : "▾";
      return h(
        "div",
        {
          ...place,
          class: "insp-virtual-row insp-changes-kind",
          role: "treeitem",
          "aria-level": 1,
          "aria-expanded": String(!item.isFolded),
        },
        h("span", { "aria-hidden": "true" }, sign),
        h("span", {}, headingWords(item.heading, item.count)),
      );
    }
    const { change } = item;
    const { costs } = this;
    const cost = costs?.costs[item.index];
    const names = namesOf(change);
    const title = [`${change.opcode}: ${names}`, change.what, costWords(cost, costs?.unknown[item.index])];
    const isChosen = item.index === this.chosen;
    return h(
      "div",
      {
        ...place,
        class: `insp-virtual-row insp-changes-row${isChosen ? " insp-chosen" : ""}`,
        role: "treeitem",
        "aria-level": 2,
        "aria-selected": String(isChosen),
        title: title.filter(Boolean).join("\n"),
      },
      h("span", { class: "insp-tok-op" }, change.opcode),
      h("code", { class: `insp-changes-names insp-changes-${change.kind}` }, names),
      h("span", { class: "insp-changes-what" }, change.what),
      h("span", { class: "insp-changes-cost" }, costOf(cost)),
    );
  }

  private onClick(e: Event): void {
    const row = (e.target as Element).closest<HTMLElement>("[data-index]");
    if (row) this.choose(Number(row.dataset["index"]));
  }

  /** Opens or folds a kind, or shows a change. */
  private choose(index: number): void {
    const item = this.items[index];
    if (!item) return;
    if ("heading" in item) {
      if (!this.folded.delete(item.heading)) this.folded.add(item.heading);
      return this.draw();
    }
    this.chosen = item.index;
    this.list.element.setAttribute("aria-activedescendant", `${this.id}-${index}`);
    this.list.reveal(index);
    this.reveal(item.change);
  }

  private onKey(e: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (step === undefined) return;
    e.preventDefault();
    const now = this.items.findIndex((item) => "change" in item && item.index === this.chosen);
    for (let next = now + step; next >= 0 && next < this.items.length; next += step) {
      if ("change" in this.items[next]!) return this.choose(next);
    }
  }
}
