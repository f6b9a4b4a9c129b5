// What stays where it is on screen when another graph takes the place of one, such as that after the next pass.

import type { Shown } from "./canvas.ts";
import { counterpart, type Folding } from "./folding.ts";
import type { Place } from "./layered.ts";
import { type GraphModel, NOWHERE } from "./model.ts";

interface Anchor {
  /** In the graph to come, and in the one before. */
  readonly node: number;
  readonly was: number;
}

/** The node nearest to the middle of what is seen that both graphs show; null for none. */
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

/** Passes keep the names of instructions that they leave alone, wherever these come to stand. */
function sameIn(model: GraphModel, other: GraphModel, node: number): number {
  const row = other.isBox(node) ? NOWHERE : model.rowOf(other.name(node));
  return row === NOWHERE ? counterpart(model, other, node) : row;
}
