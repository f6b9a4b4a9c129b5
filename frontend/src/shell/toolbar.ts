// The row of variants with their states, and the buttons for comparing them.

import { toolButton } from "../lib/controls.ts";
import { fill, h } from "../lib/dom.ts";
import { icon } from "../lib/icons.ts";
import { openMenu } from "../lib/menu.ts";
import type * as messages from "../messages.ts";
import { textOf } from "../panes/labels.ts";
import type { Context } from "../panes/pane.ts";
import { PREVIOUS } from "../state/synced.ts";
import { Chip } from "./chip.ts";
import { Saving } from "./saving.ts";

/** By the width of the toolbar: more variants than this are in a menu, so that a narrow Explorer has one row of them. */
const MOST_CHIPS = [
  { from_px: 1000, count: 4 },
  { from_px: 640, count: 2 },
  { from_px: 0, count: 1 },
] as const;

export class Toolbar {
  readonly element = h("div", { class: "insp-toolbar" });
  private readonly chips = h("div", { class: "insp-chips", role: "group", "aria-label": "Variants" });
  private readonly drawn = new Map<number, Chip>();
  private readonly more = h("button", {
    type: "button",
    class: "insp-button insp-more",
    title: "All variants",
    "aria-haspopup": "menu",
    onclick: () => this.openVariants(),
  });
  private readonly title = h("span", { class: "insp-title" });
  private readonly compare = h("div", { class: "insp-compare" });
  private readonly anyOther = toolButton("down", "Compare with another variant", () => this.openOthers());
  private mostChips: number = MOST_CHIPS[0].count;
  private readonly resizes = new ResizeObserver(() => this.onWidth());
  private readonly saving: Saving;
  private readonly ends: (() => void)[];

  /** `opener` shows the row of fields for a new variant, which a narrow Explorer hides. */
  constructor(
    private readonly context: Context,
    opener: HTMLElement,
  ) {
    this.saving = new Saving(context);
    this.element.append(this.title, this.chips, this.more, opener, this.compare, this.saving.button);
    const { synced, local } = context;
    this.ends = [
      synced.signal.on(["session", "variant"], () => this.draw()),
      synced.signal.on(["diff", "controls", "notebook_kernel"], () => this.drawCompare()),
      local.signal.on(["active", "optimizedView"], () => this.draw()),
    ];
    this.resizes.observe(this.element);
    this.draw();
  }

  destroy(): void {
    this.resizes.disconnect();
    this.saving.destroy();
    this.ends.forEach((end) => end());
  }

  save(): void {
    this.saving.ask();
  }

  saveWithNote(): void {
    this.saving.askForNote(this.element.closest<HTMLElement>(".insp")!);
  }

  private onWidth(): void {
    const width = this.element.clientWidth;
    const most = width ? MOST_CHIPS.find(({ from_px }) => width > from_px)!.count : this.mostChips;
    if (most !== this.mostChips) {
      this.mostChips = most;
      this.arrange();
    }
    this.showActive();
  }

  private draw(): void {
    const { synced } = this.context;
    this.title.textContent = synced.session?.name ?? "";
    this.title.title = this.title.textContent;
    for (const [number, chip] of this.drawn) {
      if (synced.variants.has(number)) continue;
      chip.element.remove();
      this.drawn.delete(number);
    }
    for (const [number, variant] of synced.variants) {
      const chip = this.drawn.get(number);
      if (chip) chip.draw(variant);
      else this.add(number, new Chip(this.context, variant));
    }
    this.arrange();
    this.showActive();
    this.drawCompare();
  }

  /** Moves only chips in the wrong place, because moving an element removes the keyboard focus from it. */
  private arrange(): void {
    const focused = document.activeElement as HTMLElement | null;
    const hidden = this.hidden();
    for (const [number, chip] of this.drawn) chip.element.hidden = hidden.includes(number);
    this.more.hidden = !hidden.length;
    this.more.textContent = `${hidden.length} more`;
    this.context.synced.ordered.forEach((number, i) => {
      const { element } = this.drawn.get(number)!;
      if (this.chips.children[i] !== element) this.chips.insertBefore(element, this.chips.children[i] ?? null);
    });
    if (focused && focused !== document.activeElement && this.chips.contains(focused)) focused.focus();
  }

  /** The variants without a chip. */
  private hidden(): number[] {
    const { synced, local } = this.context;
    const { ordered } = synced;
    const most = this.mostChips;
    if (ordered.length <= most) return [];
    const isFirst = ordered.slice(0, most).includes(local.active ?? -1);
    const shown = isFirst ? ordered.slice(0, most) : [...ordered.slice(0, most - 1), local.active];
    return ordered.filter((number) => !shown.includes(number));
  }

