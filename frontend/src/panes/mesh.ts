// A drawing of the groups of one collective on its mesh.

import { axesText, groupsOver, parseAxes } from "../lib/axisenv.ts";
import { Switcher } from "../lib/controls.ts";
import { fill, h, svg } from "../lib/dom.ts";
import { grouped } from "../lib/format.ts";
import { type Cell, type Grid, gridOf, pairsText, rowMesh } from "../lib/meshgrid.ts";
import type * as messages from "../messages.ts";

export const COLORS = 8;
const GAP = 10;
const MAX_DRAWN = 4096;
/** Smallest size in pixels of a cell that shows its id. */
const NAMED = 22;

type Names = readonly string[];

/** Returns the drawing and, beside it, `about` with the values of the device under the pointer. */
export function meshDrawing(
  row: messages.CollectiveMessage,
  given: messages.MeshMessage | null,
  about: HTMLElement[],
): HTMLElement[] {
  const mesh = given ?? rowMesh(row.members.length ? row.members.map((m) => idOf(m, null)) : row.groups.flat());
  const size = mesh.axis_sizes.reduce((a, b) => a * b, 1);
  const isDrawn = size > 0 && size <= MAX_DRAWN && !row.groups_cut;
  const isEdited = given?.kind === "replica" && row.axes !== null && !row.is_pairs;
  const many = size > MAX_DRAWN ? `${grouped(size)} devices are` : "The ids of the groups are";
  const none = size ? `${many} too many to draw; the first groups are in the table.` : "No devices to draw.";
  if (!isDrawn) return [h("div", { class: "insp-about" }, ...about, h("div", { class: "insp-dim" }, none))];
  const { element, detail } = new Drawing(row, mesh, given !== null);
  if (!isEdited) return [element, h("div", { class: "insp-about" }, ...about, detail)];
  const shown = h("div", { class: "insp-mesh-edited" }, element);
  const beside = h("div", {}, detail);
  return [
    h("div", { class: "insp-mesh-editor" }, axesField(row, mesh, shown, beside), shown),
    h("div", { class: "insp-about" }, ...about, beside),
  ];
}

/** A field for other axis sizes and orders. The groups update while typing, because nothing has to be compiled. */
function axesField(
  row: messages.CollectiveMessage,
  mesh: messages.MeshMessage,
  shown: HTMLElement,
  beside: HTMLElement,
): HTMLElement {
  const said = h("div", { class: "insp-dim", role: "status" });
  const own = axesText(mesh);
  const field = h("input", { type: "text", value: own, spellcheck: false, "aria-label": "Other axis environment" });
  field.addEventListener("input", () => {
    const found = otherAxes(row, field.value);
    const isWrong = typeof found === "string";
    field.setAttribute("aria-invalid", String(isWrong));
    const isOwn = !isWrong && axesText(found.mesh) === own;
    fill(
      said,
      isWrong ? found : isOwn ? "" : `Groups for ${axesText(found.mesh)}. The program is compiled for ${own}.`,
    );
    if (isWrong) return;
    const { element, detail } = isOwn ? new Drawing(row, mesh, true) : new Drawing(found.row, found.mesh, true);
    fill(shown, element);
    fill(beside, detail);
  });
  return h("div", { class: "insp-mesh-field" }, h("label", { class: "insp-field" }, "axis_env", field), said);
}

/** Returns a collective in another axis environment, or the reason why that is impossible. */
function otherAxes(
  row: messages.CollectiveMessage,
  text: string,
): { row: messages.CollectiveMessage; mesh: messages.MeshMessage } | string {
  const mesh = parseAxes(text);
  if (typeof mesh === "string") return mesh;
  const lacking = row.axes!.filter((axis) => !mesh.axis_names.includes(axis));
  if (lacking.length)
    return `Missing ${lacking.length > 1 ? "axes" : "axis"} ${lacking.join(", ")}: the collective uses ${lacking.length > 1 ? "them" : "it"}.`;
  return { row: { ...row, groups: groupsOver(mesh, row.axes!), members: [] }, mesh };
}

/** Returns a group's label: A to Z, then AA, AB and so on. */
export function groupLabel(group: number): string {
  const rest = Math.floor(group / 26);
  return `${rest ? groupLabel(rest - 1) : ""}${String.fromCharCode(65 + (group % 26))}`;
}

