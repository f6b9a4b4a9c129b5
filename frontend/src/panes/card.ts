// What the card beside the pointer says of a line besides what stands there.

import type { TextDocument } from "../lib/documents.ts";
import { aliveAt, aliveText, operandsOf } from "../lib/facts.ts";
import { shortSource } from "../lib/format.ts";
import type { Context } from "./pane.ts";

/** Operands with their shapes, the source line, how long the value is alive, and what the line costs; a row each. */
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
    alive ? `Alive: ${aliveText(alive)}` : "",
    ...(variant === null ? [] : local.costs.describe(document, variant, line)),
    isCounting && document.defines(line) ? "What it costs is being counted" : "",
  ].filter(Boolean);
}
