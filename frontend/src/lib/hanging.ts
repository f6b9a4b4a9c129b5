// Long lines that are wrapped go on below their own text, further in, and break between operands.

import { type Extension, RangeSetBuilder } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, ViewPlugin, type ViewUpdate } from "@codemirror/view";

const FURTHER = 4;
/** A line that begins far to the right still leaves room for what follows. */
const MOST = 40;

/** Columns by which what follows of a line stands to the right of the margin. */
export function hang(text: string): number {
  return Math.min(text.length - text.trimStart().length, MOST) + FURTHER;
}

function decorate(view: EditorView): DecorationSet {
  const builder = new RangeSetBuilder<Decoration>();
  for (const { from, to } of view.visibleRanges) {
    for (let at = from; at <= to;) {
      const line = view.state.doc.lineAt(at);
      const style = `--insp-hang: ${hang(line.text)}ch`;
      builder.add(line.from, line.from, Decoration.line({ class: "insp-hanging", attributes: { style } }));
      at = line.to + 1;
    }
  }
  return builder.finish();
}

const hanging = ViewPlugin.fromClass(
  class {
    decorations: DecorationSet;

    constructor(view: EditorView) {
      this.decorations = decorate(view);
    }

    update({ view, docChanged, viewportChanged }: ViewUpdate): void {
      if (docChanged || viewportChanged) this.decorations = decorate(view);
    }
  },
  { decorations: (plugin) => plugin.decorations },
);

export const wrapped: Extension = [EditorView.lineWrapping, hanging];
