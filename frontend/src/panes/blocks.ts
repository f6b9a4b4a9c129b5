// A drawing of one operand of a Pallas kernel: the array as a rectangle, with the block of the current grid step.

import { fill, h, svg } from "../lib/dom.ts";
import { format, grouped } from "../lib/format.ts";
import { blocksInPlane, isCopied, planeOf, type Size, sizeOf, visitedBlocks } from "../lib/grid.ts";
import type * as messages from "../messages.ts";

const LONGEST_PX = 168;
const THINNEST_PX = 14;
const MARGIN = 3;

export class BlockDrawing {
  readonly element: HTMLElement;
  private readonly picture = h("div", { class: "insp-blocks-picture" });
  private readonly place = h("div", { class: "insp-dim insp-blocks-place" });
  private readonly size: Size;
  private readonly marks: { revisited: Set<number>; overlapping: Set<number> };
  private shapes = new Map<number, SVGElement>();
  private plane = "";

  constructor(private readonly operand: messages.KernelOperand) {
    this.size = sizeOf(planeOf(operand.shape), LONGEST_PX, THINNEST_PX);
    this.marks = { revisited: new Set(operand.revisited), overlapping: new Set(operand.overlapping) };
    this.element = h(
      "figure",
      { class: `insp-blocks insp-blocks-${operand.role}` },
      h(
        "figcaption",
        { title: `${operand.role} in ${operand.memory_space} memory\n${operand.index_map}` },
        h("strong", {}, operand.name),
        h("span", { class: "insp-dim" }, ` ${operand.role}`),
        h("div", { class: "insp-blocks-shape" }, `${operand.dtype}[${operand.shape.join(", ")}]`),
        h("div", { class: "insp-dim" }, `block (${operand.block}) · ${format(operand.block_bytes, "bytes")}`),
      ),
      this.picture,
      this.place,
      h("div", { class: "insp-dim" }, this.totals()),
    );
    if (operand.reason)
      fill(this.picture, h("div", { class: "insp-unavailable" }, `Blocks unavailable: ${operand.reason}`));
  }

  /** Highlights the block of a step and the blocks visited before it. */
  show(step: number): void {
    const { operand } = this;
    const block = operand.steps[step];
    if (block === undefined) return;
    this.draw(block);
    const seen = visitedBlocks(operand, step);
    for (const [index, shape] of this.shapes) {
      shape.classList.toggle("insp-block-seen", seen.has(index));
      shape.classList.toggle("insp-block-current", index === block);
    }
    const current = this.shapes.get(block);
    current?.parentNode?.append(current); // drawn above the blocks that it overlaps
    fill(this.place, `at (${operand.starts[block]!.join(", ")})${this.event(step)}`);
  }

  private event(step: number): string {
    if (this.operand.copies === null) return "";
    if (this.operand.role === "output") return isCopied(this.operand, step) ? " · new block" : " · same block";
    return isCopied(this.operand, step) ? " · fetched" : " · reused";
  }

  private totals(): string {
    const { copies, copied_bytes: bytes, starts } = this.operand;
    if (copies === null || bytes === null) return this.operand.reason ? "" : "not copied by the pipeline";
    return `${grouped(copies)} copies of ${grouped(starts.length)} blocks: ${format(bytes, "bytes")}`;
  }

  /** Draws the blocks of the plane that contains `block`. Does nothing if that plane is already drawn. */
  private draw(block: number): void {
    const { operand, size } = this;
    const plane = operand.starts[block]!.slice(0, Math.max(0, operand.shape.length - 2)).join(",");
    if (this.shapes.size && plane === this.plane) return;
    this.plane = plane;
    this.shapes = new Map(blocksInPlane(operand, block).map((index) => [index, this.shape(index)]));
    const [width, height] = [size.width + 2 * MARGIN, size.height + 2 * MARGIN];
    const picture = svg(
      "svg",
      {
        class: "insp-blocks-svg",
        viewBox: `${-MARGIN} ${-MARGIN} ${width} ${height}`,
        width,
        height,
        role: "img",
        "aria-label": `${operand.name}: array, blocks and current block`,
      },
      ...this.shapes.values(),
      svg("rect", { class: "insp-array", x: 0, y: 0, width: size.width, height: size.height }),
    );
    const label = plane && h("div", { class: "insp-dim" }, `plane [${plane}, :, :]`);
    fill(this.picture, picture, label);
  }

  private shape(index: number): SVGElement {
    const { operand, size } = this;
    const { rows, columns } = planeOf(operand.shape);
    const { rows: down, columns: across } = planeOf(operand.block_shape);
    const start = operand.starts[index]!;
    const [row, column] = [start[start.length - 2] ?? 0, start[start.length - 1] ?? 0];
    const names = ["insp-block"];
    if (this.marks.revisited.has(index)) names.push("insp-block-revisited");
    if (this.marks.overlapping.has(index)) names.push("insp-block-overlapping");
    return svg("rect", {
      class: names.join(" "),
      x: (column / columns) * size.width,
      y: (row / rows) * size.height,
      width: (across / columns) * size.width,
      height: (down / rows) * size.height,
    });
  }
}
