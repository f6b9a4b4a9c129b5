// What the Passes and the Code pane have in common: they show what must be recorded first.

import { textButton } from "../lib/controls.ts";
import { h } from "../lib/dom.ts";
import type * as messages from "../messages.ts";
import { goesOn } from "../state/synced.ts";
import type { Context } from "./pane.ts";
import { textOf } from "./labels.ts";
import { empty, failure, loading } from "./states.ts";

/** Starts a recording. */
export function recordButton(
  { synced }: Context,
  { variant }: messages.Variant,
  product: messages.Product,
  text: string,
): HTMLElement {
  return textButton(text, "Compile once more and record", () => synced.send({ type: "record", variant, product }));
}

/** What stands in the place of a recording that is not there: why, and how to get it. */
export function absence(context: Context, product: messages.Product, title: string, what: string): HTMLElement {
  const { synced, local } = context;
  const { variant } = local;
  const end = variant && ended(variant, title);
  if (end) return end;
  if (synced.isAlone) return empty(`${title} are not kept here`, synced.remedy);
  if (!variant) return empty(`No ${title.toLowerCase()} yet`, "They can be recorded of a compiled variant.");
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
      failure(recording.error, `${title} could not be recorded`),
      record("Try again"),
    );
  const was = recording?.state === "cancelled" ? "Recording was cancelled. " : "";
  return h(
    "div",
    { class: "insp-record" },
    empty(`${title} of ${textOf(variant)} are not recorded yet`, was + what),
    record("Record"),
  );
}

/** Why nothing can be recorded of a variant whose compile failed or was canceled; null for others. */
function ended(variant: messages.Variant, title: string): HTMLElement | null {
  if (variant.state === "failed") return failure(variant.error, `No ${title.toLowerCase()}: this variant failed`);
  return variant.state === "cancelled" ? empty(`No ${title.toLowerCase()}`, "This variant was cancelled.") : null;
}
