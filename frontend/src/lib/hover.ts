// A card beside the pointer that explains the text under it.

import { Compartment, type Extension } from "@codemirror/state";
import { type EditorView, hoverTooltip, tooltips } from "@codemirror/view";
import type { TextDocument } from "./documents.ts";
import { h } from "./dom.ts";
import { explain, type Explanation } from "./explain.ts";
import { visiblePart } from "./overlay.ts";

const DELAY_MS = 350;
const EDGE_PX = 4;

/** Shows the definition of a name or the meaning of an operation when the pointer rests on it. */
export function hovering(document: TextDocument, describe: (line: number) => string[]): Extension {
  const card = hoverTooltip(
    (view, position) => {
      const line = view.state.doc.lineAt(position);
      const explanation = explain(document, line.number - 1, position - line.from);
      if (explanation) layOver(view);
      return (
        explanation && {
          pos: line.from + explanation.from,
          end: line.from + explanation.to,
          above: true,
          create: () => ({ dom: cardOf(explanation, describe(explanation.line)) }),
        }
      );
    },
    { hoverTime: DELAY_MS },
  );
  return [card, layer.of([])];
}

const layer = new Compartment();
const layers = new WeakMap<EditorView, HTMLElement>();

/** Places an editor's cards in the Explorer's root element, because the pane would clip them. */
function layOver(view: EditorView): void {
  const root = view.dom.closest<HTMLElement>(".insp");
  if (!root || layers.get(view) === root) return;
  layers.set(view, root);
  const tooltipSpace = (): Rect => inner(visiblePart(root));
  const config = tooltips({ position: "absolute", parent: root, tooltipSpace });
  view.dispatch({ effects: layer.reconfigure(config) });
}

type Rect = ReturnType<typeof visiblePart>;

function inner({ top, right, bottom, left }: Rect): Rect {
  return { top: top + EDGE_PX, right: right - EDGE_PX, bottom: bottom - EDGE_PX, left: left + EDGE_PX };
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
