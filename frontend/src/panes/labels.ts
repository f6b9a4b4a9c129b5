// The names of variants in tabs, tables and columns.

import { h } from "../lib/dom.ts";
import { icon } from "../lib/icons.ts";
import type * as messages from "../messages.ts";
import type { Synced } from "../state/synced.ts";
import { spinner } from "./states.ts";

/** Returns the label of a variant, followed by its target if the label differs from it. */
export function nameOf({ label, target }: messages.VariantMessage): HTMLElement[] {
  const name = h("span", { class: "insp-label", title: label }, label);
  return label === target ? [name] : [name, h("span", { class: "insp-dim insp-target" }, ` ${target}`)];
}

/** Returns the same as text. */
export function textOf({ label, target }: messages.VariantMessage): string {
  if (label === target) return label;
  return `${label} on ${target === "attached" ? "the attached device" : target}`;
}

/** Returns the name of a reference variant for use in a sentence. */
export function nameOfReference(synced: Synced, reference: number): string {
  const variant = synced.variants.get(reference);
  return reference === synced.baseline || !variant ? "the baseline" : textOf(variant);
}

export function stateMark(state: messages.State): HTMLElement {
  if (state === "queued" || state === "running") return spinner();
  return h("span", { class: `insp-mark insp-mark-${state}`, role: "img", "aria-label": state }, icon(state));
}

/** Returns the tooltip of a variant: its state, options, timing and error. */
export function tooltipOf(variant: messages.VariantMessage, isBaseline: boolean): string {
  const options = Object.entries(variant.options).map(([name, value]) => `${name} = ${String(value)}`);
  return [
    `${isBaseline ? "Baseline: " : ""}${textOf(variant)}, ${variant.stage || variant.state}`,
    ...(options.length ? options : ["default options"]),
    ...(variant.timing ? [variant.timing] : []),
    ...(variant.error ? [variant.error.message] : []),
  ].join("\n");
}
