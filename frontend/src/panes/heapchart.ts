// A chart of live temporaries over the schedule, stacked on the memory that is allocated all the time. Mouse and keys
// select a position.

import { drag, fill, h, isForElement, svg, update } from "../lib/dom.ts";
import { format } from "../lib/format.ts";
import { liveAt, outline } from "../lib/memory.ts";
import type * as messages from "../messages.ts";

const MARGIN = { left: 62, right: 10, top: 8, bottom: 20 };
const ZOOM = 1.25;
const LEAST_POSITIONS = 8;

export class HeapChart {
  readonly element = h("div", {
    class: "insp-plot insp-heap-chart",
    tabindex: 0,
    role: "slider",
    "aria-label": "Position in the schedule",
    onkeydown: ((e: KeyboardEvent) => this.key(e)) as EventListener,
  });
  private readonly cursor = svg("rect", { class: "insp-heap-cursor", y: MARGIN.top });
  private room: messages.MemoryRoom | null = null;
  private schedule: readonly string[] = [];
  /** The selected position; null for the peak. */
  private position: number | null = null;
  private view: [number, number] = [0, 1];

  /** @param moved is called when another position is selected. */
  constructor(private readonly moved: () => void) {
    drag(this.element, (down) => {
      this.point(down);
      return (move) => this.point(move);
    });
    this.element.addEventListener("wheel", (e) => this.zoom(e), { passive: false });
    this.element.addEventListener("dblclick", () => this.toPeak());
  }

  /** Shows a memory, at its peak. */
  show(room: messages.MemoryRoom, schedule: readonly string[]): void {
    [this.room, this.schedule] = [room, schedule];
    this.position = null;
    this.view = [0, Math.max(1, schedule.length)];
    this.draw();
  }

  get at(): number {
    return this.position ?? this.room?.peak ?? 0;
  }

  get isPeak(): boolean {
    return this.at === this.room?.peak;
  }

  /** Bytes of the temporaries that are live at the selected position. */
  get live(): number {
    return liveAt(this.room?.curve ?? [], this.at);
  }

  toPeak(): void {
    this.view = [0, Math.max(1, this.schedule.length)];
    this.position = null;
    this.draw();
    this.moved();
  }

  draw(): void {
    const { room } = this;
    const [width, height] = [this.element.clientWidth, this.element.clientHeight];
    this.moveCursor();
    if (!room || width < 120 || height < 60) return fill(this.element);
    const always = alwaysIn(room);
    const most = Math.max(1, always + room.live_bytes);
    const capacity = overflow(room) > 0 ? room.capacity_bytes : null;
    const right = width - MARGIN.right;
    const end = Math.min(right, this.x(this.schedule.length));
    const y = (bytes: number): number =>
      height - MARGIN.bottom - (bytes / most) * (height - MARGIN.top - MARGIN.bottom);
    const path = this.path(Math.max(1, Math.round(end - MARGIN.left)), end, (bytes) => y(always + bytes));
    const text = (x: number, anchor: string, at: number, words: string): SVGElement =>
      svg("text", { x, y: at, "text-anchor": anchor }, words);
    const label = (bytes: number): SVGElement => text(MARGIN.left - 5, "end", y(bytes) + 3, format(bytes, "bytes"));
    const [from, to] = this.view;
    fill(
      this.element,
      svg(
        "svg",
        { width, height, "aria-hidden": "true" },
        svg("rect", {
          class: "insp-heap-always",
          x: MARGIN.left,
          y: y(always),
          width: right - MARGIN.left,
          height: height - MARGIN.bottom - y(always),
        }),
        path && svg("path", { class: "insp-heap-area", d: `${path}V${y(always)}H${MARGIN.left}Z` }),
        path && svg("path", { class: "insp-heap-line", d: path }),
        capacity !== null && svg("path", { class: "insp-heap-capacity", d: `M${MARGIN.left},${y(capacity)}H${right}` }),
        capacity !== null && text(right - 2, "end", y(capacity) - 3, `${room.name} capacity`),
        this.cursor,
        label(most),
        always > most / 8 && always < most * 0.88 && label(always),
        text(MARGIN.left, "start", height - 6, String(Math.floor(from))),
        text((MARGIN.left + width) / 2, "middle", height - 6, "Position in the schedule"),
        text(right, "end", height - 6, String(Math.ceil(to) - 1)),
      ),
    );
  }

