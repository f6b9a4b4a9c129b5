// What the workspace knows of a pane.

import { type Pane as PaneName, PANES, type Topic } from "../messages.ts";
import type { Local } from "../state/local.ts";
import type { Synced } from "../state/synced.ts";

/** A pane draws into `element` and puts its controls into `tools`. */
export interface Pane {
  readonly element: HTMLElement;
  readonly tools: HTMLElement;
  /** Called when the pane comes on screen or leaves it; a hidden pane draws nothing. */
  setVisible(visible: boolean): void;
  destroy(): void;
}

export interface Context {
  readonly synced: Synced;
  readonly local: Local;
}

export const TITLES = Object.fromEntries(PANES.map(({ name, title }) => [name, title])) as Record<PaneName, string>;

const TOPICS = Object.fromEntries(PANES.map(({ name, topics }) => [name, topics])) as Record<
  PaneName,
  readonly Topic[]
>;

/** Draws a pane anew at the messages that the registry names; gives the function that ends it. */
export function follow({ synced }: Context, pane: PaneName, drawing: Drawing): () => void {
  return synced.signal.on(TOPICS[pane], drawing.request);
}

/** Runs `draw` when something changed, at once on screen, and later when not. */
export class Drawing {
  private visible = false;
  private stale = true;

  constructor(private readonly draw: () => void) {}

  setVisible(visible: boolean): void {
    this.visible = visible;
    if (visible && this.stale) this.now();
  }

  /** To be called on every change. */
  readonly request = (): void => {
    if (this.visible) this.now();
    else this.stale = true;
  };

  get isVisible(): boolean {
    return this.visible;
  }

  private now(): void {
    this.stale = false;
    this.draw();
  }
}
