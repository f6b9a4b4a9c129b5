// Additional facts about a line for the hover card.

import type { TextDocument } from "../lib/documents.ts";
import { aliveAt, aliveText, operandsOf } from "../lib/facts.ts";
import { shortSource } from "../lib/format.ts";
import type { Context } from "./pane.ts";

/** Returns one row each for the operands with their shapes, the source line, the live range and the costs of a line. */
export function describe(
  { synced, local }: Context,
  document: TextDocument,
  variant: number | null,
  line: number,
): string[] {
  const { origins } = synced;
  const source = document.pane === "source" ? null : origins.source(document.origin(line));
  const alive = document.pane === "optimized" ? aliveAt(document, line) : null;
  const isCounting = variant !== null && synced.variants.get(variant)?.state === "done" && !local.costs.reply(variant);
  return [
    ...operandsOf(document, line),
    source ? `Source: ${shortSource(source)}` : "",
    alive ? `Live range: ${aliveText(alive)}` : "",
    ...(variant === null ? [] : local.costs.describe(document, variant, line)),
    isCounting && document.defines(line) ? "Computing its cost …" : "",
  ].filter(Boolean);
}
