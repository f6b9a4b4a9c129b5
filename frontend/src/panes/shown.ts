// The editors on screen.

import type { EditorView } from "@codemirror/view";
import type { TextDocument } from "../lib/documents.ts";

/** An editor on screen with the document that it shows. */
export interface Shown {
  readonly view: EditorView;
  readonly document: TextDocument;
}
