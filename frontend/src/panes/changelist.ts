// A list of the differences between a variant and its baseline, grouped by kind, with both sides and their costs.
// Clicking a change shows its place in the text.

import {
  costOf,
  costWords,
  headingWords,
  type ChangeItem,
  type HeadingItem,
  type Item,
  itemsOf,
  namesOf,
} from "../lib/changes.ts";
import { h } from "../lib/dom.ts";
import { grouped } from "../lib/format.ts";
import { type TreeRow, type TreeSource, VirtualTree } from "../lib/virtualtree.ts";
import type * as messages from "../messages.ts";
import { unfinished } from "./states.ts";
import type { Context } from "./pane.ts";

const ROW_PX = 22;
/** Kinds that are folded at first, as most readers skip them. */
const FOLDED = ["configured"];

export class ChangeList implements TreeSource {
  readonly element: HTMLElement;
  private readonly tree = new VirtualTree("Changes by kind", ROW_PX, this);
  private readonly filter: HTMLInputElement;
  private readonly note = h("span", { class: "insp-dim" });
  private readonly folded = new Set(FOLDED);
  private items: readonly Item[] = [];
  private chosen = -1;
  private diff: messages.DiffMessage | null = null;
  private asked: { readonly diff: messages.DiffMessage; readonly id: number } | null = null;

  /** @param reveal is called to show a change in the text. */
  constructor(
    private readonly context: Context,
    private readonly reveal: (change: messages.ChangeMessage) => void,
  ) {
    this.filter = h("input", {
      type: "search",
      class: "insp-filter",
      placeholder: "Filter changes",
      "aria-label": "Filter changes",
      oninput: () => this.draw(),
    });
    const head = h("div", { class: "insp-changes-head" }, this.filter, this.note);
    this.element = h("div", { class: "insp-changes" }, head, this.tree.element);
  }

  show(diff: messages.DiffMessage): void {
    if (this.diff !== diff) this.chosen = -1;
    this.diff = diff;
    this.element.hidden = !diff.changes.length;
    this.askForCosts();
    this.draw();
  }

  destroy(): void {
    this.tree.destroy();
  }

  private draw(): void {
    const { diff } = this;
    if (!diff) return;
    this.items = itemsOf(diff.changes, this.folded, this.filter.value);
    const isCut = diff.changes.length < diff.count;
    const first = `First ${grouped(diff.changes.length)} of ${grouped(diff.count)}. All: Compiled.diff(...).table()`;
    this.note.textContent = isCut ? first : "";
    this.tree.show();
  }

  private get costs(): messages.DiffCosts | null {
    const reply = this.asked && this.context.synced.reply("diff_costs", this.asked.id);
    return reply && !reply.error ? reply : null;
  }

  /** Requests the costs once per comparison, when both programs are compiled: XLA has to compute them. */
  private askForCosts(): void {
    const { diff } = this;
    const { synced } = this.context;
    if (!diff || this.asked?.diff === diff || !diff.changes.length) return;
    const sides = [diff.baseline, diff.variant].map((number) => synced.variants.get(number) ?? null);
    if (sides.some((variant) => unfinished(variant, "costs") !== null)) return;
    const id = synced.ask({ type: "diff_costs", baseline: diff.baseline, variant: diff.variant });
    this.asked = { diff, id };
  }

  get length(): number {
    return this.items.length;
  }

  row(index: number): TreeRow {
    const item = this.items[index]!;
    return "heading" in item ? headingRow(item) : this.changeRow(item);
  }

  parentOf(index: number): number {
    for (let at = index - 1; at >= 0; at--) if ("heading" in this.items[at]!) return at;
    return -1;
  }

  toggle(index: number): void {
    const item = this.items[index]!;
    if (!("heading" in item)) return;
    if (!this.folded.delete(item.heading)) this.folded.add(item.heading);
    this.draw();
  }

  /** Expands or folds a kind, or shows a change. */
  choose(index: number): void {
    const item = this.items[index]!;
    if ("heading" in item) return this.toggle(index);
    this.chosen = item.index;
    this.tree.show();
    this.reveal(item.change);
  }

  private changeRow({ change, index }: ChangeItem): TreeRow {
    const { costs } = this;
    const cost = costs?.costs[index];
    const names = namesOf(change);
    const title = [`${change.opcode}: ${names}`, change.what, costWords(cost, costs?.unknown[index])];
    const isChosen = index === this.chosen;
    return {
      level: 2,
      isOpen: null,
      isChosen,
      title: title.filter(Boolean).join("\n"),
      className: `insp-changes-row${isChosen ? " insp-chosen" : ""}`,
      content: [
        h("span", { class: "insp-tok-op" }, change.opcode),
        h("code", { class: `insp-changes-names insp-changes-${change.kind}` }, names),
        h("span", { class: "insp-changes-what" }, change.what),
        h("span", { class: "insp-changes-cost" }, costOf(cost)),
      ],
    };
  }
}

function headingRow({ heading, count, isFolded }: HeadingItem): TreeRow {
  return {
    level: 1,
    isOpen: !isFolded,
    isChosen: false,
    title: "",
    className: "insp-changes-kind",
    content: [h("span", {}, headingWords(heading, count))],
  };
}