  /** Returns the curve as an SVG path, with at most one step per pixel column. */
  private path(columns: number, end: number, y: (bytes: number) => number): string {
    if (!this.room!.curve.length) return "";
    const [from, to] = [this.view[0], Math.min(this.view[1], this.schedule.length)];
    const step = (end - MARGIN.left) / columns;
    const levels = outline(this.room!.curve, from, to, columns);
    let path = `M${MARGIN.left},${y(levels[0]!)}`;
    levels.forEach((bytes, i) => {
      if (bytes !== levels[i + 1]) path += `V${y(bytes)}H${MARGIN.left + (i + 1) * step}`;
    });
    return path;
  }

  private x(position: number): number {
    const [from, to] = this.view;
    return MARGIN.left + ((position - from) / (to - from)) * (this.element.clientWidth - MARGIN.left - MARGIN.right);
  }

  private moveCursor(): void {
    const { at } = this;
    update(this.element, {
      "aria-valuemin": "0",
      "aria-valuemax": String(Math.max(0, this.schedule.length - 1)),
      "aria-valuenow": String(at),
      "aria-valuetext": `${this.schedule[at] ?? ""}: ${format(this.live, "bytes")}`,
    });
    update(this.cursor, {
      x: String(this.x(at)),
      width: String(Math.max(1.5, this.x(at + 1) - this.x(at))),
      height: String(Math.max(0, this.element.clientHeight - MARGIN.top - MARGIN.bottom)),
    });
  }

  private look(position: number): void {
    this.position = Math.max(0, Math.min(this.schedule.length - 1, position));
    const [from, to] = this.view;
    if (this.position < from || this.position >= to) {
      const start = Math.max(0, Math.min(this.schedule.length - (to - from), this.position - (to - from) / 2));
      this.view = [start, start + (to - from)];
      this.draw();
    } else this.moveCursor();
    this.moved();
  }

  private key(e: KeyboardEvent): void {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -25, PageDown: 25 }[e.key];
    if (step !== undefined) this.look(this.at + step);
    else if (e.key === "Home" || e.key === "Escape") this.toPeak();
    else return;
    e.preventDefault();
  }

  private point(e: PointerEvent): void {
    this.element.focus({ preventScroll: true });
    this.look(Math.floor(this.positionAt(e)));
  }

  private positionAt(e: MouseEvent): number {
    const { left, width } = this.element.getBoundingClientRect();
    const share = (e.clientX - left - MARGIN.left) / Math.max(1, width - MARGIN.left - MARGIN.right);
    return this.view[0] + Math.max(0, Math.min(1, share)) * (this.view[1] - this.view[0]);
  }

  private zoom(e: WheelEvent): void {
    if (!e.deltaY || !isForElement(e, this.element)) return;
    e.preventDefault();
    const all = Math.max(1, this.schedule.length);
    const [from, to] = this.view;
    const width = Math.max(
      Math.min(LEAST_POSITIONS, all),
      Math.min(all, (to - from) * (e.deltaY > 0 ? ZOOM : 1 / ZOOM)),
    );
    const about = this.positionAt(e);
    const start = Math.max(0, Math.min(all - width, about - ((about - from) / (to - from)) * width));
    this.view = [start, start + width];
    this.draw();
  }
}

/** Returns the bytes beyond the memory's capacity; 0 if everything fits or the capacity is unknown. */
export function overflow(room: messages.MemoryRoom): number {
  return room.capacity_bytes === null ? 0 : Math.max(0, alwaysIn(room) + room.temp_bytes - room.capacity_bytes);
}

/** Returns the bytes that are allocated during the whole schedule: arguments, outputs and constants. */
export function alwaysIn(room: messages.MemoryRoom): number {
  return room.argument_bytes + room.output_bytes - room.alias_bytes + room.constant_bytes;
}
