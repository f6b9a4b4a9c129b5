// A small card beside the pointer: what stands there.

import type { Extension } from "@codemirror/state";
import { hoverTooltip, tooltips } from "@codemirror/view";
import type { TextDocument } from "./documents.ts";
import { h } from "./dom.ts";
import { explain, type Explanation } from "./explain.ts";

const DELAY_MS = 350;

/** Shows what a name stands for and what an operation does, when the pointer rests there. */
export function hovering(document: TextDocument, describe: (line: number) => string[]): Extension {
  const card = hoverTooltip(
    (view, position) => {
      const line = view.state.doc.lineAt(position);
      const found = explain(document, line.number - 1, position - line.from);
      return (
        found && {
          pos: line.from + found.from,
          end: line.from + found.to,
          above: true,
          create: () => ({ dom: cardOf(found, describe(found.line)) }),
        }
      );
    },
    { hoverTime: DELAY_MS },
  );
  return [card, tooltips({ position: "fixed" })];
}

function cardOf({ title, code, words, url }: Explanation, costs: readonly string[]): HTMLElement {
  return h(
    "div",
    { class: "insp-card", role: "tooltip" },
    h("div", { class: "insp-card-title" }, title),
    code && h("code", {}, code),
    words && h("div", {}, words),
    ...costs.map((cost) => h("div", { class: "insp-dim" }, cost)),
    url && h("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, "Specification"),
  );
}
