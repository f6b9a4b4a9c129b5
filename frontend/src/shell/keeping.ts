// Saved layouts: in the notebook, and in the browser for its next Explorer. The browser saves a separate layout for
// texts side by side. A layout in which no pane was moved adapts to the width of the page.

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

/** The layout that the notebook saves. Python may set the name of a preset instead. */
interface Arrangement {
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
    private readonly isKernel: boolean,
  ) {
    this.shape = shapeOf(widthPx);
  }

  /** Adapts a layout to a new width of the page. */
  fit(layout: Layout, widthPx: number): Layout {
    this.shape = shapeOf(widthPx);
    return this.fitted(layout);
  }

  /** The layout that the notebook or Python has set; null if there is none. */
  get ofNotebook(): Layout | null {
    const kept = this.arrangement.get();
    const preset = PRESETS.find(({ value }) => value === kept?.preset);
    if (preset) return this.preset(preset.value);
    return kept?.columns ? this.fitted(restoreLayout(kept, this.available, this.usual)) : null;
  }

  /** The last layout of this browser. */
  get ofBrowser(): Layout {
    return this.fitted(restoreLayout(recall(this.name), this.available, this.usual));
  }

  /** The default layout. */
  get usual(): Layout {
    return this.usualOf(this.shape);
  }

  preset(preset: Preset): Layout {
    return presetLayout(preset, this.available, this.shape);
  }

  /** Saves a layout in the notebook, where Python reads it, and for the next Explorer in this browser. */
  keep(layout: Layout): void {
    remember(this.name, layout);
    this.arrangement.set({ ...layout, side_by_side: this.isWide });
  }

  private fitted(layout: Layout): Layout {
    return fitted(layout, this.shape, (shape) => this.usualOf(shape));
  }

  private usualOf(shape: Shape): Layout {
    const plain = defaultLayout(this.available, shape, this.isKernel);
    return this.isWide ? widened(plain, WIDE_PANE) : plain;
  }

  private get name(): string {
    return this.isWide ? "layout.columns" : "layout";
  }
}
