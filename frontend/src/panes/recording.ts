// The states of panes whose data must be recorded first, such as Passes and Code.

import { textButton } from "../lib/controls.ts";
import { h } from "../lib/dom.ts";
import type * as messages from "../messages.ts";
import { goesOn, type Synced } from "../state/synced.ts";
import type { Context } from "./pane.ts";
import { textOf } from "./labels.ts";
import { empty, failure, loading } from "./states.ts";

/** Longest compile, in seconds, that opening a pane repeats without a request. */
const MOST_S = 20;
/** The recordings that were begun, by variant and product. */
const begun = new WeakMap<Synced, Set<string>>();

/** Returns a button that starts a recording. */
export function recordButton(
  { synced }: Context,
  { variant }: messages.VariantMessage,
  product: messages.Product,
  text: string,
): HTMLElement {
  return textButton(text, "Compile again and record", () => synced.send({ type: "record", variant, product }));
}

/** Returns the replacement for a missing recording: the reason, and how to get one. */
export function absence(context: Context, product: messages.Product, title: string, what: string): HTMLElement {
  const { synced, local } = context;
  const { variant } = local;
  const end = variant && ended(variant, title);
  if (end) return end;
  if (synced.isAlone) return empty(`${title} not recorded`, synced.remedy);
  if (!variant) return empty(`No ${title.toLowerCase()} yet`, "Available once a variant is compiled.");
  const recording = synced.latest("recording", { variant: variant.variant, product });
  const record = (text: string): HTMLElement => recordButton(context, variant, product, text);
  const cancel = (): void => synced.send({ type: "cancel", variant: variant.variant });
  if (recording && goesOn(recording))
    return loading("Waiting for the compiler", recording, textButton("Cancel", "Stop recording", cancel));
  if (recording?.state === "done") return loading(`Receiving ${title.toLowerCase()}`, null);
  if (variant.state !== "done") return loading("Compiling", variant);
  if (!recording && begins(context, variant, product)) return loading("Waiting for the compiler", null);
  if (recording?.state === "failed")
    return h(
      "div",
      { class: "insp-record" },
      failure(recording.error, `Recording ${title.toLowerCase()} failed`),
      record("Try again"),
    );
  const was = recording?.state === "cancelled" ? "Recording was canceled. " : "";
  return h(
    "div",
    { class: "insp-record" },
    empty(`${title} of ${textOf(variant)} not recorded yet`, was + what),
    record("Record"),
  );
}

/** Records a product when its pane is opened, once, unless this takes long. Returns whether the recording begins. */
function begins({ synced }: Context, variant: messages.VariantMessage, product: messages.Product): boolean {
  if (variant.elapsed_s > MOST_S) return false;
  let started = begun.get(synced);
  if (!started) begun.set(synced, (started = new Set()));
  const key = `${variant.variant} ${product}`;
  if (!started.has(key)) synced.send({ type: "record", variant: variant.variant, product });
  started.add(key);
  return true;
}

/** Returns the reason why a failed or canceled variant cannot be recorded; null for other variants. */
function ended(variant: messages.VariantMessage, title: string): HTMLElement | null {
  if (variant.state === "failed") return failure(variant.error, `No ${title.toLowerCase()}: this variant failed`);
  return variant.state === "cancelled" ? empty(`No ${title.toLowerCase()}`, "This variant was canceled.") : null;
}
