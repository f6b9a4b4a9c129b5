// What lies in the memories of the active variant over the schedule: a curve, and what lives at a moment of it.

import { type Choice, segments } from "../lib/controls.ts";
import { drag, fill, h, svg } from "../lib/dom.ts";
import { format, grouped, plural } from "../lib/format.ts";
import { STRONG, WEAK } from "../lib/linking.ts";
import { alive, type GroupedBy, liveAt, type Share, shares, steps, treemap } from "../lib/memory.ts";
import { decodeJson } from "../lib/transport.ts";
import type * as messages from "../messages.ts";
import { CHOSEN } from "../state/local.ts";
import type { Message } from "../state/synced.ts";
import { type Context, Drawing, follow, type Pane } from "./pane.ts";
import { absence } from "./recording.ts";
import { empty } from "./states.ts";
import "../styles/memory.css";

const WHAT =
  "Compiles this variant once more and keeps XLA's buffer assignment: every buffer, where it lies and how long it lives.";
const BY: Choice<GroupedBy>[] = [
  { value: "buffer", text: "Buffers", title: "Each buffer" },
  { value: "scope", text: "Scopes", title: "Buffers summed by JAX's name stack" },
  { value: "line", text: "Lines", title: "Buffers summed by the innermost Python line" },
  { value: "kind", text: "Kinds", title: "Arguments, outputs, constants, temporaries" },
  { value: "phase", text: "Phases", title: "Buffers summed by forward, backward, recomputed and the rest" },
];
const FORMS: Choice<"table" | "map">[] = [
  { value: "table", text: "Table" },
  { value: "map", text: "Map", title: "Areas in proportion to bytes" },
];
const MARGIN = { left: 62, right: 10, top: 8, bottom: 20 };
const MOST_ROWS = 400;
const MOST_TILES = 300;
const ZOOM = 1.25;

class MemoryPane implements Pane {
  readonly element = h("div", { class: "insp-heap" });
  readonly tools = h("div", { class: "insp-tools" });
  private readonly rooms = h("select", {
    class: "insp-select",
    "aria-label": "Memory",
    onchange: () => this.chooseRoom(),
  });
  private readonly forms = h("div", { class: "insp-segments", role: "group", "aria-label": "Table or map" });
  private readonly switcher = h("div", { class: "insp-segments", role: "group", "aria-label": "Rows" });
  private readonly chart = h("div", {
    class: "insp-heap-chart",
    tabindex: 0,
    role: "slider",
    "aria-label": "Position in the schedule",
    onkeydown: ((e: KeyboardEvent) => this.key(e)) as EventListener,
  });
  private readonly words = h("div", { class: "insp-heap-words" });
  private readonly body = h("div", {
    class: "insp-heap-body insp-scroll",
    tabindex: 0,
    "aria-label": "What lives there",
  });
  private readonly drawing = new Drawing(() => this.draw());
  private readonly resized = new ResizeObserver(() => this.shown && this.drawAll());
  private readonly ends: (() => void)[];
  private readonly known = new WeakMap<Message<"memory">, messages.MemoryBuffers>();
  private by: GroupedBy = "buffer";
  private form: "table" | "map" = "table";
  private room = "";
  private shown: { message: Message<"memory">; buffers: messages.MemoryBuffers } | null = null;
  /** The moment that is looked at; null for the peak. */
  private position: number | null = null;
  private view: [number, number] = [0, 1];
  private marked: { name: string; element: Element }[] = [];

  constructor(private readonly context: Context) {
    this.tools.append(this.rooms, this.forms, this.switcher);
    this.resized.observe(this.chart);
    this.resized.observe(this.body);
    drag(this.chart, (down) => {
      this.point(down);
      return (move) => this.point(move);
    });
    this.chart.addEventListener("wheel", (e) => this.zoom(e), { passive: false });
    this.chart.addEventListener("dblclick", () => this.look(null, true));
    this.ends = [
      follow(context, "memory", this.drawing),
      context.local.signal.on(["active"], this.drawing.request),
      context.local.signal.on(["selection"], () => () => {
        if (this.drawing.isVisible) this.mark();
      }),
    ];
  }

