// Scroll positions of texts, restored when a text is shown again or when the notebook puts the cell back on the page.

import type { EditorView } from "@codemirror/view";
import type { TextDocument } from "../lib/documents.ts";

interface Place {
  readonly top: number;
  readonly left: number;
}

export class ScrollPlaces {
  private readonly known = new WeakMap<TextDocument, Place>();
  /** The editor whose position is not restored yet. It is at the top until then. */
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
    // A text that only left the page still has the lines of its last position, so nothing is drawn again.
    if (view.scrollDOM.scrollHeight >= place.top + view.scrollDOM.clientHeight && view.scrollDOM.clientHeight) {
      view.scrollDOM.scrollTop = place.top;
      view.scrollDOM.scrollLeft = place.left;
    }
    this.restoring = view;
    view.requestMeasure({
      read: () => undefined,
      write: () => {
        this.restoring = null;
        view.scrollDOM.scrollTop = place.top;
        view.scrollDOM.scrollLeft = place.left;
        requestAnimationFrame(() => view.requestMeasure()); // it may miss scrolling while measuring
      },
    });
  }
}
