// The recorded pass of each variant that is looked at, in all panes.

import { nextOf } from "../lib/passcurves.ts";
import type * as messages from "../messages.ts";
import type { Local } from "./local.ts";
import type { Synced } from "./synced.ts";

export class ChosenPasses {
  private readonly chosen = new Map<number, number>();

  constructor(
    private readonly synced: Synced,
    private readonly local: Local,
  ) {}

  /** The passes of the active variant; none where they are not recorded. */
  get rows(): readonly messages.PassRow[] {
    return this.synced.latest("passes", { variant: this.local.active })?.rows ?? [];
  }

  /** The index of the one that is looked at: at first the first that changed the program. */
  get index(): number {
    const first = this.rows.findIndex(({ is_step }) => is_step);
    return this.chosen.get(this.local.active!) ?? Math.max(0, first);
  }

  choose(index: number): void {
    if (this.local.active === null) return;
    this.chosen.set(this.local.active, index);
    this.local.signal.emit("pass");
  }

  /** To the next one that changed the program. */
  step(direction: 1 | -1): void {
    const steps = [...this.rows.keys()].filter((index) => this.rows[index]!.is_step);
    if (steps.length) this.choose(nextOf(steps, this.index, direction));
  }
}
