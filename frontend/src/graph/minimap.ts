// A small picture of the whole layout beside the canvas, with a frame around the visible part. Hidden if all is visible.

import { drag, h, svg, update } from "../lib/dom.ts";
import type { GraphCanvas } from "./canvas.ts";
import type { Point } from "./layered.ts";
import type { Shown } from "./shown.ts";

const WIDTH = 150;
const HEIGHT = 110;

export class Minimap {
  private readonly frame = svg("rect", { class: "insp-g-seen" });
  private readonly nodes = svg("g", {});
  private readonly picture = svg("svg", {}, this.nodes, this.frame);
  readonly element = h(
    "div",
    { class: "insp-g-map", "aria-hidden": "true", title: "Overview; drag to move" },
    this.picture,
  );
  private scale = 1;
  private size = { width: 0, height: 0 };

  constructor(private readonly canvas: GraphCanvas) {
    drag(this.element, (down) => {
      canvas.lookAt(this.pointOf(down));
      return (e) => canvas.lookAt(this.pointOf(e));
    });
  }

  show({ folding, scene, layout }: Shown): void {
    const { width, height } = (this.size = layout.size);
    this.scale = Math.min(WIDTH / width, HEIGHT / height);
    update(this.picture, {
      width: (width * this.scale).toFixed(0),
      height: (height * this.scale).toFixed(0),
      viewBox: `0 0 ${width} ${height}`,
    });
    this.nodes.replaceChildren(
      ...scene.shown.map((node) => {
        const { x, y, width, height } = layout.places.get(node)!;
        return svg("rect", { x, y, width, height, class: folding.isOpen(node) ? "insp-g-open" : "" });
      }),
    );
    this.move();
  }

  /** Moves the frame after the visible part has changed. */
  move(): void {
    const { x, y, width, height } = this.canvas.seen();
    update(this.frame, { x: String(x), y: String(y), width: String(width), height: String(height) });
    const isWhole = x < 1 && y < 1 && x + width > this.size.width - 1 && y + height > this.size.height - 1;
    if (isWhole === this.element.hidden) return;
    this.element.hidden = isWhole;
    this.canvas.resize();
  }

  private pointOf(e: PointerEvent): Point {
    const box = this.picture.getBoundingClientRect();
    return { x: (e.clientX - box.left) / this.scale, y: (e.clientY - box.top) / this.scale };
  }
}
