// The memory use of the active variant over the schedule: a curve, and the live buffers at the selected position.

import { type Choice, Switcher } from "../lib/controls.ts";
import { copyButton } from "../lib/copying.ts";
import { fill, h, oncePerFrame, svg } from "../lib/dom.ts";
import { baseName, format, grouped, plural } from "../lib/format.ts";
import { alive, type GroupedBy, type Share, shares, treemap } from "../lib/memory.ts";
import { type Column, Sorting } from "../lib/sorting.ts";
import { listSplitter } from "../lib/splitter.ts";
import { decodeJson } from "../lib/transport.ts";
import type * as messages from "../messages.ts";
import { lightUp } from "../state/local.ts";
import type { Message } from "../state/synced.ts";
import { alwaysIn, HeapChart, overflow } from "./heapchart.ts";
import { type InstructionRow, InstructionRows, shareCell } from "./instructionrows.ts";
import { DonationTable } from "./donations.ts";
import { LinkedPane } from "./linked.ts";
import type { Context, Pane } from "./pane.ts";
import { absence } from "./recording.ts";
import { empty } from "./states.ts";
import "../styles/memory.css";
import "../styles/pictured.css";

type Form = "table" | "map" | "donations";

const WHAT =
  "Compiles this variant again and records XLA's buffer assignment: every buffer, its location and its live range.";
const BY: Choice<GroupedBy>[] = [
  { value: "buffer", text: "Buffers", title: "Each buffer" },
  { value: "scope", text: "Scopes", title: "Buffers summed by JAX's name stack" },
  { value: "line", text: "Lines", title: "Buffers summed by the innermost line of your code" },
  { value: "kind", text: "Kinds", title: "Arguments, outputs, constants, temporaries" },
  { value: "phase", text: "Phases", title: "Buffers summed by phase: forward, backward, recomputed, rest" },
];
const FORMS: Choice<Form>[] = [
  { value: "table", text: "Table" },
  { value: "map", text: "Map", title: "Areas proportional to bytes" },
  {
    value: "donations",
    text: "Donations",
    title: "Each argument: the output that reuses its buffer, or why none does",
  },
];
const MOST_ROWS = 400;
const MOST_TILES = 300;

class MemoryPane extends LinkedPane {
  readonly element = h("div", { class: "insp-pictured", "data-pane": "memory" });
  private readonly rooms = h("select", {
    class: "insp-select",
    "aria-label": "Memory",
    onchange: () => this.chooseRoom(this.rooms.value),
  });
  private readonly form = new Switcher<Form>("Display as", FORMS, "table", () => {
    if (this.shown) this.drawBody();
  });
  private readonly by = new Switcher<GroupedBy>("Rows", BY, "buffer", () => this.drawBody());
  private readonly refresh = oncePerFrame(() => {
    if (this.shown) this.drawMoment();
  });
  private readonly chart = new HeapChart(this.refresh);
  private readonly words = h("div", { class: "insp-heap-words" });
  private readonly picture = h("div", { class: "insp-picture" }, this.chart.element, this.words);
  private readonly border = listSplitter("Chart width", this.element, () => this.picture);
  private readonly rows: InstructionRows;
  private readonly sorting = new Sorting<Share>(() => this.drawBody());
  private readonly map = h("div", { class: "insp-scroll", tabindex: 0, "aria-label": "Live buffers as areas" });
  private readonly donations = new DonationTable();
  private readonly known = new WeakMap<Message<"memory">, messages.MemoryBuffers>();
  private room = "";
  private shown: { message: Message<"memory">; buffers: messages.MemoryBuffers } | null = null;
  private tiles: { name: string; element: Element }[] = [];

  constructor(context: Context) {
    super(context, "memory");
    this.rows = new InstructionRows("Live buffers", context.local, "memory");
    const copied = (): string => {
      if (this.form.value === "donations") return this.donations.text();
      return this.shown ? this.sorting.text(this.sorting.sorted(this.all())) : "";
    };
    const copy = copyButton(copied, "compiled.timeline().table()");
    this.tools.append(this.rooms, this.form.element, this.by.element, copy);
    this.watch(this.chart.element);
    this.watch(this.map);
  }