class Drawing {
  readonly element: HTMLElement;
  private readonly grid: Grid;
  private readonly cellSize: number;
  private readonly members: Map<number, messages.Member[]>;
  private readonly groups: Map<number, number>;
  private readonly shapes = new Map<number, SVGGElement>();
  /** Overlay for cells that are too small for text and drawn together: the group and the cell under the pointer. */
  private readonly over = svg("g", { class: "insp-cell-over" });
  readonly detail = h("div", { class: "insp-member", "aria-live": "polite" });
  private current = -1;

  constructor(
    private readonly row: messages.CollectiveMessage,
    private readonly mesh: messages.MeshMessage,
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
    if (!this.hasAxes) return h("div", { class: "insp-mesh-axes insp-dim" }, "No mesh: logical ids in a row");
    const used = new Set(this.row.axes ?? []);
    const arrows = [" →", " ↓"];
    const words = names.map((name, i) =>
      h(
        "span",
        { class: used.has(name) ? "insp-axis-used" : "insp-axis" },
        `${name}=${sizes[i]}${arrows[names.length - 1 - i] ?? ""}`,
      ),
    );
    const shown = this.mesh.physical_ids && this.cellSize >= NAMED ? this.idSwitcher(this.mesh.physical_ids) : null;
    return h("div", { class: "insp-mesh-axes" }, h("span", { class: "insp-dim" }, `${kind} mesh`), ...words, shown);
  }

