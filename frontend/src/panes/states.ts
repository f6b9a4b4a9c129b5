// What a pane shows when it has nothing to show.

import { h } from "../lib/dom.ts";
import { formatElapsed } from "../lib/format.ts";
import type * as messages from "../messages.ts";
import { elapsedNow, goesOn, type Synced, type Timed } from "../state/synced.ts";

type Work = Timed<{ state: messages.State; elapsed_s: number; stage: string }>;

/** Work under way, with its stage and a running clock; `title` where the work names no stage; what ends it beside. */
export function loading(title: string, work: Work | null, ...actions: HTMLElement[]): HTMLElement {
  const bars = [62, 84, 48, 71, 35].map((width) => h("div", { class: "insp-bone", style: `width:${width}%` }));
  const stage = work && goesOn(work) ? work.stage : "";
  return h(
    "div",
    { class: "insp-state insp-state-loading", role: "status" },
    h(
      "div",
      { class: "insp-state-title" },
      spinner(),
      h("span", {}, stage ? stage[0]!.toUpperCase() + stage.slice(1) : title),
      work && clock(work),
      ...actions,
    ),
    h("div", { class: "insp-bones", "aria-hidden": "true" }, ...bars),
  );
}

/** Why there is nothing of a variant that is not compiled; null for one that is. */
export function unfinished(variant: Timed<messages.Variant> | null, what: string): HTMLElement | null {
  if (!variant) return empty(`No ${what} yet`, "Comes with the first compiled variant.");
  if (variant.state === "failed") return failure(variant.error, `No ${what}: this variant failed`);
  if (variant.state === "cancelled") return empty(`No ${what}`, "This variant was cancelled.");
  return variant.state === "done" ? null : loading("Compiling", variant);
}

/** Why there is no text of a variant. */
export function missingText(synced: Synced, title: string, number: number | null): HTMLElement {
  const variant = synced.variants.get(number ?? -1) ?? null;
  if (variant?.state === "failed") return failure(variant.error, `No ${title}: this variant failed`);
  if (variant?.state === "cancelled") return empty(`No ${title}`, "This variant was cancelled.");
  if (synced.isAlone) return empty(`${title} was not received`, synced.remedy);
  if (!variant) return loading(synced.session ? "Lowering" : "Waiting for the kernel", null);
  return loading(variant.state === "done" ? `Receiving ${title}` : title, variant);
}

/** Something that the kernel was asked for, or will tell; one that is gone will not, nor what was recorded. */
export function awaited(synced: Synced, title: string, lost: string, work: Work | null = null): HTMLElement {
  return synced.isAlone ? empty(lost, synced.remedy) : loading(title, work);
}

/** An error, with the words of whoever raised it. */
export function failure(error: messages.Error | null, title: string): HTMLElement {
  return h(
    "div",
    { class: "insp-state insp-state-failed", role: "alert" },
    h(
      "div",
      { class: "insp-state-title" },
      h("span", { class: "insp-bad" }, "✗"),
      h("span", { class: "insp-state-words" }, title),
    ),
    error && h("div", { class: "insp-state-kind" }, error.kind),
    error && h("pre", { class: "insp-state-message" }, error.message),
  );
}

/** The same in a few lines, above what there is in spite of it. */
export function trouble(error: messages.Error | null): HTMLElement {
  return h(
    "div",
    { class: "insp-text-trouble", role: "alert" },
    h("span", { class: "insp-bad" }, "✗ Compiled no further. "),
    error && h("b", {}, `${error.kind} `),
    error && h("span", {}, error.message),
  );
}

/** Nothing to show, and why. */
export function empty(title: string, detail = "", ...actions: HTMLElement[]): HTMLElement {
  return h(
    "div",
    { class: "insp-state insp-state-empty", role: "status" },
    h("div", { class: "insp-state-title" }, title),
    detail && h("div", { class: "insp-state-detail" }, detail),
    ...actions,
  );
}

export function spinner(): HTMLElement {
  return h("span", { class: "insp-spinner", "aria-hidden": "true" });
}

/** Seconds since some work began; runs until the work ends or the element is taken away. */
export function clock(work: Work): HTMLElement {
  const element = h("span", { class: "insp-clock" }, formatElapsed(elapsedNow(work)));
  if (!goesOn(work)) return element;
  let wasConnected = false;
  const timer = setInterval(() => {
    if (wasConnected && !element.isConnected) clearInterval(timer);
    wasConnected ||= element.isConnected;
    element.textContent = formatElapsed(elapsedNow(work));
  }, 100);
  return element;
}
