// The states of panes whose data must be recorded first, such as Passes and Code.

import { textButton } from "../lib/controls.ts";
import { h } from "../lib/dom.ts";
import type * as messages from "../messages.ts";
import { goesOn } from "../state/synced.ts";
import type { Context } from "./pane.ts";
import { textOf } from "./labels.ts";
import { empty, failure, loading } from "./states.ts";

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

/** Returns the reason why a failed or canceled variant cannot be recorded; null for other variants. */
function ended(variant: messages.VariantMessage, title: string): HTMLElement | null {
  if (variant.state === "failed") return failure(variant.error, `No ${title.toLowerCase()}: this variant failed`);
  return variant.state === "cancelled" ? empty(`No ${title.toLowerCase()}`, "This variant was canceled.") : null;
}
