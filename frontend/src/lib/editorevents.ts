// The events of an editor, which its owner handles.

import type { SearchQuery } from "@codemirror/search";

/** Callbacks of an editor. Lines start at 0. */
export interface EditorEvents {
  onLine(line: number): void;
  onHover(line: number | null): void;
  onMove(delta: number): void;
  onClear(): void;
  /** Returns additional facts about a line. */
  describe?(line: number): string[];
  /** Called when the search query has changed. */
  onSearch?(query: SearchQuery): void;
}