  /** Switches between logical ids, as used in the groups, and the ids of the devices. */
  private idSwitcher(physical: readonly number[]): HTMLElement {
    const choices = [
      { value: false, text: `${this.mesh.kind} ids` },
      { value: true, text: "device ids", title: "Device ids, in the order of the mesh or device_assignment" },
    ];
    const switcher = new Switcher("Displayed ids", choices, false, () => {
      for (const [index, shape] of this.shapes) {
        const { id } = this.grid.cells[index]!;
        shape.querySelector("text")!.textContent = String(switcher.value ? physical[id] : id);
      }
    });
    return switcher.element;
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
      "aria-label": "Replica groups on the mesh. Arrow keys move between devices",
    });
    if (this.cellSize < NAMED) this.drawTogether(drawing);
    else for (const cell of grid.cells) drawing.append(this.cell(cell));
    if (this.row.is_pairs) drawing.append(...this.arrows());
    drawing.addEventListener("mouseleave", () => this.show(-1));
    drawing.addEventListener("keydown", (e) => this.key(e));
    return drawing;
  }

  /** Draws cells of one appearance as one shape: styling thousands of elements is too slow while the user types. */
  private drawTogether(drawing: SVGSVGElement): void {
    const alike = new Map<string, Cell[]>();
    for (const cell of this.grid.cells) {
      const group = this.groups.get(cell.id);
      const key = `${cellClass(group)}|${cellStyle(group)}`;
      const cells = alike.get(key);
      if (cells) cells.push(cell);
      else alike.set(key, [cell]);
    }
    for (const [key, cells] of alike) {
      const [name, style] = key.split("|");
      drawing.append(svg("g", { class: name, style }, svg("path", { d: this.outline(cells) })));
    }
    drawing.append(this.over);
    drawing.addEventListener("mousemove", (e) => {
      const box = drawing.getBoundingClientRect();
      const scale = drawing.viewBox.baseVal.width / box.width;
      const [x, y] = [(e.clientX - box.left) * scale, (e.clientY - box.top) * scale];
      const isAt = (cell: Cell): boolean => x >= this.x(cell) && x < this.x(cell) + this.cellSize;
      const found = this.grid.cells.find((cell) => isAt(cell) && y >= this.y(cell) && y < this.y(cell) + this.cellSize);
      if ((found?.index ?? -1) !== this.current) this.show(found?.index ?? -1);
    });
  }

  private outline(cells: readonly Cell[]): string {
    const side = this.cellSize - 2;
    return cells.map((cell) => `M${this.x(cell) + 0.5} ${this.y(cell) + 0.5}h${side}v${side}h${-side}z`).join("");
  }

  private showTogether(cell: Cell | undefined): void {
    const group = cell && this.groups.get(cell.id);
    const same = group === undefined ? [] : this.grid.cells.filter(({ id }) => this.groups.get(id) === group);
    this.over.parentElement?.classList.toggle("insp-mesh-dimmed", group !== undefined && !this.row.is_pairs);
    fill(
      this.over,
      svg("g", { class: cellClass(group), style: cellStyle(group) }, svg("path", { d: this.outline(same) })),
      cell &&
        svg("g", { class: "insp-cell insp-cell-current" }, svg("path", { d: this.outline([cell]), fill: "none" })),
    );
  }

  private cell(cell: Cell): SVGGElement {
    const group = this.groups.get(cell.id);
    const size = this.cellSize;
    const shape = svg(
      "g",
      { class: cellClass(group), style: cellStyle(group), transform: `translate(${this.x(cell)} ${this.y(cell)})` },
      svg("rect", { x: 0.5, y: 0.5, width: size - 2, height: size - 2, rx: 3 }),
      svg("text", { x: size / 2 - 0.5, y: size / 2 + (size >= 34 ? 0 : 3.5) }, String(cell.id)),
      size >= 34 && group !== undefined && !this.row.is_pairs
        ? svg("text", { class: "insp-cell-group", x: size / 2 - 0.5, y: size - 6 }, groupLabel(group))
        : null,
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
    // Curved to the left, so that the arrows of both directions can be told apart.
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
    if (this.cellSize < NAMED) this.showTogether(cell);
    for (const [i, shape] of this.shapes) {
      const other = this.groups.get(this.grid.cells[i]!.id);
      shape.classList.toggle("insp-cell-dimmed", group !== undefined && other !== group && !this.row.is_pairs);
      shape.classList.toggle("insp-cell-current", i === index);
    }
    if (!cell)
      return fill(
        this.detail,
        h("span", { class: "insp-dim" }, "Point at a device to see its values before and after."),
      );
    fill(this.detail, ...this.describe(cell));
  }

  private describe(cell: Cell): HTMLElement[] {
    const at = this.hasAxes ? ` (${coordinateText(this.mesh.axis_names, cell.coordinates)})` : "";
    const physical = this.mesh.physical_ids?.[cell.id];
    const place = physical === undefined ? at : `${at} on device ${physical}`;
    const group = this.row.is_pairs ? undefined : this.groups.get(cell.id);
    const label = group === undefined ? "" : ` in group ${group} (${groupLabel(group)})`;
    const title = h(
      "div",
      {},
      h("strong", {}, `${this.hasAxes ? this.mesh.kind : "logical id"} ${cell.id}`),
      place,
      label,
    );
    const members = this.members.get(cell.id) ?? [];
    const pairs = this.row.is_pairs ? [h("div", { class: "insp-dim" }, pairsText(this.row.groups, cell.id))] : [];
    if (!members.length && !pairs.length)
      return [
        title,
        h("div", { class: "insp-dim" }, this.groups.has(cell.id) ? this.together(cell.id) : "not in any group"),
      ];
    return [title, ...pairs, ...members.flatMap((m) => this.describeMember(m))];
  }

  private describeMember(member: messages.Member): HTMLElement[] {
    const line = (name: string, value: string): HTMLElement =>
      h("div", { class: "insp-member-line" }, h("span", { class: "insp-dim" }, name), h("code", {}, value || "–"));
    const held = [line("before", member.before), line("after", member.after)];
    if (member.group === null) return held;
    const ids = `replica ${member.replica}, partition ${member.partition}, logical id ${member.logical_id}`;
    const place = `position ${member.position} of group ${member.group}: ${ids}`;
    return [h("div", { class: "insp-dim" }, place), ...held];
  }

  private together(id: number): string {
    const group = this.row.groups[this.groups.get(id)!] ?? [];
    const some = group.slice(0, 16).join(", ");
    return `exchanges with ${some}${group.length > 16 ? `, … (${group.length} in total)` : ""}`;
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

  /** Returns the group of each id, from the members if there are any, else from the groups. Pairs share group 0. */
  private indexGroups(): Map<number, number> {
    const found = new Map<number, number>();
    for (const [id, members] of this.members) if (members[0]!.group !== null) found.set(id, members[0]!.group);
    const { groups, is_pairs: isPairs } = this.row;
    if (!found.size) groups.forEach((ids, group) => ids.forEach((id) => found.set(id, isPairs ? 0 : group)));
    return found;
  }
}

function cellStyle(group: number | undefined): string {
  return group === undefined ? "" : `--group:var(--insp-group-${group % COLORS})`;
}

/** Returns the class of a cell. Colors repeat; every second repetition has a dashed edge. */
function cellClass(group: number | undefined): string {
  if (group === undefined) return "insp-cell insp-cell-out";
  return Math.floor(group / COLORS) % 2 ? "insp-cell insp-cell-again" : "insp-cell";
}

function idOf(member: messages.Member, kind: messages.MeshMessage["kind"] | null): number {
  return kind === null ? member.logical_id : member[kind];
}

function coordinateText(names: Names, coordinates: readonly number[]): string {
  return names.map((name, i) => `${name}=${coordinates[i]}`).join(", ");
}
