// What a node says, and how large that makes it.

import { plural } from "../lib/format.ts";
import type { Size } from "./layered.ts";
import type { GraphModel } from "./model.ts";

/** Widths of letters: of titles, of boxes' titles, and of what stands below. */
const CHARACTER = 6.2;
const BOLD = 7;
const SMALL = 5.7;
const MOST_CHARACTERS = 32;

/** How large a node is that is not open. */
export function sizeOf(model: GraphModel, node: number): Size {
  const title = shortened(model.label(node)).length * (model.isBox(node) ? BOLD : CHARACTER);
  const signs = model.canOpen(node) ? 30 : 18;
  return { width: Math.max(title + signs, subtitle(model, node).length * SMALL + 18, 70), height: 36 };
}

export function shortened(text: string): string {
  return text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS - 9)}…${text.slice(-8)}` : text;
}

/** What stands below a node's title: what is done, and the shape; of a box how many instructions are in it. */
export function subtitle(model: GraphModel, node: number): string {
  if (model.isBox(node)) return plural(model.instructionsIn(node), "instruction");
  return shortened([model.operation(node), model.shape(node)].filter(Boolean).join(" "));
}

/** What is read out: what is seen first, then the rest. */
export function spoken(model: GraphModel, node: number, words: string): string {
  const seen = `${shortened(model.label(node))} ${words}`.trim();
  const what = model.isBox(node) ? model.kind(node) : model.opcode(node);
  return [seen, what, model.title(node)].join(", ");
}
