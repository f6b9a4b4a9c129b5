// A chart of live temporaries over the schedule, stacked on the memory that is allocated all the time: one curve per
// variant, with one scale. Mouse and keys select a position; with several curves, a click also selects a variant.

import { drag, fill, h, isForElement, svg, update } from "../lib/dom.ts";
import { format, grouped } from "../lib/format.ts";
import { alwaysIn, liveAt, outline, overflow, positionAt, shareOf } from "../lib/memory.ts";
import type * as messages from "../messages.ts";

const MARGIN = { left: 62, right: 10, top: 8, bottom: 20 };
/** The width of a character of the axis, at most. */
const CHARACTER_PX = 6;
const ZOOM = 1.25;
const LEAST_POSITIONS = 8;
/** Gray is the color of the memory that is allocated all the time. */
const COLORS = 7;
const DASHES = ["", "7 3", "2 2.5", "9 3 2 3", "4 4"];
/** Farthest distance in pixels between press and release of a click. */
const CLICK_PX = 4;

/** The use of a memory by one variant. */
export interface HeapCurve {
  readonly variant: number;
  readonly label: string;
  readonly room: messages.MemoryRoom;
  readonly schedule: readonly string[];
  /** The number of its color and dashes. */
  readonly style: number;
}

export class HeapChart {
  readonly element = h("div", {
    class: "insp-plot insp-heap-chart",
    tabindex: 0,
    role: "slider",
    "aria-label": "Position in the schedule",
    onkeydown: ((e: KeyboardEvent) => this.key(e)) as EventListener,
    onpointermove: ((e: PointerEvent) => this.hover(this.shareAt(e), e)) as EventListener,
    onpointerleave: () => this.hover(null),
    onclick: ((e: MouseEvent) => this.click(e)) as EventListener,
  });
  private readonly cursor = svg("rect", { class: "insp-heap-cursor", y: MARGIN.top });
  private readonly marks = svg("g");
  private readonly hovered = svg("g");
  private readonly readout = h("div", { class: "insp-heap-readout", hidden: true });
  curves: readonly HeapCurve[] = [];
  private active: HeapCurve | null = null;
  /** The selected share of the schedules; null for the peak of each. */
  private share: number | null = null;
  private view: [number, number] = [0, 1];
  private pressed: { x: number; y: number } | null = null;

  /**
   * @param moved is called when another position is selected.
   * @param picked is called when a curve is clicked, if there are several.
   */
  constructor(
    private readonly moved: () => void,
    private readonly picked: (curve: HeapCurve) => void,
  ) {
    drag(this.element, (down) => {
      this.pressed = { x: down.clientX, y: down.clientY };
      this.hover(null);
      this.point(down);
      return (move) => this.point(move);
    });
    this.element.addEventListener("wheel", (e) => this.zoom(e), { passive: false });
    this.element.addEventListener("dblclick", () => this.toPeak());
  }

  /** Shows curves. A selected position is kept as long as one of the curves is. */
  show(curves: readonly HeapCurve[], active: HeapCurve | null): void {
    if (!curves.some(({ room }) => this.curves.some((other) => other.room === room))) {
      this.share = null;
      this.view = [0, 1];
    }
    [this.curves, this.active] = [curves, active ?? curves[0] ?? null];
    this.draw();
  }

  /** Returns the selected position in the schedule of a curve. */
  at(curve: HeapCurve | null = this.active): number {
    if (!curve) return 0;
    return this.share === null ? curve.room.peak : positionAt(this.share, curve.schedule.length);
  }

  /** Whether the peak is selected; with several curves, the peak of each. */
  get isPeak(): boolean {
    return this.share === null || (this.curves.length === 1 && this.at() === this.active!.room.peak);
  }

  /** The selected position, or the share of the schedules if they differ in length. */
  get place(): string {
    return this.share === null ? "the peak" : this.placeAt(this.share);
  }

  toPeak(): void {
    this.view = [0, 1];
    this.share = null;
    this.draw();
    this.moved();
  }