  protected draw(): void {
    const { synced, local } = this.context;
    const message = synced.latest("memory", { variant: local.active });
    for (const tool of this.tools.children) (tool as HTMLElement).hidden = !message?.rooms.length;
    if (!message) return this.say(absence(this.context, "buffers", "Buffers", WHAT));
    if (!message.rooms.length) return this.say(empty("No buffers", message.note));
    this.rooms.hidden = message.rooms.length < 2;
    if (message === this.shown?.message) return;
    let buffers = this.known.get(message);
    if (!buffers) {
      buffers = decodeJson<messages.MemoryBuffers>(synced.parts(message)[0]!);
      this.known.set(message, buffers);
    }
    this.shown = { message, buffers };
    if (message.donations) this.donations.show(message); // older recordings have none
    fill(this.rooms, ...message.rooms.map(({ name }) => h("option", { value: name }, name)));
    fill(this.element, this.picture, this.border);
    const isKnown = message.rooms.some(({ name }) => name === this.room);
    this.chooseRoom(isKnown ? this.room : message.rooms[0]!.name);
  }

  protected mark(): void {
    this.rows.mark();
    const { local } = this.context;
    for (const { name, element } of this.tiles) lightUp(element, local.levelOfInstruction("optimized", name));
  }

  protected override showPart(part: string): void {
    this.form.choose(part as Form);
  }

  protected override resize(): void {
    if (!this.shown) return;
    this.chart.draw();
    if (this.form.value === "map") this.drawBody();
  }

  private say(state: HTMLElement): void {
    this.shown = null;
    fill(this.element, state);
  }

  private chooseRoom(name: string): void {
    this.room = this.rooms.value = name;
    this.chart.show(this.shown!.message.rooms[this.place]!, this.shown!.buffers.schedule);
    this.drawMoment();
  }

  private get place(): number {
    return this.shown!.message.rooms.findIndex(({ name }) => name === this.room);
  }

  private get living(): number[] {
    return alive(this.shown!.buffers, this.place, this.chart.at);
  }

  /** Describes the selected position. */
  private drawMoment(): void {
    const rows = this.living;
    this.drawWords(rows);
    this.drawBody(rows);
  }

  private drawWords(rows: readonly number[]): void {
    const { message, buffers } = this.shown!;
    const room = message.rooms[this.place]!;
    const { at, live, isPeak } = this.chart;
    const temporary = rows.filter((row) => buffers.texts[buffers.kind[row]!] === "temporary");
    const largest = shares(buffers, temporary, "scope").find(({ name }) => name);
    const gaps = room.temp_bytes - room.live_bytes - room.untraced_bytes;
    const size = (bytes: number): string => format(bytes, "bytes");
    const excess = overflow(room);
    const parts = [
      excess > 0 && h("span", { class: "insp-bad" }, `✗ Out of memory: ${size(excess)} more than the capacity.`),
      `${room.name}${room.capacity_bytes === null ? "" : ` of ${size(room.capacity_bytes)}`}:` +
        ` ${size(alwaysIn(room))} of arguments, outputs and constants;` +
        ` ${size(room.temp_bytes)} allocated for temporaries${gaps > 0 ? `, including ${size(gaps)} of gaps.` : "."}`,
      largest &&
        `${size(largest.bytes)} of these temporaries belong to ${largest.name}` +
          (temporary.length > 1 ? ` (${plural(largest.count, "buffer")} of ${grouped(temporary.length)}).` : "."),
      message.unused.length && `Donated but not reused by any output: ${message.unused.join(", ")}.`,
      buffers.left_out && `${plural(buffers.left_out, "smaller buffer")} left out.`,
    ];
    const name = buffers.schedule[at];
    const select = (): void => this.context.local.selectInstruction("memory", "optimized", name!);
    const toPeak = (): void => this.chart.toPeak();
    fill(
      this.words,
      h(
        "div",
        {},
        h(
          "b",
          {},
          isPeak
            ? `Peak: ${size(alwaysIn(room) + room.temp_bytes)}, with ${size(live)} of live temporaries`
            : `Selected position: ${size(live)} of temporaries`,
        ),
        ` at position ${grouped(at)} `,
        name && h("button", { type: "button", class: "insp-link", onclick: select }, name),
        !isPeak && h("button", { type: "button", class: "insp-button", onclick: toPeak }, "Go to peak"),
      ),
      ...parts.map((part) => (part ? h("div", { class: "insp-dim" }, part) : null)),
    );
  }

