// A link from a source line to the Source pane.

import { h } from "../lib/dom.ts";
import { shortSource, wholeSource } from "../lib/format.ts";
import type * as messages from "../messages.ts";
import type { Context } from "./pane.ts";

/** Returns a link, or plain text if the Source pane does not have the line. `source` is null if it is unknown. */
export function sourceLink({ synced, local }: Context, source: messages.SourceLine | null): HTMLElement {
  if (!source) return h("span", { class: "insp-dim" }, "unknown");
  const text = shortSource(source);
  const title = wholeSource(source);
  const document = synced.document("source", local.active);
  const place = source.line === null ? -1 : synced.origins.placeOf(source.file, source.line);
  const line = document?.linesOf(synced.origins.atInnermost(place))[0];
  if (!document || line === undefined) return h("span", { title }, text);
  const go = (): void => {
    local.reveal("source");
    local.goTo(document, line);
  };
  return h("button", { type: "button", class: "insp-link", title, onclick: go }, text);
}
