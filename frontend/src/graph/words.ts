// The texts of a node, and its size.

import { plural } from "../lib/format.ts";
import type { Size } from "./layered.ts";
import type { GraphModel } from "./model.ts";

/** Character widths in pixels: of titles, of titles of boxes, and of subtitles. */
const CHARACTER = 6.2;
const BOLD = 7;
const SMALL = 6.2;
const MOST_CHARACTERS = 32;

/** Returns the size of a closed node. */
export function sizeOf(model: GraphModel, node: number): Size {
  const title = shortened(model.label(node)).length * (model.isBox(node) ? BOLD : CHARACTER);
  const signs = model.canOpen(node) ? 30 : 18;
  return { width: Math.max(title + signs, subtitle(model, node).length * SMALL + 18, 70), height: 36 };
}

export function shortened(text: string): string {
  return text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS - 9)}…${text.slice(-8)}` : text;
}

/** Returns the text below a node's title: the operation and shape, or the number of instructions in a box. */
export function subtitle(model: GraphModel, node: number): string {
  if (model.isBox(node)) return plural(model.instructionsIn(node), "instruction");
  return shortened([model.operation(node), model.shape(node)].filter(Boolean).join(" "));
}

/** Returns the text for screen readers: first the visible text, then the rest. */
export function spoken(model: GraphModel, node: number, words: string): string {
  const visible = `${shortened(model.label(node))} ${words}`.trim();
  const kind = model.isBox(node) ? model.kind(node) : model.opcode(node);
  return [visible, kind, model.title(node)].join(", ");
}