  private all(rows: readonly number[] = this.living): Share[] {
    return shares(this.shown!.buffers, rows, this.by.value);
  }

  private drawBody(rows: readonly number[] = this.living): void {
    const bodies = { table: this.rows.element, map: this.map, donations: this.donations.element };
    const body = bodies[this.form.value];
    for (const other of Object.values(bodies)) if (other !== body) other.remove();
    if (!body.isConnected) this.element.append(body);
    this.tiles = [];
    if (body === this.map) this.drawMap(this.all(rows));
    else if (body === this.rows.element) this.drawTable(this.all(rows));
    this.mark();
  }

  private drawTable(all: readonly Share[]): void {
    const by = this.by.value;
    const total = all.reduce((sum, { bytes }) => sum + bytes, 0);
    const columns = columnsOf(this.shown!.buffers, by, total);
    this.sorting.show(columns, "bytes");
    const listed = this.sorting.sorted(all).slice(0, MOST_ROWS);
    const order = columns.find(({ name }) => name === this.sorting.by)!.text;
    this.rows.show(
      all.length > listed.length
        ? `First ${grouped(listed.length)} of ${grouped(all.length)} ${namesOf(by)}, by ${order}.`
        : "",
      this.sorting.head,
      listed.map((share) => this.row(share, by === "buffer", total)),
    );
  }

  private row({ name, row, bytes, padding, count }: Share, isBuffers: boolean, total: number): InstructionRow {
    const { buffers } = this.shown!;
    const cell = (column: number[]): string => buffers.texts[column[row]!]!;
    const dim = (words: string): HTMLElement => h("span", { class: "insp-dim" }, words);
    const line = cell(buffers.line);
    return {
      instruction: cell(buffers.instruction),
      cells: () => [
        h("th", { scope: "row", title: name }, name || dim("unknown")),
        h("td", { class: "insp-number", title: plural(bytes, "byte") }, format(bytes, "bytes")),
        shareCell(bytes / Math.max(1, total)),
        h("td", { class: padding ? "insp-number" : "insp-number insp-dim" }, padding ? format(padding, "bytes") : "–"),
        isBuffers ? h("td", {}, cell(buffers.kind)) : h("td", { class: "insp-number" }, grouped(count)),
        isBuffers && h("td", { class: "insp-number" }, grouped(buffers.start[row]!)),
        isBuffers && h("td", { class: "insp-number" }, grouped(buffers.end[row]!)),
        isBuffers && h("td", {}, cell(buffers.phase) || dim("–")),
        isBuffers
          ? h("td", { title: line }, baseName(line) || dim("unknown"))
          : h("td", {}, h("code", {}, cell(buffers.name))),
      ],
    };
  }

