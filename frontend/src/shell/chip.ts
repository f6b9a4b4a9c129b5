// One variant in the toolbar. Its element stays the same while the variant changes, so that a click that began before a
// message from Python still counts.

import { toolButton } from "../lib/controls.ts";
import { fill, h, update } from "../lib/dom.ts";
import { icon } from "../lib/icons.ts";
import type * as messages from "../messages.ts";
import { nameOf, stateMark, tooltipOf } from "../panes/labels.ts";
import type { Context } from "../panes/pane.ts";
import { clock } from "../panes/states.ts";
import { goesOn, type Timed } from "../state/synced.ts";

/** Clicks on "Cancel" this shortly after the end of a compile are ignored, because they would remove the variant. */
const SETTLE_MS = 600;
const TOTAL = "Total time from the request to the result, including waiting and startup. Stats shows the compile time.";

export class Chip {
  readonly element: HTMLElement;
  private readonly main: HTMLButtonElement;
  private readonly end = toolButton("close", "", () => this.onEnd());
  private readonly pin = toolButton("pin", "", () => this.onPin());
  private variant: Timed<messages.VariantMessage>;
  private endedAt = -Infinity;

  constructor(
    private readonly context: Context,
    variant: Timed<messages.VariantMessage>,
  ) {
    this.variant = variant;
    const { local } = context;
    const number = variant.variant;
    this.main = h("button", {
      type: "button",
      class: "insp-chip-main",
      "data-chip": number,
      onclick: () => local.setActive(number),
    });
    this.element = h("div", { "data-variant": number }, this.main, this.pin, this.end);
    this.draw(variant);
  }

  draw(variant: Timed<messages.VariantMessage>): void {
    if (goesOn(this.variant) && !goesOn(variant)) this.endedAt = performance.now();
    this.variant = variant;
    const { synced, local } = this.context;
    const isBaseline = variant.variant === synced.baseline;
    this.element.className = `insp-chip insp-chip-${variant.state}`;
    this.main.setAttribute("aria-pressed", String(variant.variant === local.active));
    this.main.title = tooltipOf(variant, isBaseline);
    fill(this.main, stateMark(variant.state), ...nameOf(variant), timeOf(variant));
    this.drawPin(isBaseline);
    this.drawEnd(isBaseline);
  }

  private drawPin(isBaseline: boolean): void {
    const { pinned, label } = this.variant;
    const text = pinned ? `Unpin ${label}` : `Pin ${label}`;
    const title = pinned ? text : `${text} next to the baseline and protect it from removal`;
    this.pin.hidden = isBaseline || this.context.synced.isRecorded;
    update(this.pin, { title, "aria-label": text, "aria-pressed": String(pinned === true) });
  }

  private onPin(): void {
    const { variant, pinned } = this.variant;
    this.context.synced.send({ type: "pin", variant, pinned: !pinned });
  }

  private drawEnd(isBaseline: boolean): void {
    const isRunning = goesOn(this.variant);
    const label = `${isRunning ? "Cancel" : "Remove"} ${this.variant.label}`;
    this.end.hidden = ((isBaseline || this.variant.pinned) && !isRunning) || this.context.synced.isRecorded;
    if (this.end.title === label) return;
    this.end.title = label;
    this.end.setAttribute("aria-label", label);
    fill(this.end, icon(isRunning ? "stop" : "close"));
  }

  private onEnd(): void {
    const { variant } = this.variant;
    if (goesOn(this.variant)) return this.context.synced.send({ type: "cancel", variant });
    if (performance.now() - this.endedAt > SETTLE_MS) this.context.synced.send({ type: "remove", variant });
  }
}

/** The time of a compile; null for a program that was read and not compiled. */
function timeOf(variant: Timed<messages.VariantMessage>): HTMLElement | null {
  if (variant.origin) return null;
  if (variant.cached) return h("span", { class: "insp-chip-time", title: variant.cached }, "cached");
  if (variant.state === "queued") return h("span", { class: "insp-chip-time" }, "queued");
  const isDone = variant.state === "done";
  return h("span", { class: "insp-chip-time", title: variant.timing || TOTAL }, isDone && "total ", clock(variant));
}
