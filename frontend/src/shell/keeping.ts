// The layouts that are kept: by the notebook, and by the browser for its next Explorer, there another one for texts side
// by side. One in which no pane was moved follows the width of the page.

import { recall, remember } from "../lib/storage.ts";
import type { Pane } from "../messages.ts";
import {
  defaultLayout,
  fitted,
  type Layout,
  type Preset,
  presetLayout,
  PRESETS,
  restoreLayout,
  type Shape,
  shapeOf,
  widened,
} from "../state/layout.ts";

/** A layout that the notebook keeps; what Python sets may be the name of one. */
export interface Arrangement {
  get(): (Partial<Omit<Layout, "version">> & { readonly preset?: string; readonly side_by_side?: boolean }) | null;
  set(layout: Layout & { readonly side_by_side: boolean }): void;
}

const WIDE_PANE: Pane = "optimized";

export class KeptLayouts {
  private shape: Shape;

  constructor(
    private readonly available: readonly Pane[],
    private readonly arrangement: Arrangement,
    widthPx: number,
    /** Whether the optimized HLO shows several texts side by side. */
    public isWide: boolean,
  ) {
    this.shape = shapeOf(widthPx);
  }

  /** A layout as the page's new width has room for it. */
  fit(layout: Layout, widthPx: number): Layout {
    this.shape = shapeOf(widthPx);
    return this.fitted(layout);
  }

  /** As the notebook or Python has it. */
  get ofNotebook(): Layout | null {
    const kept = this.arrangement.get();
    const preset = PRESETS.find(({ value }) => value === kept?.preset);
    if (preset) return this.preset(preset.value);
    return kept?.columns ? this.fitted(restoreLayout(kept, this.available, this.usual)) : null;
  }

  /** As this browser had it last. */
  get ofBrowser(): Layout {
    return this.fitted(restoreLayout(recall(this.name), this.available, this.usual));
  }

  /** As nobody has changed it. */
  get usual(): Layout {
    return this.usualOf(this.shape);
  }

  preset(preset: Preset): Layout {
    return presetLayout(preset, this.available, this.shape);
  }

  /** In the notebook, where Python reads it, and for the next Explorer in this browser. */
  keep(layout: Layout): void {
    remember(this.name, layout);
    this.arrangement.set({ ...layout, side_by_side: this.isWide });
  }

  private fitted(layout: Layout): Layout {
    return fitted(layout, this.shape, (shape) => this.usualOf(shape));
  }

  private usualOf(shape: Shape): Layout {
    const plain = defaultLayout(this.available, shape);
    return this.isWide ? widened(plain, WIDE_PANE) : plain;
  }

  private get name(): string {
    return this.isWide ? "layout.columns" : "layout";
  }
}
