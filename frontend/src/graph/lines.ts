// The lines of a graph: laid-out lines, and lines that are visible only while the pointer is on one of their ends.

import { svg } from "../lib/dom.ts";
import type { Shown } from "./shown.ts";
import { curve, head, thickness } from "./curves.ts";
import type { Layout, Place, Point } from "./layered.ts";
import type { Link } from "./levels.ts";
import { NOWHERE } from "./model.ts";

/** Lines longer than this are drawn lighter. */
const FAR = 300;

export class Lines {
  readonly edges = svg("g", { class: "insp-g-lines", "aria-hidden": "true" });
  readonly hints = svg("g", { class: "insp-g-hints", "aria-hidden": "true" });
  private drawn: { links: readonly Link[]; element: SVGElement }[] = [];

  draw({ lines }: Layout): void {
    this.drawn = lines.map(({ stretch, points }) => {
      const bytes = stretch.links.reduce((sum, link) => sum + link.bytes, 0);
      const isFar = Math.abs(points[points.length - 1]!.y - points[0]!.y) > FAR;
      const isEnd = stretch.to[0] === "n" && !stretch.enters;
      const element = svg("g", { class: isFar ? "insp-g-far" : "" }, ...parts(points, bytes, isEnd));
      return { links: stretch.links, element };
    });
    this.edges.replaceChildren(...this.drawn.map(({ element }) => element));
  }

  /** Highlights the lines of a node, including hidden ones; no lines for NOWHERE. */
  light(node: number, { folding, scene, layout }: Shown): void {
    const { model } = folding;
    const isOf = ({ from, to }: Link): boolean =>
      from === node || to === node || (folding.isOpen(node) && model.isWithin(from, node) !== model.isWithin(to, node));
    for (const { links, element } of this.drawn)
      element.classList.toggle("insp-g-lit", node !== NOWHERE && links.some(isOf));
    const hidden = node === NOWHERE ? [] : scene.hidden.filter(isOf);
    this.hints.replaceChildren(
      ...hidden.map(({ from, to, bytes }) => {
        const points = between(layout.places.get(from)!, layout.places.get(to)!);
        return svg("g", {}, ...parts(points, bytes, true));
      }),
    );
  }
}

function parts(points: readonly Point[], bytes: number, hasHead: boolean): (SVGElement | false)[] {
  return [
    svg("path", { class: "insp-g-line", d: curve(points), "stroke-width": thickness(bytes).toFixed(2) }),
    hasHead && svg("path", { class: "insp-g-head", d: head(points) }),
  ];
}

/** Returns a straight line between nodes, for links that are not laid out. */
function between(from: Place, to: Place): Point[] {
  const [start, end] = [
    { x: from.x + from.width / 2, y: from.y + from.height },
    { x: to.x + to.width / 2, y: to.y },
  ];
  return [start, end];
}
