// Where texts were read, for when they come back: after another one, and after the notebook took the cell out of the page.

import type { EditorView } from "@codemirror/view";
import type { TextDocument } from "../lib/documents.ts";

interface Place {
  readonly top: number;
  readonly left: number;
}

export class ScrollPlaces {
  private readonly known = new WeakMap<TextDocument, Place>();
  /** The editor that is yet to come back to its place, and stands at the top until then. */
  private restoring: EditorView | null = null;

  has(document: TextDocument): boolean {
    return this.known.has(document);
  }

  save(view: EditorView, document: TextDocument): void {
    if (view === this.restoring) return;
    const { scrollTop: top, scrollLeft: left } = view.scrollDOM;
    this.known.set(document, { top, left });
  }

  restore(view: EditorView, document: TextDocument): void {
    const place = this.known.get(document);
    if (!place) return;
    this.restoring = view;
    view.requestMeasure({
      read: () => undefined,
      write: () => {
        this.restoring = null;
        view.scrollDOM.scrollTop = place.top;
        view.scrollDOM.scrollLeft = place.left;
        requestAnimationFrame(() => view.requestMeasure()); // what is scrolled while it measures, it may miss
      },
    });
  }
}
