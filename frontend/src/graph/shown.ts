// The graph on screen.

import type { Folding } from "./folding.ts";
import type { Layout } from "./layered.ts";
import type { Scene } from "./levels.ts";

/** A graph on screen: its open boxes, its nodes and links, and their layout. */
export interface Shown {
  readonly folding: Folding;
  readonly scene: Scene;
  readonly layout: Layout;
}
