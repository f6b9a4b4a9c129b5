// The node that keeps its place on screen when another graph replaces the shown one, such as after the next pass.

import type { Shown } from "./shown.ts";
import { counterpart, type Folding } from "./folding.ts";
import type { Place } from "./layered.ts";
import { type GraphModel, NOWHERE } from "./model.ts";

interface Anchor {
  /** The node in the new graph, and the same node in the old one. */
  readonly node: number;
  readonly was: number;
}

/** Returns the node nearest to the center of the visible part that both graphs show; null if there is none. */
export function anchorIn(folding: Folding, before: Shown, seen: Place): Anchor | null {
  const { folding: here, scene, layout } = before;
  const there = new Set(folding.shown());
  const distance = (node: number): number => {
    const { x, y, width, height } = layout.places.get(node)!;
    return Math.hypot(x + width / 2 - seen.x - seen.width / 2, y + height / 2 - seen.y - seen.height / 2);
  };
  let [nearest, least]: [Anchor | null, number] = [null, Infinity];
  for (const was of scene.shown) {
    const far = distance(was);
    if (far >= least) continue;
    const node = sameIn(folding.model, here.model, was);
    if (there.has(node) && folding.isOpen(node) === here.isOpen(was)) [nearest, least] = [{ node, was }, far];
  }
  return nearest;
}

/** Returns the same node in another graph. Passes keep the names of unchanged instructions, even if they move them. */
function sameIn(model: GraphModel, other: GraphModel, node: number): number {
  const row = other.isBox(node) ? NOWHERE : model.rowOf(other.name(node));
  return row === NOWHERE ? counterpart(model, other, node) : row;
}
