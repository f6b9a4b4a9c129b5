// The row of variants: which there are, how they fare, which one is shown.

import { toolButton } from "../lib/controls.ts";
import { fill, h } from "../lib/dom.ts";
import { icon } from "../lib/icons.ts";
import type * as messages from "../messages.ts";
import type { Context } from "../panes/pane.ts";
import { nameOf, stateMark, tooltipOf } from "../panes/labels.ts";
import { clock } from "../panes/states.ts";
import type { Timed } from "../state/synced.ts";

export class Toolbar {
  readonly element = h("div", { class: "insp-toolbar" });
  private readonly chips = h("div", { class: "insp-chips", role: "group", "aria-label": "Variants" });
  private readonly title = h("span", { class: "insp-title" });
  private readonly compare = h("div", { class: "insp-compare" });
  private readonly resizes = new ResizeObserver(() => this.showActive());
  private readonly ends: (() => void)[];

  constructor(private readonly context: Context) {
    this.element.append(this.title, this.chips, this.compare);
    const { synced, local } = context;
    this.ends = [
      synced.signal.on(["session", "variants"], () => this.draw()),
      local.signal.on(["active", "optimizedView"], () => this.draw()),
    ];
    this.resizes.observe(this.chips);
    this.draw();
  }

  destroy(): void {
    this.resizes.disconnect();
    this.ends.forEach((end) => end());
  }

  private draw(): void {
    const { synced } = this.context;
    this.title.textContent = synced.session?.name ?? "";
    this.title.title = this.title.textContent;
    const focused = document.activeElement?.getAttribute("data-chip");
    fill(this.chips, ...[...synced.variants.values()].map((v) => this.chip(v, v.variant === synced.baseline)));
    this.showActive();
    if (focused) this.chips.querySelector<HTMLElement>(`[data-chip="${focused}"]`)?.focus();
    this.drawCompare();
  }

  private chip(variant: Timed<messages.Variant>, isBaseline: boolean): HTMLElement {
    const { local, synced } = this.context;
    const isRunning = variant.state === "queued" || variant.state === "running";
    const verb = isRunning ? "Cancel" : "Remove";
    const request = { type: isRunning ? "cancel" : "remove", variant: variant.variant } as const;
    const end = toolButton(isRunning ? "stop" : "close", `${verb} ${variant.label}`, () => synced.send(request));
    return h(
      "div",
      { class: `insp-chip insp-chip-${variant.state}`, "data-variant": variant.variant },
      h(
        "button",
        {
          type: "button",
          class: "insp-chip-main",
          "data-chip": variant.variant,
          "aria-pressed": String(variant.variant === local.active),
          title: tooltipOf(variant, isBaseline),
          onclick: () => local.setActive(variant.variant),
        },
        stateMark(variant.state),
        ...nameOf(variant),
        h("span", { class: "insp-chip-time" }, variant.state === "queued" ? "queued" : clock(variant)),
      ),
      isRunning || !isBaseline ? end : null,
    );
  }

  /** Where many variants need several rows, the active one's is shown. */
  private showActive(): void {
    requestAnimationFrame(() => {
      const chip = this.chips.querySelector<HTMLElement>("[aria-pressed=true]")?.parentElement;
      if (chip) this.chips.scrollTop = chip.offsetTop - this.chips.offsetTop;
    });
  }

  /** All variants side by side, and the active one against the baseline, one press away. */
  private drawCompare(): void {
    const { synced, local } = this.context;
    if (synced.variants.size < 2) return fill(this.compare);
    const canCompare = local.active !== synced.baseline;
    fill(
      this.compare,
      this.toggle(
        "columns",
        "Side by side",
        local.isSideBySide,
        true,
        "Show the optimized HLO of all variants in columns",
      ),
      this.toggle(
        "compare",
        "Compare with baseline",
        local.optimizedView === local.lastComparison,
        canCompare,
        canCompare
          ? "Show the optimized HLO of the active variant against the baseline"
          : "Choose a variant other than the baseline to compare it",
      ),
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
