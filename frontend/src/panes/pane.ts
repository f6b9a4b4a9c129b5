// The interface between the workspace and a pane.

import { type Pane as PaneName, PANES, type Topic } from "../messages.ts";
import type { Local } from "../state/local.ts";
import type { Synced } from "../state/synced.ts";

/** A pane draws into `element` and puts its controls into `tools`. */
export interface Pane {
  readonly element: HTMLElement;
  readonly tools: HTMLElement;
  /** Called when the pane comes on screen or leaves it. A hidden pane draws nothing. */
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

/** Redraws a pane at the messages that the registry lists for it. Returns a function that stops this. */
export function follow({ synced }: Context, pane: PaneName, drawing: Drawing): () => void {
  return synced.signal.on(TOPICS[pane], drawing.request);
}

/** Runs `draw` after a change: at once while the pane is visible, otherwise when it becomes visible. */
export class Drawing {
  private visible = false;
  private stale = true;

  constructor(private readonly draw: () => void) {}

  setVisible(visible: boolean): void {
    this.visible = visible;
    if (visible && this.stale) this.now();
  }

  /** Must be called on every change. */
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
