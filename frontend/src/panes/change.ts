// A one-line summary above the text: how a variant's optimized HLO differs from its reference.

import { textButton } from "../lib/controls.ts";
import { h } from "../lib/dom.ts";
import { nameOfReference } from "./labels.ts";
import type { Context } from "./pane.ts";

/**
 * Returns the line, or null for the baseline, between platforms (where nearly everything differs), and until the
 * difference is known.
 */
export function changeLine({ synced, local }: Context, variant: number | null): HTMLElement | null {
  const { variants } = synced;
  const reference = variant === null ? null : local.referenceOf(variant);
  if (reference === null || variant === null) return null;
  const diff = synced.latest("diff", { baseline: reference, variant });
  if (!diff || variants.get(reference)?.platform !== variants.get(variant)?.platform) return null;
  const against = `Compared with ${nameOfReference(synced, reference)}: `;
  const words = diff.summary || "no differing instructions";
  const compare = textButton("Compare", `Compare the optimized HLO with ${nameOfReference(synced, reference)}`, () => {
    local.setActive(variant);
    local.setOptimizedView(local.lastComparison);
  });
  return h(
    "div",
    { class: "insp-summary insp-change", role: "status" },
    h("span", { title: against + words }, h("span", { class: "insp-change-against" }, against), words),
    diff.hunks.length ? compare : null,
  );
}
