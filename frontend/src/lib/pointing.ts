// What the mouse means in an editor: the line under it, the one that is pressed, a name to follow.

import type { Extension } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import type { EditorEvents } from "./editor.ts";

/** A pointer that moved farther while its button was down selects text. */
const STILL_PX = 4;

/** @param jump goes to the definition of the name at a position; false where there is none. */
export function pointing(events: EditorEvents, jump: (view: EditorView, position: number) => boolean): Extension {
  let pending: number | null = null;
  const hover = (view: EditorView, y: number): void => {
    pending ??= requestAnimationFrame(() => {
      pending = null;
      const block = view.lineBlockAtHeight(y - view.documentTop);
      events.onHover(view.state.doc.lineAt(block.from).number - 1);
    });
  };
  const choose = (view: EditorView, event: MouseEvent, position: number): void => {
    if ((event.ctrlKey || event.metaKey) && jump(view, position)) return;
    events.onLine(view.state.doc.lineAt(position).number - 1);
  };
  const at = (view: EditorView, event: MouseEvent): number =>
    view.posAtCoords({ x: event.clientX, y: event.clientY }, false);
  return EditorView.domEventHandlers({
    mousemove: (event, view) => hover(view, event.clientY),
    mouseleave: () => {
      if (pending !== null) cancelAnimationFrame(pending);
      pending = null;
      events.onHover(null);
    },
    // A notebook scrolls to the cell that is pressed: by the time of the click another line, or nothing of the editor, may be
    // under the pointer, and the text between is selected. What was pressed is meant.
    mousedown: (event, view) => {
      if (event.button !== 0 || event.detail > 1) return;
      const position = at(view, event);
      const choosePressed = (click: MouseEvent): void => {
        const way = Math.hypot(click.clientX - event.clientX, click.clientY - event.clientY);
        if (way < STILL_PX) choose(view, click, position);
      };
      view.dom.ownerDocument.addEventListener("click", choosePressed, { once: true, capture: true });
    },
    // Of no mouse, but of a program.
    click: (event, view) => {
      if (event.detail === 0) choose(view, event, at(view, event));
    },
    dblclick: (event, view) => {
      const position = view.posAtCoords({ x: event.clientX, y: event.clientY });
      if (position !== null) jump(view, position);
    },
  });
}
