// The row of variants with their states, and the buttons for comparing them.

import { fill, h } from "../lib/dom.ts";
import { icon } from "../lib/icons.ts";
import type { Context } from "../panes/pane.ts";
import { PREVIOUS } from "../state/synced.ts";
import { Chip } from "./chip.ts";
import { Saving } from "./saving.ts";

export class Toolbar {
  readonly element = h("div", { class: "insp-toolbar" });
  private readonly chips = h("div", { class: "insp-chips", role: "group", "aria-label": "Variants" });
  private readonly drawn = new Map<number, Chip>();
  private readonly title = h("span", { class: "insp-title" });
  private readonly compare = h("div", { class: "insp-compare" });
  private readonly resizes = new ResizeObserver(() => this.showActive());
  private readonly saving: Saving;
  private readonly ends: (() => void)[];

  constructor(private readonly context: Context) {
    this.saving = new Saving(context);
    this.element.append(this.title, this.chips, this.compare, this.saving.button);
    const { synced, local } = context;
    this.ends = [
      synced.signal.on(["session", "variant"], () => this.draw()),
      synced.signal.on(["diff", "controls", "notebook_kernel"], () => this.drawCompare()),
      local.signal.on(["active", "optimizedView"], () => this.draw()),
    ];
    this.resizes.observe(this.chips);
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
    this.context.synced.ordered.forEach((number, i) => {
      const { element } = this.drawn.get(number)!;
      if (this.chips.children[i] !== element) this.chips.insertBefore(element, this.chips.children[i] ?? null);
    });
    if (focused && focused !== document.activeElement && this.chips.contains(focused)) focused.focus();
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
    const reference = local.active === null ? null : synced.referenceOf(local.active);
    const canCompare = reference !== local.active;
    const isBaseline = reference === null || reference === synced.baseline || !canCompare;
    const { origin, target } = synced.variants.get(reference ?? -1) ?? {};
    const name = isBaseline ? "baseline" : origin || target || "";
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
      previous,
    );
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
