// Expansion of folds and of collapsed unchanged stretches that hide a position.

import { foldedRanges, unfoldEffect } from "@codemirror/language";
import { getChunks, mergeViewSiblings, uncollapseUnchanged } from "@codemirror/merge";
import type { StateEffect } from "@codemirror/state";
import type { EditorView } from "@codemirror/view";

/** Returns whether a line, from 0, is visible and not inside a fold or a collapsed stretch. */
export function isDrawn(view: EditorView, line: number): boolean {
  const { from, to } = view.state.doc.line(line + 1);
  const block = view.lineBlockAt(from);
  return block.from === from && (block.to === to || getChunks(view.state) === null);
}

export function expandAt(view: EditorView, position: number): void {
  const folds: StateEffect<unknown>[] = [];
  foldedRanges(view.state).between(position, position, (from, to) => {
    if (from < position) folds.push(unfoldEffect.of({ from, to }));
  });
  if (folds.length) view.dispatch({ effects: folds });
  if (getChunks(view.state)) uncollapse(view, view.lineBlockAt(position).from);
}

/** Expands the unchanged stretch that begins at `from`, if there is one, on both sides. */
function uncollapse(view: EditorView, from: number): void {
  view.dispatch({ effects: uncollapseUnchanged.of(from) });
  const pair = mergeViewSiblings(view);
  if (!pair) return;
  const other = pair.a === view ? pair.b : pair.a;
  other.dispatch({ effects: uncollapseUnchanged.of(otherSide(view, from)) });
}

/** Returns the corresponding position in the other text: at the same distance from the last change. */
function otherSide(view: EditorView, position: number): number {
  const { chunks, side } = getChunks(view.state)!;
  let [own, other] = [0, 0];
  for (const chunk of chunks) {
    if ((side === "a" ? chunk.fromA : chunk.fromB) >= position) break;
    [own, other] = side === "a" ? [chunk.toA, chunk.toB] : [chunk.toB, chunk.toA];
  }
  return other + position - own;
}
