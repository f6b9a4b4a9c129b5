// What a variant's optimized HLO has that the baseline's has not, in one line above the text.

import { textButton } from "../lib/controls.ts";
import { h } from "../lib/dom.ts";
import type { Context } from "./pane.ts";

/** Null for the baseline, between platforms, where nearly everything differs, and before it is known. */
export function changeLine({ synced, local }: Context, variant: number | null): HTMLElement | null {
  const { baseline, variants } = synced;
  if (baseline === null || variant === null) return null;
  const diff = synced.diff(baseline, variant);
  if (!diff || variants.get(baseline)?.platform !== variants.get(variant)?.platform) return null;
  const [against, words] = ["Against the baseline: ", diff.summary || "no instruction differs"];
  const compare = textButton("Compare", "Show the optimized HLO against the baseline's", () => {
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
