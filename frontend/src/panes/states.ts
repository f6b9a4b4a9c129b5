// Placeholders for panes without content: loading, empty, failed.

import { h } from "../lib/dom.ts";
import { formatElapsed } from "../lib/format.ts";
import type * as messages from "../messages.ts";
import { elapsedNow, goesOn, type Synced, type Timed } from "../state/synced.ts";

type Work = Timed<{ state: messages.State; elapsed_s: number; stage: string }>;

/** Shows running work with its stage (or `title`, if it has none), a clock, and `actions` such as a stop button. */
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

/** Returns the reason why a variant that is not compiled has no `what`; null for a compiled variant. */
export function unfinished(variant: Timed<messages.VariantMessage> | null, what: string): HTMLElement | null {
  if (!variant) return empty(`No ${what} yet`, "Available once a variant is compiled.");
  if (variant.state === "failed") return failure(variant.error, `No ${what}: this variant failed`);
  if (variant.state === "cancelled") return empty(`No ${what}`, "This variant was canceled.");
  return variant.state === "done" ? null : loading("Compiling", variant);
}

/** Returns the reason why a variant has no text. */
export function missingText(synced: Synced, title: string, number: number | null): HTMLElement {
  const variant = synced.variants.get(number ?? -1) ?? null;
  if (variant?.state === "failed") return failure(variant.error, `No ${title}: this variant failed`);
  if (variant?.state === "cancelled") return empty(`No ${title}`, "This variant was canceled.");
  if (synced.isAlone) return empty(`${title} not received`, synced.remedy);
  if (!variant) return loading(synced.session ? "Lowering" : "Waiting for the notebook kernel", null);
  return loading(variant.state === "done" ? `Receiving ${title}` : title, variant);
}

/** Shows that a message from the notebook kernel is awaited, or `lost` if there is no kernel that could send it. */
export function awaited(synced: Synced, title: string, lost: string, work: Work | null = null): HTMLElement {
  return synced.isAlone ? empty(lost, synced.remedy) : loading(title, work);
}

/** Shows an error with its kind and message. */
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

/** Shows an error in a few lines, above the content that is available despite it. */
export function trouble(error: messages.Error | null): HTMLElement {
  return h(
    "div",
    { class: "insp-text-trouble", role: "alert" },
    h("span", { class: "insp-bad" }, "✗ Compilation failed after this stage. "),
    error && h("b", {}, `${error.kind} `),
    error && h("span", {}, error.message),
  );
}

/** Shows that there is no content, and the reason. */
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

/** A clock with the elapsed time of some work. It runs until the work ends or the element is removed. */
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
