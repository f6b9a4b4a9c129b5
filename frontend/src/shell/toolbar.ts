// The row of variants: which there are, how they fare, which one is shown.

import { toolButton } from "../lib/controls.ts";
import { fill, h } from "../lib/dom.ts";
import { icon } from "../lib/icons.ts";
import type * as messages from "../messages.ts";
import type { Context } from "../panes/pane.ts";
import { clock, spinner } from "../panes/states.ts";
import type { Timed } from "../state/synced.ts";

export class Toolbar {
  readonly element = h("div", { class: "insp-toolbar" });
  private readonly chips = h("div", { class: "insp-chips", role: "group", "aria-label": "Variants" });
  private readonly title = h("span", { class: "insp-title" });
  private readonly compare = h("div", { class: "insp-compare" });
  private readonly ends: (() => void)[];

  constructor(private readonly context: Context) {
    this.element.append(this.title, this.chips, this.compare);
    const { synced, local } = context;
    this.ends = [
      synced.signal.on(["session", "variants"], () => this.draw()),
      local.signal.on(["active", "optimizedView"], () => this.draw()),
    ];
    this.draw();
  }

  destroy(): void {
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
          title: tooltip(variant, isBaseline),
          onclick: () => local.setActive(variant.variant),
        },
        stateMark(variant.state),
        h("span", { class: "insp-label" }, variant.label),
        h("span", { class: "insp-dim" }, variant.target),
        h("span", { class: "insp-chip-time" }, variant.state === "queued" ? "queued" : clock(variant)),
      ),
      isRunning || !isBaseline ? end : null,
    );
  }

  /** Where many variants need several rows, the active one's is shown. */
  private showActive(): void {
    const chip = this.chips.querySelector<HTMLElement>("[aria-pressed=true]")?.parentElement;
    if (chip) this.chips.scrollTop = chip.offsetTop - this.chips.offsetTop;
  }

  /** Baseline against the active variant, one press away. */
  private drawCompare(): void {
    const { synced, local } = this.context;
    const canCompare = synced.variants.size > 1 && local.active !== synced.baseline;
    const isOn = local.optimizedView !== "text";
    const title = canCompare
      ? "Show the optimized HLO of the active variant against the baseline"
      : "Choose a variant other than the baseline to compare it";
    fill(
      this.compare,
      synced.variants.size > 1 &&
        h(
          "button",
          {
            type: "button",
            class: "insp-button",
            "aria-pressed": String(isOn),
            disabled: !canCompare,
            title,
            onclick: () => this.toggleCompare(isOn),
          },
          icon("compare"),
          h("span", {}, "Compare with baseline"),
        ),
    );
  }

  private toggleCompare(isOn: boolean): void {
    const { local } = this.context;
    if (!isOn) local.reveal("optimized");
    local.setOptimizedView(isOn ? "text" : local.lastComparison);
  }
}

function stateMark(state: messages.State): HTMLElement {
  if (state === "queued" || state === "running") return spinner();
  return h("span", { class: `insp-mark-${state}`, role: "img", "aria-label": state }, icon(state));
}

function tooltip(variant: messages.Variant, isBaseline: boolean): string {
  const options = Object.entries(variant.options).map(([name, value]) => `${name} = ${String(value)}`);
  return [
    `${isBaseline ? "Baseline: " : ""}${variant.label} on ${variant.target}, ${variant.state}`,
    ...(options.length ? options : ["default options"]),
    ...(variant.error ? [variant.error.message] : []),
  ].join("\n");
}