  setVisible(visible: boolean): void {
    this.drawing.setVisible(visible);
    if (visible) this.mark();
  }

  destroy(): void {
    this.resized.disconnect();
    this.ends.forEach((end) => end());
  }

  private draw(): void {
    const { synced, local } = this.context;
    const message = synced.latest("memory", { variant: local.active });
    for (const tool of this.tools.children) (tool as HTMLElement).hidden = !message?.rooms.length;
    if (!message) return this.say(absence(this.context, "buffers", "Buffers", WHAT));
    if (!message.rooms.length) return this.say(empty("No buffers", message.note));
    if (message !== this.shown?.message) {
      let buffers = this.known.get(message);
      if (!buffers) {
        buffers = decodeJson<messages.MemoryBuffers>(synced.parts(message)[0]!);
        this.known.set(message, buffers);
      }
      this.shown = { message, buffers };
      if (!message.rooms.some(({ name }) => name === this.room)) this.room = message.rooms[0]!.name;
      this.position = null;
      this.view = [0, Math.max(1, buffers.schedule.length)];
      fill(this.element, h("div", { class: "insp-heap-top" }, this.chart, this.words), this.body);
    }
    this.drawAll();
  }

  private say(state: HTMLElement): void {
    this.shown = null;
    this.marked = [];
    fill(this.element, state);
  }

  private drawAll(): void {
    const { message } = this.shown!;
    fill(
      this.rooms,
      ...message.rooms.map(({ name }) => h("option", { value: name, selected: name === this.room }, name)),
    );
    this.rooms.hidden = message.rooms.length < 2;
    fill(this.forms, ...segments(FORMS, this.form, (form) => this.change(() => (this.form = form))));
    fill(this.switcher, ...segments(BY, this.by, (by) => this.change(() => (this.by = by))));
    this.drawChart();
    this.drawBody();
  }

  private change(change: () => void): void {
    change();
    this.drawAll();
  }

  private chooseRoom(): void {
    this.room = this.rooms.value;
    this.position = null;
    this.drawAll();
  }

  private get place(): number {
    return Math.max(
      0,
      this.shown!.message.rooms.findIndex(({ name }) => name === this.room),
    );
  }

  private get at(): number {
    return this.position ?? this.shown!.message.rooms[this.place]!.peak;
  }

  /** Looks at a moment, null for the peak. */
  private look(position: number | null, isWhole = false): void {
    const last = this.shown!.buffers.schedule.length - 1;
    this.position = position === null ? null : Math.max(0, Math.min(last, position));
    if (isWhole) this.view = [0, Math.max(1, last + 1)];
    this.drawChart();
    this.drawBody();
  }

