// Hanging indentation of wrapped lines: continuation lines are indented further than the line itself.

import { type Extension, RangeSetBuilder } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, ViewPlugin, type ViewUpdate } from "@codemirror/view";

const FURTHER = 4;
/** Largest indentation that is kept, so that continuation lines have enough width. */
const MOST = 40;

/** Returns the indentation of continuation lines in columns. */
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
