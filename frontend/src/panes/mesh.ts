// The groups of one collective, drawn on its mesh.

import { fill, h, svg } from "../lib/dom.ts";
import { grouped } from "../lib/format.ts";
import { type Cell, type Grid, gridOf, pairsText, rowMesh } from "../lib/meshgrid.ts";
import type * as messages from "../messages.ts";

const COLORS = 8;
const GAP = 10;
const MAX_DRAWN = 4096;

type Names = readonly string[];

/** The drawing and, beside it, `about` with what the device under the pointer holds. */
export function meshDrawing(
  row: messages.Collective,
  given: messages.Mesh | null,
  about: HTMLElement[],
): HTMLElement[] {
  const mesh = given ?? rowMesh(row.members.length ? row.members.map((m) => idOf(m, null)) : row.groups.flat());
  const size = mesh.axis_sizes.reduce((a, b) => a * b, 1);
  const isDrawn = size > 0 && size <= MAX_DRAWN && !row.groups_cut;
  const many = size > MAX_DRAWN ? `${grouped(size)} devices are` : "The ids of the groups are";
  const none = size ? `${many} too many to draw; the first groups are in the table.` : "No devices to draw.";
  if (!isDrawn) return [h("div", { class: "insp-about" }, ...about, h("div", { class: "insp-dim" }, none))];
  const { element, detail } = new Drawing(row, mesh, given !== null);
  return [element, h("div", { class: "insp-about" }, ...about, detail)];
}

class Drawing {
  readonly element: HTMLElement;
  private readonly grid: Grid;
  private readonly cellSize: number;
  private readonly members: Map<number, messages.Member[]>;
  private readonly groups: Map<number, number>;
  private readonly shapes = new Map<number, SVGGElement>();
  readonly detail = h("div", { class: "insp-member", "aria-live": "polite" });
  private current = -1;

  constructor(
    private readonly row: messages.Collective,
    private readonly mesh: messages.Mesh,
    private readonly hasAxes: boolean,
  ) {
    this.grid = gridOf(mesh);
    this.cellSize = this.grid.columns > 24 ? 14 : this.grid.columns > 12 ? 22 : 34;
    this.members = this.indexMembers();
    this.groups = this.indexGroups();
    this.element = h("div", { class: "insp-mesh" }, this.axes(), this.draw());
    this.show(-1);
  }

  private axes(): HTMLElement {
    const { axis_names: names, axis_sizes: sizes, kind } = this.mesh;
    if (!this.hasAxes) return h("div", { class: "insp-mesh-axes insp-dim" }, "no mesh: logical ids in a row");
    const used = new Set(this.row.axes ?? []);
    const arrows = [" →", " ↓"];
    const words = names.map((name, i) =>
      h(
        "span",
        { class: used.has(name) ? "insp-axis-used" : "insp-axis" },
        `${name}=${sizes[i]}${arrows[names.length - 1 - i] ?? ""}`,
      ),
    );
    return h("div", { class: "insp-mesh-axes" }, h("span", { class: "insp-dim" }, `${kind} mesh`), ...words);
  }

  private draw(): SVGSVGElement {
    const { grid } = this;
    const width =
      this.x({ column: grid.columns - 1, panel: Math.min(grid.panelsAcross, grid.panelCount) - 1 }) + this.cellSize + 1;
    const last = grid.cells[grid.cells.length - 1]!;
    const height = this.y(last) + this.cellSize + 1;
    const drawing = svg("svg", {
      class: "insp-mesh-svg",
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      tabindex: 0,
      role: "img",
      "aria-label": "Replica groups on the mesh; arrow keys move between devices",
    });
    for (const cell of grid.cells) drawing.append(this.cell(cell));
    if (this.row.is_pairs) drawing.append(...this.arrows());
    drawing.addEventListener("mouseleave", () => this.show(-1));
    drawing.addEventListener("keydown", (e) => this.key(e));
    return drawing;
  }

  private cell(cell: Cell): SVGGElement {
    const group = this.groups.get(cell.id);
    const color = group === undefined ? "" : `--group:var(--insp-group-${group % COLORS})`;
    const size = this.cellSize;
    const label = size >= 22 ? String(cell.id) : "";
    const shape = svg(
      "g",
      { class: cellClass(group), style: color, transform: `translate(${this.x(cell)} ${this.y(cell)})` },
      svg("rect", { x: 0.5, y: 0.5, width: size - 2, height: size - 2, rx: 3 }),
      label ? svg("text", { x: size / 2 - 0.5, y: size / 2 + 3.5 }, label) : null,
    );
    shape.addEventListener("mouseenter", () => this.show(cell.index));
    this.shapes.set(cell.index, shape);
    return shape;
  }

  private arrows(): SVGElement[] {
    const byId = new Map(this.grid.cells.map((c) => [c.id, c]));
    return this.row.groups.flatMap(([source, target]) => {
      const a = byId.get(source ?? -1);
      const b = byId.get(target ?? -1);
      return a && b && a !== b ? [this.arrow(a, b)] : [];
    });
  }

