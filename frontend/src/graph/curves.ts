// Lines of a layout as SVG paths.

import type { Point } from "./layered.ts";

const HEAD = 5;

/** Returns a curve through points that is vertical at each of them. */
export function curve(points: readonly Point[]): string {
  let path = `M${at(points[0]!)}`;
  for (let i = 1; i < points.length; i++) {
    const [from, to] = [points[i - 1]!, points[i]!];
    const middle = (from.y + to.y) / 2;
    path += from.x === to.x ? `L${at(to)}` : `C${at({ x: from.x, y: middle })} ${at({ x: to.x, y: middle })} ${at(to)}`;
  }
  return path;
}

/** Returns the arrow head at the end of a line, pointing up or down. */
export function head(points: readonly Point[]): string {
  const [from, to] = [points[points.length - 2]!, points[points.length - 1]!];
  const back = to.y < from.y ? HEAD : -HEAD;
  return `M${at(to)}l${-HEAD / 2},${back}h${HEAD}Z`;
}

/** Returns the width of a line in pixels, which grows with the logarithm of the bytes. */
export function thickness(bytes: number): number {
  return Math.min(6, 0.9 + 0.55 * Math.max(0, Math.log10(Math.max(1, bytes)) - 3));
}

const at = ({ x, y }: Point): string => `${x.toFixed(1)},${y.toFixed(1)}`;
