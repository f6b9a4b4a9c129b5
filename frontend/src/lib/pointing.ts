// Mouse handling in an editor: hovering and clicking lines, and jumps to definitions.

import type { Extension } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import type { EditorEvents } from "./editorevents.ts";

/** Largest movement in pixels of a click. Longer movements select text. */
const STILL_PX = 4;

/** @param jump goes to the definition of the name at a position; returns false if there is none. */
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
    // A notebook scrolls to the pressed cell. At the time of the click, the pointer may be on another line or outside
    // of the editor. The line that was pressed is the one that counts.
    mousedown: (event, view) => {
      if (event.button !== 0 || event.detail > 1) return;
      const position = at(view, event);
      const choosePressed = (click: MouseEvent): void => {
        const distance = Math.hypot(click.clientX - event.clientX, click.clientY - event.clientY);
        if (distance < STILL_PX) choose(view, click, position);
      };
      view.dom.ownerDocument.addEventListener("click", choosePressed, { once: true, capture: true });
    },
    // Clicks from scripts, without a mouse.
    click: (event, view) => {
      if (event.detail === 0) choose(view, event, at(view, event));
    },
    dblclick: (event, view) => {
      const position = view.posAtCoords({ x: event.clientX, y: event.clientY });
      if (position !== null) jump(view, position);
    },
  });
}