  private key(e: KeyboardEvent): void {
    if (!this.shown) return;
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -25, PageDown: 25 }[e.key];
    if (step !== undefined) this.look(this.at + step);
    else if (e.key === "Home" || e.key === "Escape") this.look(null, true);
    else return;
    e.preventDefault();
  }

  private point(e: PointerEvent): void {
    if (this.shown) this.look(Math.floor(this.positionAt(e)));
  }

  private positionAt(e: MouseEvent): number {
    const { left, width } = this.chart.getBoundingClientRect();
    const share = (e.clientX - left - MARGIN.left) / Math.max(1, width - MARGIN.left - MARGIN.right);
    return this.view[0] + Math.max(0, Math.min(1, share)) * (this.view[1] - this.view[0]);
  }

  private zoom(e: WheelEvent): void {
    if (!this.shown) return;
    e.preventDefault();
    const all = Math.max(1, this.shown.buffers.schedule.length);
    const [from, to] = this.view;
    const width = Math.max(Math.min(8, all), Math.min(all, (to - from) * (e.deltaY > 0 ? ZOOM : 1 / ZOOM)));
    const about = this.positionAt(e);
    const start = Math.max(0, Math.min(all - width, about - ((about - from) / (to - from)) * width));
    this.view = [start, start + width];
    this.drawChart();
  }

  private drawChart(): void {
    const { message, buffers } = this.shown!;
    const room = message.rooms[this.place]!;
    const [width, height] = [this.chart.clientWidth, this.chart.clientHeight];
    const curve = steps(room.curve);
    const at = this.at;
    this.chart.setAttribute("aria-valuemin", "0");
    this.chart.setAttribute("aria-valuemax", String(buffers.schedule.length - 1));
    this.chart.setAttribute("aria-valuenow", String(at));
    this.chart.setAttribute("aria-valuetext", `${buffers.schedule[at] ?? ""}: ${format(liveAt(curve, at), "bytes")}`);
    this.drawWords(room, liveAt(curve, at));
    if (width < 120 || height < 60) return fill(this.chart);
    const [from, to] = this.view;
    const always = room.argument_bytes + room.output_bytes - room.alias_bytes + room.constant_bytes;
    const most = Math.max(1, always + room.live_bytes);
    const x = (position: number): number =>
      MARGIN.left + ((position - from) / (to - from)) * (width - MARGIN.left - MARGIN.right);
    const y = (bytes: number): number =>
      height - MARGIN.bottom - (bytes / most) * (height - MARGIN.top - MARGIN.bottom);
    const seen = curve.filter(([position], i) => position < to && (curve[i + 1]?.[0] ?? Infinity) > from);
    let path = "";
    for (const [i, [position, bytes]] of seen.entries()) {
      const left = x(Math.max(from, position));
      const right = x(Math.min(to, seen[i + 1]?.[0] ?? Math.min(to, buffers.schedule.length)));
      path += `${path ? "L" : "M"}${left},${y(always + bytes)}L${right},${y(always + bytes)}`;
    }
    const floor = y(always);
    const area = path && `${path}L${x(Math.min(to, buffers.schedule.length))},${floor}L${x(from)},${floor}Z`;
    const label = (bytes: number): SVGElement =>
      svg("text", { x: MARGIN.left - 5, y: y(bytes) + 3, "text-anchor": "end" }, format(bytes, "bytes"));
    fill(
      this.chart,
      svg(
        "svg",
        { width, height, "aria-hidden": "true" },
        svg("rect", {
          class: "insp-heap-always",
          x: MARGIN.left,
          y: floor,
          width: Math.max(0, width - MARGIN.left - MARGIN.right),
          height: Math.max(0, height - MARGIN.bottom - floor),
        }),
        path && svg("path", { class: "insp-heap-area", d: area }),
        path && svg("path", { class: "insp-heap-line", d: path }),
        at >= from && at < to
          ? svg("rect", {
              class: "insp-heap-cursor",
              x: x(at),
              y: MARGIN.top,
              width: Math.max(1.5, x(at + 1) - x(at)),
              height: height - MARGIN.top - MARGIN.bottom,
            })
          : null,
        label(most),
        always > most / 8 && always < most * 0.88 ? label(always) : null,
        svg("text", { x: MARGIN.left, y: height - 6 }, String(Math.floor(from))),
        svg(
          "text",
          { x: (MARGIN.left + width) / 2, y: height - 6, "text-anchor": "middle" },
          "position in the schedule",
        ),
        svg("text", { x: width - MARGIN.right, y: height - 6, "text-anchor": "end" }, String(Math.ceil(to) - 1)),
      ),
    );
  }

  private drawWords(room: messages.MemoryRoom, live: number): void {
    const { message, buffers } = this.shown!;
    const at = this.at;
    const here = alive(buffers, this.place, at);
    const temporary = here.filter((row) => buffers.texts[buffers.kind[row]!] === "temporary");
    const largest = shares(buffers, temporary, "scope").find(({ name }) => name);
    const gaps = room.temp_bytes - room.live_bytes - room.untraced_bytes;
    const parts = [
      `${room.name}${room.capacity_bytes === null ? "" : ` of ${format(room.capacity_bytes, "bytes")}`}: ${format(
        room.argument_bytes + room.output_bytes - room.alias_bytes + room.constant_bytes,
        "bytes",
      )} of arguments, outputs and constants; ${format(room.temp_bytes, "bytes")} allocated for temporaries` +
        (gaps > 0 ? `, ${format(gaps, "bytes")} of it gaps.` : "."),
      largest &&
        `Of the temporaries here ${format(largest.bytes, "bytes")} belong to ${largest.name}` +
          (temporary.length > 1 ? ` (${plural(largest.count, "buffer")} of ${grouped(temporary.length)}).` : "."),
      message.unused.length && `Donated, and reused by no output: ${message.unused.join(", ")}.`,
      buffers.left_out && `${plural(buffers.left_out, "smaller buffer")} left out.`,
    ];
    const where = this.position === null || at === room.peak ? "The fullest moment" : "This moment";
    const name = buffers.schedule[at] ?? "";
    const select = (): void => this.context.local.selectInstruction("memory", "optimized", name);
    fill(
      this.words,
      h(
        "div",
        {},
        h("b", {}, `${where}: ${format(live, "bytes")} of temporaries`),
        ` at ${grouped(at)}, `,
        h("button", { type: "button", class: "insp-link", onclick: select }, name),
        where === "This moment" &&
          h("button", { type: "button", class: "insp-button", onclick: () => this.look(null, true) }, "To the peak"),
      ),
      ...parts.map((part) => (part ? h("div", { class: "insp-dim" }, part) : null)),
    );
  }

  private drawBody(): void {
    const { buffers } = this.shown!;
    const rows = alive(buffers, this.place, this.at);
    const all = shares(buffers, rows, this.by);
    this.marked = [];
    if (this.form === "map") this.drawMap(all);
    else this.drawTable(all);
    this.mark();
  }

  private drawTable(all: readonly Share[]): void {
    const { buffers } = this.shown!;
    const total = all.reduce((sum, { bytes }) => sum + bytes, 0);
    const isBuffers = this.by === "buffer";
    const what = BY.find(({ value }) => value === this.by)!.text.toLowerCase();
    const heading = (text: string, isNumber = false, title = ""): HTMLElement =>
      h("th", { scope: "col", class: isNumber ? "insp-number" : "", title }, text);
    const head = h(
      "tr",
      {},
      heading(isBuffers ? "buffer" : what.slice(0, -1)),
      heading("bytes", true),
      heading("share", true, "Of all that lives at this moment"),
      heading("padding", true, "Bytes in which no element is, such as the rest of a TPU's tiles"),
      isBuffers ? heading("kind") : heading("buffers", true),
      isBuffers && heading("lives", true, "Positions in the schedule"),
      isBuffers && heading("phase"),
      isBuffers ? heading("line") : heading("largest"),
    );
    const listed = all.slice(0, MOST_ROWS).map((share, i) => {
      const { row, bytes, padding, count } = share;
      const cell = (column: number[]): string => buffers.texts[column[row]!]!;
      const line = cell(buffers.line);
      const element = h(
        "tr",
        {
          tabindex: i === 0 ? 0 : -1,
          onclick: () => this.choose(share),
          onkeydown: ((e: KeyboardEvent) => this.step(e)) as EventListener,
        },
        h(
          "th",
          { scope: "row", class: "insp-heap-name", title: share.name },
          share.name || h("span", { class: "insp-dim" }, "not known"),
        ),
        h("td", { class: "insp-number", title: `${grouped(bytes)} bytes` }, format(bytes, "bytes")),
        h(
          "td",
          { class: "insp-number insp-heap-share", style: `--share:${(bytes / Math.max(1, total)).toFixed(4)}` },
          `${((100 * bytes) / Math.max(1, total)).toFixed(1)} %`,
        ),
        h("td", { class: padding ? "insp-number" : "insp-number insp-dim" }, padding ? format(padding, "bytes") : "–"),
        isBuffers ? h("td", {}, cell(buffers.kind)) : h("td", { class: "insp-number" }, grouped(count)),
        isBuffers && h("td", { class: "insp-number" }, `${grouped(buffers.start[row]!)}–${grouped(buffers.end[row]!)}`),
        isBuffers && h("td", {}, cell(buffers.phase) || h("span", { class: "insp-dim" }, "–")),
        isBuffers
          ? h(
              "td",
              { title: line },
              line.slice(line.lastIndexOf("/") + 1) || h("span", { class: "insp-dim" }, "unknown"),
            )
          : h("td", {}, h("code", {}, cell(buffers.name))),
      );
      this.marked.push({ name: cell(buffers.instruction), element });
      return element;
    });
    const cut =
      all.length > listed.length && `The largest ${grouped(listed.length)} of ${grouped(all.length)} ${what}.`;
    fill(
      this.body,
      cut && h("div", { class: "insp-note" }, cut),
      h("table", { class: "insp-table insp-rows" }, h("thead", {}, head), h("tbody", {}, ...listed)),
    );
  }

  private drawMap(all: readonly Share[]): void {
    const { buffers } = this.shown!;
    const [width, height] = [this.body.clientWidth, this.body.clientHeight];
    const picture = svg("svg", { width, height, role: "img", "aria-label": "Bytes as areas; the table has the same" });
    for (const { x, y, width: w, height: high, share } of treemap(all.slice(0, MOST_TILES), width, height)) {
      const name = share.name || "not known";
      const phase = buffers.texts[buffers.phase[share.row]!]!;
      const group = svg(
        "g",
        { class: "insp-heap-tile", onclick: () => this.choose(share) },
        svg("title", {}, `${name}\n${format(share.bytes, "bytes")}, ${plural(share.count, "buffer")}\n${phase}`),
        svg("rect", {
          x,
          y,
          width: Math.max(0, w - 1),
          height: Math.max(0, high - 1),
          "data-phase": phase.split(" ")[0] || "rest",
        }),
        w > 54 && high > 26 ? label(name, x, y, w) : null,
        w > 54 && high > 38
          ? svg("text", { x: x + 4, y: y + 26, class: "insp-dim" }, format(share.bytes, "bytes"))
          : null,
      );
      picture.append(group);
      this.marked.push({ name: buffers.texts[buffers.instruction[share.row]!]!, element: group });
    }
    fill(this.body, picture);
  }

  private step(e: KeyboardEvent): void {
    const to = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[e.key];
    const row = e.currentTarget as HTMLElement;
    const next = to
      ? (row[to as "nextElementSibling"] as HTMLElement | null)
      : e.key === "Enter" || e.key === " "
        ? row
        : null;
    if (!next) return;
    e.preventDefault();
    next.focus();
    next.click();
  }

  /** Selects the instruction that makes the buffer, or the largest of several. */
  private choose({ row }: Share): void {
    const { buffers } = this.shown!;
    this.context.local.selectInstruction("memory", "optimized", buffers.texts[buffers.instruction[row]!]!);
  }

  private mark(): void {
    const { local } = this.context;
    for (const { name, element } of this.marked) {
      const level = local.levelOfInstruction("optimized", name);
      element.classList.toggle("insp-chosen", level === CHOSEN);
      element.classList.toggle("insp-strong", level === STRONG);
      element.classList.toggle("insp-weak", level === WEAK);
    }
  }
}

/** The end of a name says most. */
function label(name: string, x: number, y: number, width: number): SVGElement {
  const room = Math.floor((width - 8) / 6.2);
  const text = name.length <= room ? name : `…${name.slice(name.length - Math.max(1, room - 1))}`;
  return svg("text", { x: x + 4, y: y + 13 }, text);
}

export const pane = (context: Context): Pane => new MemoryPane(context);