  draw(): void {
    const { active } = this;
    const [width, height] = [this.element.clientWidth, this.element.clientHeight];
    this.hover(null);
    if (!active || width < 120 || height < 60) return fill(this.element);
    const { room } = active;
    const always = alwaysIn(room);
    const most = this.most;
    const right = width - MARGIN.right;
    const isCompared = this.curves.length > 1;
    const path = this.path(active);
    const others = this.curves.filter((curve) => curve !== active);
    const text = (x: number, anchor: string, at: number, words: string): SVGElement =>
      svg("text", { x, y: at, "text-anchor": anchor }, words);
    const label = (bytes: number): SVGElement =>
      text(MARGIN.left - 5, "end", this.y(bytes) + 3, format(bytes, "bytes"));
    const [first, titles, last] = this.axis();
    const free = right - MARGIN.left - (first.length + last.length + 4) * CHARACTER_PX;
    const title = titles.find(({ length }) => length * CHARACTER_PX <= free);
    fill(
      this.element,
      svg(
        "svg",
        { width, height, "aria-hidden": "true", style: styleOf(active.style) },
        svg("rect", {
          class: "insp-heap-always",
          x: MARGIN.left,
          y: this.y(always),
          width: right - MARGIN.left,
          height: height - MARGIN.bottom - this.y(always),
        }),
        path && svg("path", { class: "insp-heap-area", d: `${path}V${this.y(always)}H${MARGIN.left}Z` }),
        path && line(active, path, isCompared ? "insp-heap-line insp-heap-active" : "insp-heap-line"),
        ...others.map((curve) => line(curve, this.path(curve), "insp-heap-line")),
        ...this.capacities(),
        this.cursor,
        this.marks,
        this.hovered,
        label(most),
        always > most / 8 && always < most * 0.88 && label(always),
        text(MARGIN.left, "start", height - 6, first),
        title && text((MARGIN.left + width) / 2, "middle", height - 6, title),
        text(right, "end", height - 6, last),
      ),
      isCompared && this.readout,
    );
    this.moveCursor();
  }

  private get most(): number {
    return Math.max(1, ...this.curves.map(({ room }) => alwaysIn(room) + room.live_bytes));
  }

  private get isEqual(): boolean {
    return new Set(this.curves.map(({ schedule }) => schedule.length)).size < 2;
  }

  /** Returns the first label of the axis, its titles from the longest to the shortest, and its last label. */
  private axis(): [string, string[], string] {
    const [from, to] = this.view;
    if (this.isEqual) {
      const count = this.active!.schedule.length;
      const titles = ["Position in the schedule", "Position"];
      return [String(Math.floor(from * count)), titles, String(Math.ceil(to * count) - 1)];
    }
    const counts = this.curves.map(({ schedule }) => schedule.length);
    const range = [Math.min(...counts), Math.max(...counts)].map(grouped).join(counts.length > 2 ? " to " : " and ");
    const titles = [`Share of each schedule (${range} instructions)`, "Share of each schedule", "Share"];
    return [percent(from), titles, percent(to)];
  }

  private placeAt(share: number): string {
    if (!this.isEqual) return percent(share);
    return `position ${grouped(positionAt(share, this.active!.schedule.length))}`;
  }

  /** Returns the capacities that programs exceed. */
  private capacities(): SVGElement[] {
    const right = this.element.clientWidth - MARGIN.right;
    const names = new Map(
      this.curves.filter(({ room }) => overflow(room) > 0).map(({ room }) => [room.capacity_bytes!, room.name]),
    );
    return [...names].flatMap(([bytes, name]) => [
      svg("path", { class: "insp-heap-capacity", d: `M${MARGIN.left},${this.y(bytes)}H${right}` }),
      svg("text", { x: right - 2, y: this.y(bytes) - 3, "text-anchor": "end" }, `${name} capacity`),
    ]);
  }