  private openVariants(): void {
    const { synced, local } = this.context;
    const items = synced.ordered.map((number) => {
      const variant = synced.variants.get(number)!;
      const state = variant.state === "done" ? "" : ` (${variant.state})`;
      const mark = number === local.active ? "✓ " : "";
      return { text: `${mark}${textOf(variant)}${state}`, run: () => local.setActive(number) };
    });
    openMenu(this.element.closest<HTMLElement>(".insp")!, this.more, [{ title: "Variants", items }]);
  }

  private add(number: number, chip: Chip): void {
    this.drawn.set(number, chip);
    this.chips.append(chip.element);
  }

  /** Scrolls to the row of the active variant. */
  private showActive(): void {
    requestAnimationFrame(() => {
      const chip = this.chips.querySelector<HTMLElement>("[aria-pressed=true]")?.parentElement;
      if (chip) this.chips.scrollTop = chip.offsetTop - this.chips.offsetTop;
    });
  }

  /** Draws the buttons that show all variants side by side and compare the active one with its reference. */
  private drawCompare(): void {
    const { synced, local } = this.context;
    const previous = this.previous();
    if (synced.variants.size < 2) return fill(this.compare, previous);
    const reference = local.active === null ? null : local.referenceOf(local.active);
    const canCompare = reference !== local.active;
    const isBaseline = reference === null || reference === synced.baseline || !canCompare;
    const other = synced.variants.get(reference ?? -1);
    const name = isBaseline || !other ? "baseline" : other.label;
    fill(
      this.compare,
      this.toggle(
        "columns",
        "Side by side",
        local.isSideBySide,
        true,
        "Show the optimized HLO of all variants side by side",
      ),
      this.toggle(
        "compare",
        `Compare with ${name}`,
        local.optimizedView === local.lastComparison,
        canCompare,
        canCompare
          ? `Compare the optimized HLO of the active variant with ${isBaseline ? "the baseline" : name}`
          : "Select a variant other than the baseline",
      ),
      this.others().length > (canCompare ? 1 : 0) ? this.anyOther : null,
      previous,
    );
  }

  /** The variants that the active one can be compared with. */
  private others(): messages.VariantMessage[] {
    const { synced, local } = this.context;
    const { active } = local;
    const isKnown = (baseline: number): boolean => synced.latest("diff", { baseline, variant: active }) !== null;
    return [...synced.variants.values()].filter(
      ({ variant, state }) => variant !== active && (synced.isAlone ? isKnown(variant) : state !== "failed"),
    );
  }

  private openOthers(): void {
    const { local } = this.context;
    const { variant } = local;
    if (!variant) return;
    const reference = local.referenceOf(variant.variant);
    const items = this.others().map((other) => ({
      text: `${other.variant === reference ? "✓ " : ""}${textOf(other)}`,
      run: () => {
        local.reveal("optimized");
        local.setOptimizedView(local.lastComparison);
        local.setReference(variant.variant, other.variant);
      },
    }));
    const root = this.element.closest<HTMLElement>(".insp")!;
    openMenu(root, this.anyOther, [{ title: `Compare ${textOf(variant)} with`, items }]);
  }

  private comparePrevious(): void {
    const { synced, local } = this.context;
    local.setOptimizedView(local.lastComparison);
    synced.send({ type: "previous" });
  }

  /** The button that adds the program that the cell had before it ran again; null if there is none, or it is there. */
  private previous(): HTMLElement | null {
    const { synced } = this.context;
    const isThere = [...synced.variants.values()].some(({ origin }) => origin === PREVIOUS);
    if (!synced.latest("controls")?.has_previous || isThere) return null;
    const title = "Compare the optimized HLO with that of the program before this cell ran again";
    return h(
      "button",
      { type: "button", class: "insp-button", disabled: synced.isAlone, title, onclick: () => this.comparePrevious() },
      icon("compare"),
      h("span", {}, "Compare with previous version"),
    );
  }

  private toggle(
    name: "columns" | "compare",
    text: string,
    isOn: boolean,
    isEnabled: boolean,
    title: string,
  ): HTMLElement {
    const { local } = this.context;
    const off = name === "columns" ? "text" : local.withoutComparison;
    const on = name === "columns" ? "columns" : local.lastComparison;
    const onclick = (): void => {
      if (!isOn) local.reveal("optimized");
      local.setOptimizedView(isOn ? off : on);
    };
    return h(
      "button",
      { type: "button", class: "insp-button", "aria-pressed": String(isOn), disabled: !isEnabled, title, onclick },
      icon(name),
      h("span", {}, text),
    );
  }
}
