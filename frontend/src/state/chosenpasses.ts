// The selected pass of each variant, shared by all panes.

import { nextOf } from "../lib/passcurves.ts";
import type * as messages from "../messages.ts";
import type { Synced } from "./synced.ts";

export class ChosenPasses {
  private readonly chosen = new Map<number, number>();

  /**
   * @param active returns the active variant.
   * @param changed is called when another pass is selected.
   */
  constructor(
    private readonly synced: Synced,
    private readonly active: () => number | null,
    private readonly changed: () => void,
  ) {}

  /** The passes of the active variant; empty if they are not recorded. */
  get rows(): readonly messages.PassRow[] {
    return this.synced.latest("passes", { variant: this.active() })?.rows ?? [];
  }

  /** The index of the selected pass; by default, the first one that changed the program. */
  get index(): number {
    const first = this.rows.findIndex(({ is_step }) => is_step);
    return this.chosen.get(this.active()!) ?? Math.max(0, first);
  }

  choose(index: number): void {
    const active = this.active();
    if (active === null) return;
    this.chosen.set(active, index);
    this.changed();
  }

  /** Selects the next or previous pass that changed the program. */
  step(direction: 1 | -1): void {
    const steps = [...this.rows.keys()].filter((index) => this.rows[index]!.is_step);
    if (steps.length) this.choose(nextOf(steps, this.index, direction));
  }
}