  /** Returns a curve as an SVG path, with at most one step per pixel column. */
  private path({ room, schedule }: HeapCurve): string {
    if (!room.curve.length && this.curves.length === 1) return "";
    const always = alwaysIn(room);
    const count = Math.max(1, schedule.length);
    const columns = Math.max(1, this.element.clientWidth - MARGIN.left - MARGIN.right);
    const levels = outline(room.curve, this.view[0] * count, this.view[1] * count, columns);
    let path = `M${MARGIN.left},${this.y(always + levels[0]!)}`;
    levels.forEach((bytes, i) => {
      if (bytes !== levels[i + 1]) path += `V${this.y(always + bytes)}H${MARGIN.left + i + 1}`;
    });
    return path;
  }

  private x(share: number): number {
    const [from, to] = this.view;
    return MARGIN.left + ((share - from) / (to - from)) * (this.element.clientWidth - MARGIN.left - MARGIN.right);
  }

  private y(bytes: number): number {
    const { clientHeight: height } = this.element;
    return height - MARGIN.bottom - (bytes / this.most) * (height - MARGIN.top - MARGIN.bottom);
  }

  /** Returns the bytes of a curve at a share of the schedules; null for its peak. */
  private total({ room, schedule }: HeapCurve, share: number | null): number {
    return alwaysIn(room) + (share === null ? room.live_bytes : liveAt(room.curve, positionAt(share, schedule.length)));
  }

  private moveCursor(): void {
    const { share, active } = this;
    const isCompared = this.curves.length > 1;
    const count = Math.max(1, active?.schedule.length ?? 0);
    const at = this.at();
    const bytes = (curve: HeapCurve): string => format(this.total(curve, share) - alwaysIn(curve.room), "bytes");
    const valueText = isCompared
      ? `${this.place}: ${this.curves.map((curve) => `${curve.label} ${format(this.total(curve, share), "bytes")}`).join(", ")}`
      : `${active?.schedule[at] ?? ""}: ${active ? bytes(active) : ""}`;
    update(this.element, {
      "aria-valuemin": "0",
      "aria-valuemax": String(count - 1),
      "aria-valuenow": String(at),
      "aria-valuetext": valueText,
    });
    update(this.cursor, {
      x: String(this.x(at / count)),
      width: String(Math.max(1.5, this.x((at + 1) / count) - this.x(at / count))),
      height: String(Math.max(0, this.element.clientHeight - MARGIN.top - MARGIN.bottom)),
      visibility: isCompared && share === null ? "hidden" : "visible",
    });
    fill(this.marks, ...(isCompared ? this.dots(share) : []));
  }

  /** Returns a dot on every curve at a share of the schedules, or at the peak of each. */
  private dots(share: number | null): SVGElement[] {
    return this.curves.map((curve) =>
      svg("circle", {
        class: "insp-heap-dot",
        style: styleOf(curve.style),
        cx: this.x(share ?? shareOf(curve.room.peak, curve.schedule.length)),
        cy: this.y(this.total(curve, share)),
        r: 3,
      }),
    );
  }

  /** Shows the bytes of every curve at a share of the schedules, next to the pointer. */
  private hover(share: number | null, e: PointerEvent | null = null): void {
    const isShown = share !== null && e !== null && e.buttons === 0 && this.curves.length > 1;
    this.readout.hidden = !isShown;
    fill(this.hovered, ...(isShown ? this.dots(share) : []));
    if (!isShown) return;
    const { left, top, width, height } = this.element.getBoundingClientRect();
    const x = e.clientX - left;
    const isLeft = x > width / 2;
    const isBelow = e.clientY - top < height / 2; // away from the curve at the pointer
    this.hovered.prepend(
      svg("path", { class: "insp-heap-guide", d: `M${x},${MARGIN.top}V${this.element.clientHeight - MARGIN.bottom}` }),
    );
    fill(
      this.readout,
      h("div", { class: "insp-dim" }, `${this.placeAt(share)}${this.isEqual ? "" : " of each schedule"}`),
      h("table", {}, ...this.curves.map((curve) => this.reading(curve, share))),
    );
    this.readout.style.top = isBelow ? "" : "6px";
    this.readout.style.bottom = isBelow ? `${MARGIN.bottom + 4}px` : "";
    this.readout.style.left = isLeft ? "" : `${x + 10}px`;
    this.readout.style.right = isLeft ? `${width - x + 10}px` : "";
  }