  private drawMap(all: readonly Share[]): void {
    const { buffers } = this.shown!;
    const [width, height] = [this.map.clientWidth, this.map.clientHeight];
    const picture = svg("svg", {
      width,
      height,
      role: "img",
      "aria-label": "Bytes as areas; the table shows the same data",
    });
    for (const { x, y, width: w, height: high, share } of treemap(withRest(all), width, height)) {
      const name = share.name || "unknown";
      const phase = buffers.texts[buffers.phase[share.row]!]!;
      const instruction = buffers.texts[buffers.instruction[share.row]!]!;
      const select = (): void => this.context.local.selectInstruction("memory", "optimized", instruction);
      const group = svg(
        "g",
        { class: "insp-heap-tile", onclick: select },
        svg("title", {}, `${name}\n${format(share.bytes, "bytes")}, ${plural(share.count, "buffer")}\n${phase}`),
        svg("rect", {
          x,
          y,
          width: Math.max(0, w - 1),
          height: Math.max(0, high - 1),
          "data-phase": phase.split(" ")[0] || "rest",
        }),
        w > 54 && high > 26 ? label(name, x, y, w) : null,
        w > 54 && high > 38 ? svg("text", { x: x + 4, y: y + 26 }, format(share.bytes, "bytes")) : null,
      );
      picture.append(group);
      this.tiles.push({ name: instruction, element: group });
    }
    fill(this.map, picture);
  }
}

/** Returns the name of the rows in the plural, such as "buffers". */
function namesOf(by: GroupedBy): string {
  return BY.find(({ value }) => value === by)!.text.toLowerCase();
}

function columnsOf(buffers: messages.MemoryBuffers, by: GroupedBy, total: number): readonly Column<Share>[] {
  const text = (column: readonly number[]) => (share: Share) => buffers.texts[column[share.row]!] || null;
  const own: readonly Column<Share>[] = [
    { name: "kind", text: "kind", title: "By kind", value: text(buffers.kind) },
    {
      name: "start",
      text: "from",
      title: "First position of its live range in the schedule",
      isPlace: true,
      value: ({ row }) => buffers.start[row]!,
    },
    {
      name: "end",
      text: "to",
      title: "Last position of its live range in the schedule",
      isPlace: true,
      value: ({ row }) => buffers.end[row]!,
    },
    { name: "phase", text: "phase", title: "By phase", value: text(buffers.phase) },
    { name: "line", text: "line", title: "By source line", value: text(buffers.line) },
  ];
  const summed: readonly Column<Share>[] = [
    { name: "buffers", text: "buffers", title: "Number of buffers", isNumber: true, value: ({ count }) => count },
    { name: "largest", text: "largest", title: "By name of the largest buffer", value: text(buffers.name) },
  ];
  return [
    { name: by, text: namesOf(by).slice(0, -1), title: "By name", value: ({ name }) => name || null },
    { name: "bytes", text: "bytes", title: "Bytes", isNumber: true, value: ({ bytes }) => bytes },
    {
      name: "share",
      text: "share",
      title: "Share of all live bytes at this position",
      isNumber: true,
      value: ({ bytes }) => bytes / Math.max(1, total),
    },
    {
      name: "padding",
      text: "padding",
      title: "Bytes without elements, such as the padding of TPU tiles",
      isNumber: true,
      value: ({ padding }) => padding,
    },
    ...(by === "buffer" ? own : summed),
  ];
}

/** Returns the largest shares, with all others summed in one more. */
function withRest(all: readonly Share[]): Share[] {
  const rest = all.slice(MOST_TILES);
  const sum = (of: "bytes" | "count" | "padding"): number => rest.reduce((total, share) => total + share[of], 0);
  const last = rest[0] && {
    name: `${grouped(rest.length)} smaller`,
    bytes: sum("bytes"),
    count: sum("count"),
    padding: sum("padding"),
    row: rest[0].row,
  };
  return [...all.slice(0, MOST_TILES), ...(last ? [last] : [])].sort((a, b) => b.bytes - a.bytes);
}

/** Shortens a name from its start, because its end is the most specific part. */
function label(name: string, x: number, y: number, width: number): SVGElement {
  const room = Math.floor((width - 8) / 6.2);
  const text = name.length <= room ? name : `…${name.slice(name.length - Math.max(1, room - 1))}`;
  return svg("text", { x: x + 4, y: y + 13 }, text);
}

export const pane = (context: Context): Pane => new MemoryPane(context);