  private arrow(a: Cell, b: Cell): SVGElement {
    const half = this.cellSize / 2;
    const [x0, y0, x1, y1] = [this.x(a) + half, this.y(a) + half, this.x(b) + half, this.y(b) + half];
    const length = Math.hypot(x1 - x0, y1 - y0);
    // Bent to the left of its direction, so that there and back are two arrows.
    const bend = Math.min(14, length * 0.18);
    const [nx, ny] = [(y1 - y0) / length, -(x1 - x0) / length];
    const [cx, cy] = [(x0 + x1) / 2 + nx * bend, (y0 + y1) / 2 + ny * bend];
    const angle = Math.atan2(y1 - cy, x1 - cx);
    const stop = half * 0.55;
    const [tx, ty] = [x1 - Math.cos(angle) * stop, y1 - Math.sin(angle) * stop];
    const barb = (turn: number): string => `${tx - 5 * Math.cos(angle + turn)} ${ty - 5 * Math.sin(angle + turn)}`;
    return svg("path", {
      class: "insp-arrow",
      d: `M${x0} ${y0}Q${cx} ${cy} ${tx} ${ty}M${barb(0.5)}L${tx} ${ty}L${barb(-0.5)}`,
    });
  }

  private show(index: number): void {
    this.current = index;
    const cell = this.grid.cells[index];
    const group = cell && this.groups.get(cell.id);
    for (const [i, shape] of this.shapes) {
      const other = this.groups.get(this.grid.cells[i]!.id);
      shape.classList.toggle("insp-cell-dimmed", group !== undefined && other !== group && !this.row.is_pairs);
      shape.classList.toggle("insp-cell-current", i === index);
    }
    if (!cell)
      return fill(
        this.detail,
        h("span", { class: "insp-dim" }, "Point at a device to see what it holds before and after."),
      );
    fill(this.detail, ...this.describe(cell));
  }

  private describe(cell: Cell): HTMLElement[] {
    const place = this.hasAxes ? ` (${coordinateText(this.mesh.axis_names, cell.coordinates)})` : "";
    const title = h("div", {}, h("strong", {}, `${this.hasAxes ? this.mesh.kind : "logical id"} ${cell.id}`), place);
    const members = this.members.get(cell.id) ?? [];
    const pairs = this.row.is_pairs ? [h("div", { class: "insp-dim" }, pairsText(this.row.groups, cell.id))] : [];
    if (!members.length && !pairs.length)
      return [title, h("div", { class: "insp-dim" }, this.groups.has(cell.id) ? "" : "takes no part")];
    return [title, ...pairs, ...members.flatMap((m) => this.describeMember(m))];
  }

  private describeMember(member: messages.Member): HTMLElement[] {
    const line = (name: string, value: string): HTMLElement =>
      h("div", { class: "insp-member-line" }, h("span", { class: "insp-dim" }, name), h("code", {}, value || "–"));
    const held = [line("before", member.before), line("after", member.after)];
    if (member.group === null) return held;
    return [h("div", { class: "insp-dim" }, `group ${member.group}, position ${member.position}`), ...held];
  }

  private key(e: KeyboardEvent): void {
    const steps: Record<string, number> = {
      ArrowLeft: -1,
      ArrowRight: 1,
      ArrowUp: -this.grid.panelColumns,
      ArrowDown: this.grid.panelColumns,
    };
    const step = steps[e.key];
    if (step === undefined) return;
    e.preventDefault();
    const next = this.current < 0 ? 0 : this.current + step;
    if (next >= 0 && next < this.grid.cells.length) this.show(next);
  }

  private x(cell: { column: number; panel: number }): number {
    return cell.column * this.cellSize + (cell.panel % this.grid.panelsAcross) * GAP;
  }

  private y(cell: { row: number; panel: number }): number {
    return cell.row * this.cellSize + Math.floor(cell.panel / this.grid.panelsAcross) * GAP;
  }

  private indexMembers(): Map<number, messages.Member[]> {
    const found = new Map<number, messages.Member[]>();
    for (const member of this.row.members) {
      const id = idOf(member, this.hasAxes ? this.mesh.kind : null);
      found.set(id, [...(found.get(id) ?? []), member]);
    }
    return found;
  }

  /** The group of each id: from the members where there are any, else from the groups' own ids; pairs share one. */
  private indexGroups(): Map<number, number> {
    const found = new Map<number, number>();
    for (const [id, members] of this.members) if (members[0]!.group !== null) found.set(id, members[0]!.group);
    const { groups, is_pairs: isPairs } = this.row;
    if (!found.size) groups.forEach((ids, group) => ids.forEach((id) => found.set(id, isPairs ? 0 : group)));
    return found;
  }
}

/** Colours come round again: every other round has a dashed edge. */
function cellClass(group: number | undefined): string {
  if (group === undefined) return "insp-cell insp-cell-out";
  return Math.floor(group / COLORS) % 2 ? "insp-cell insp-cell-again" : "insp-cell";
}

function idOf(member: messages.Member, kind: messages.Mesh["kind"] | null): number {
  return kind === null ? member.logical_id : member[kind];
}

function coordinateText(names: Names, coordinates: readonly number[]): string {
  return names.map((name, i) => `${name}=${coordinates[i]}`).join(", ");
}
