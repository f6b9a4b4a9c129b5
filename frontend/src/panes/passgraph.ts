// The choice of the module in the Graph pane: the compiled one, or the one before or after the pass that is selected in
// the Passes pane.

import { type Choice, Switcher, toolButton } from "../lib/controls.ts";
import { h } from "../lib/dom.ts";
import type { Message } from "../state/synced.ts";
import type { Context } from "./pane.ts";
import { Replies } from "./replies.ts";

type Of = "compiled" | "before" | "after";

const OF: Choice<Of>[] = [
  { value: "compiled", text: "Compiled", title: "Optimized HLO" },
  { value: "before", text: "Before", title: "Module before the pass selected in Passes" },
  { value: "after", text: "After", title: "Module after the pass selected in Passes" },
];

export class PassGraph {
  readonly element: HTMLElement;
  private readonly of: Switcher<Of>;
  private readonly replies: Replies<"pass_graph">;
  private readonly name = h("span", { class: "insp-g-pass-name" });
  private readonly steps = h(
    "span",
    { class: "insp-g-steps" },
    toolButton("left", "Previous pass that changed the program (<)", () => this.context.local.passes.step(-1)),
    this.name,
    toolButton("right", "Next pass that changed the program (>)", () => this.context.local.passes.step(1)),
  );

  /** @param changed is called when the user chooses another module. */
  constructor(
    private readonly context: Context,
    changed: () => void,
  ) {
    this.of = new Switcher<Of>("Displayed module", OF, "compiled", changed);
    this.replies = new Replies(context.synced, "pass_graph");
    this.element = h("span", { class: "insp-g-pass" }, this.of.element, this.steps);
  }

  /** Offers the modules between passes if passes are recorded. */
  draw(): void {
    const { rows, index } = this.context.local.passes;
    const row = rows[index];
    this.element.hidden = !row;
    this.steps.hidden = !this.isShown;
    this.name.textContent = row ? `${index} ${row.name}` : "";
    this.name.title = row ? `${row.name} in ${row.pipeline}` : "";
  }

  /** Whether a module between passes is chosen and passes are recorded. */
  get isShown(): boolean {
    return this.of.value !== "compiled" && this.context.local.passes.rows.length > 0;
  }

  /** The graph to show; null until it arrives. */
  get reply(): Message<"pass_graph"> | null {
    const { active, passes } = this.context.local;
    return this.replies.of({
      type: "pass_graph",
      variant: active!,
      index: passes.index,
      is_before: this.of.value === "before",
    });
  }
}