  private reading(curve: HeapCurve, share: number): HTMLElement {
    const name = curve.schedule[positionAt(share, curve.schedule.length)] ?? "";
    return h(
      "tr",
      {},
      h("td", {}, swatch(curve.style)),
      h("td", { class: "insp-heap-label" }, curve.label),
      h("td", { class: "insp-number" }, format(this.total(curve, share), "bytes")),
      h("td", { class: "insp-heap-label insp-dim" }, name),
    );
  }

  /** Returns the curve that is closest to the pointer in vertical direction. */
  private nearest(e: MouseEvent): HeapCurve | null {
    const share = this.shareAt(e);
    const y = e.clientY - this.element.getBoundingClientRect().top;
    const distance = (curve: HeapCurve): number => Math.abs(this.y(this.total(curve, share)) - y);
    return this.curves.reduce<HeapCurve | null>(
      (best, curve) => (best && distance(best) <= distance(curve) ? best : curve),
      null,
    );
  }

  private click(e: MouseEvent): void {
    const { pressed } = this;
    this.pressed = null;
    if (this.curves.length < 2 || !pressed) return;
    if (Math.hypot(e.clientX - pressed.x, e.clientY - pressed.y) > CLICK_PX) return;
    this.picked(this.nearest(e)!);
  }

  private look(share: number): void {
    this.share = Math.max(0, Math.min(1, share));
    const [from, to] = this.view;
    if (this.share < from || this.share >= to) {
      const start = Math.max(0, Math.min(1 - (to - from), this.share - (to - from) / 2));
      this.view = [start, start + (to - from)];
      this.draw();
    } else this.moveCursor();
    this.moved();
  }

  private key(e: KeyboardEvent): void {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -25, PageDown: 25 }[e.key];
    const count = this.active?.schedule.length ?? 0;
    if (step !== undefined) this.look(shareOf(Math.max(0, Math.min(count - 1, this.at() + step)), count));
    else if (e.key === "Home" || e.key === "Escape") this.toPeak();
    else return;
    e.preventDefault();
  }

  private point(e: PointerEvent): void {
    this.element.focus({ preventScroll: true });
    const count = this.active?.schedule.length ?? 0;
    this.look(shareOf(positionAt(this.shareAt(e), count), count));
  }

  private shareAt(e: MouseEvent): number {
    const { left, width } = this.element.getBoundingClientRect();
    const share = (e.clientX - left - MARGIN.left) / Math.max(1, width - MARGIN.left - MARGIN.right);
    return this.view[0] + Math.max(0, Math.min(1, share)) * (this.view[1] - this.view[0]);
  }

  private zoom(e: WheelEvent): void {
    if (!e.deltaY || !isForElement(e, this.element)) return;
    e.preventDefault();
    const [from, to] = this.view;
    const least = Math.min(1, LEAST_POSITIONS / Math.max(1, this.active?.schedule.length ?? 0));
    const width = Math.max(least, Math.min(1, (to - from) * (e.deltaY > 0 ? ZOOM : 1 / ZOOM)));
    const about = this.shareAt(e);
    const start = Math.max(0, Math.min(1 - width, about - ((about - from) / (to - from)) * width));
    this.view = [start, start + width];
    this.draw();
  }
}

/** Returns a short piece of a variant's curve, for legends. */
export function swatch(style: number): SVGElement {
  return svg(
    "svg",
    { class: "insp-heap-swatch", width: 22, height: 8, "aria-hidden": "true" },
    svg("path", {
      class: "insp-heap-line",
      d: "M0,4H22",
      style: styleOf(style),
      "stroke-dasharray": DASHES[style % DASHES.length]!,
    }),
  );
}

function line({ style }: HeapCurve, path: string, className: string): SVGElement {
  return svg("path", {
    class: className,
    d: path,
    style: styleOf(style),
    "stroke-dasharray": DASHES[style % DASHES.length]!,
  });
}

const styleOf = (style: number): string => `--hue:var(--insp-group-${style % COLORS})`;
const percent = (share: number): string => `${Math.round(100 * share)} %`;
