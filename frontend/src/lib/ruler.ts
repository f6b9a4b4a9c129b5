// The strip beside an editor that shows the positions of linked lines in the whole text.

import type { EditorView } from "@codemirror/view";
import type { Matches } from "./linking.ts";

const WIDTH = 8;
const COLORS = ["--insp-weak-line", "--insp-strong-line", "--insp-accent"];

/** Draws the strip. Lines start at 0; `chosen` is -1 for none. */
export function drawRuler(
  canvas: HTMLCanvasElement,
  view: EditorView | null,
  matches: Matches | null,
  chosen: number,
): void {
  const has = view !== null && (matches !== null || chosen >= 0);
  if (!has && canvas.height === 0) return;
  const height = canvas.clientHeight;
  const style = getComputedStyle(canvas);
  const [weak, strong, accent] = COLORS.map((name) => style.getPropertyValue(name)) as [string, string, string];
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.round(WIDTH * scale);
  canvas.height = has ? Math.round(height * scale) : 0;
  const context = has && height ? canvas.getContext("2d") : null;
  if (!context) return;
  const total = view!.state.doc.lines;
  context.scale(scale, scale);
  const tick = (line: number, color: string, thickness: number): void => {
    context.fillStyle = color;
    context.fillRect(
      1,
      Math.min(height - thickness, ((line + 0.5) / total) * height - thickness / 2),
      WIDTH - 2,
      thickness,
    );
  };
  thinned(matches?.weak, total, height, (line) => tick(line, weak, 2));
  thinned(matches?.strong, total, height, (line) => tick(line, strong, 3));
  if (chosen >= 0) tick(chosen, accent, 3);
}

/** Calls `draw` for at most one line per pixel row. */
function thinned(lines: Int32Array | undefined, total: number, height: number, draw: (line: number) => void): void {
  let lastRow = -1;
  for (const line of lines ?? []) {
    const row = Math.round((line / total) * height);
    if (row !== lastRow) draw(line);
    lastRow = row;
  }
}
