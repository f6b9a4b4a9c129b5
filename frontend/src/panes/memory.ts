// Memory use over the schedule: a curve for each recorded variant, the kinds of memory of all variants side by side, and
// the live buffers of the active variant at the selected position. Scopes, lines, kinds and phases are shared by programs,
// so their bytes have a column for each variant.

import { type Choice, Switcher, textButton } from "../lib/controls.ts";
import { copyButton } from "../lib/copying.ts";
import { fill, h, oncePerFrame, svg } from "../lib/dom.ts";
import { baseName, format, formatDelta, formatPercent, grouped, plural } from "../lib/format.ts";
import {
  alive,
  alwaysIn,
  choicesOf,
  initialChoice,
  type GroupedBy,
  liveAt,
  overflow,
  roomAt,
  type Share,
  type SharedGroup,
  shares,
  sideBySide,
  treemap,
} from "../lib/memory.ts";
import { type Column, Sorting } from "../lib/sorting.ts";
import { bytesIn, type Unit, unitOfBytes } from "../lib/units.ts";
import { listSplitter } from "../lib/splitter.ts";
import { decodeJson } from "../lib/transport.ts";
import type * as messages from "../messages.ts";
import { lightUp } from "../state/local.ts";
import { goesOn, type Message, type Timed } from "../state/synced.ts";
import { DonationTable } from "./donations.ts";
import { HeapChart, type HeapCurve, swatch } from "./heapchart.ts";
import { type InstructionRow, InstructionRows, numberCell, shareCell } from "./instructionrows.ts";
import { textOf } from "./labels.ts";
import { LinkedPane } from "./linked.ts";
import { type MemoryColumn, MemoryTable } from "./memorytable.ts";
import type { Context, Pane } from "./pane.ts";
import { absence } from "./recording.ts";
import { empty } from "./states.ts";
import { referencesOf } from "./stats.ts";
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
const ESTIMATED =
  "Estimated from the schedule and the sizes of values, because the file has no buffer assignment. XLA also reuses the" +
  " buffers of operands, so the real peak is usually lower.";
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
  private readonly by = new Switcher<GroupedBy>("Rows", BY, "buffer", () => {
    if (this.shown) this.drawBody();
  });
  private readonly refresh = oncePerFrame(() => this.drawMoment());
  private readonly chart = new HeapChart(this.refresh, (curve) => this.pick(curve));
  private readonly compared: MemoryTable;
  private readonly words = h("div", { class: "insp-heap-words" });
  private readonly picture = h("div", { class: "insp-picture" });
  private readonly border = listSplitter("Chart width", this.element, () => this.picture);
  private readonly side = h("div", { class: "insp-memory-side" });
  private readonly rows: InstructionRows;
  private readonly sorting = new Sorting<Share>(() => this.drawBody());
  private readonly sortingGroups = new Sorting<SharedGroup>(() => this.drawBody());
  private readonly map = h("div", { class: "insp-scroll", tabindex: 0, "aria-label": "Live buffers as areas" });
  private readonly donations = new DonationTable();
  private readonly known = new WeakMap<Message<"memory">, messages.MemoryBuffers>();
  private room = "";
  /** The buffers of the active variant; null if they are unknown. */
  private shown: { message: Message<"memory">; buffers: messages.MemoryBuffers } | null = null;
  /** All variants, if the buffers of several are known. */
  private columns: readonly MemoryColumn[] = [];
  /** The messages on screen. */
  private drawn: readonly unknown[] = [];
  private tiles: { name: string; element: Element }[] = [];

  constructor(context: Context) {
    super(context, "memory");
    this.rows = new InstructionRows("Live buffers", context.local, "memory");
    this.compared = new MemoryTable(context, this.chart);
    const copied = (): string => {
      if (!this.shown) return "";
      if (this.form.value === "donations") return this.donations.text();
      if (this.isShared) return this.sortingGroups.text(this.sortingGroups.sorted(this.groups()));
      return this.sorting.text(this.sorting.sorted(this.all()));
    };
    const copy = copyButton(copied, "compiled.timeline().table()");
    this.tools.append(this.rooms, this.form.element, this.by.element, copy);
    this.watch(this.chart.element);
    this.watch(this.map);
  }

  protected draw(): void {
    const { synced, local } = this.context;
    const known = synced.ordered.flatMap((variant) => synced.latest("memory", { variant }) ?? []);
    const recorded = known.filter(({ rooms }) => rooms.length);
    const message = recorded.find(({ variant }) => variant === local.active) ?? null;
    const isCompared = recorded.length > 1;
    const choices = choicesOf((isCompared ? recorded : message ? [message] : []).map(({ rooms }) => rooms));
    for (const tool of this.tools.children) (tool as HTMLElement).hidden = !message;
    this.rooms.hidden = choices.length < 2;
    if (!message && !isCompared) return this.say(this.absence());
    if (!choices.includes(this.room)) this.room = initialChoice(choices, (message ?? recorded[0]!).rooms);
    this.columns = isCompared ? synced.ordered.map((variant) => this.columnOf(synced.variants.get(variant)!)) : [];
    const drawn = [local.active, isCompared, ...(isCompared ? recorded : [message, this.others().length])];
    if (isSame(drawn, this.drawn)) return isCompared ? this.compared.show(this.columns, this.room) : undefined;
    this.drawn = drawn;
    this.shown = message && { message, buffers: this.buffersOf(message) };
    if (message?.donations) this.donations.show(message); // older recordings have none
    fill(this.rooms, ...choices.map((name) => h("option", { value: name }, name)));
    fill(this.picture, this.chart.element, isCompared ? this.compared.element : this.words);
    fill(this.side, ...(message ? [isCompared && this.words] : [this.absence()]));
    fill(this.element, this.picture, this.border, this.side);
    this.chooseRoom(this.room);
  }

  /** Returns the reason why the buffers of the active variant are unknown. */
  private absence(): HTMLElement {
    const message = this.context.synced.latest("memory", { variant: this.context.local.active });
    return message ? empty("No buffers", message.note) : absence(this.context, "buffers", "Buffers", WHAT);
  }

  private columnOf(variant: Timed<messages.VariantMessage>): MemoryColumn {
    const { synced } = this.context;
    const message = synced.latest("memory", { variant: variant.variant });
    const recording = synced.latest("recording", { variant: variant.variant, product: "buffers" });
    const room = message?.rooms[roomAt(message.rooms, this.room)];
    const isOneTarget = [...synced.variants.values()].every(({ target }) => target === variant.target);
    const label = isOneTarget ? variant.label : textOf(variant);
    const curve = room
      ? {
          variant: variant.variant,
          label,
          room,
          schedule: this.buffersOf(message!).schedule,
          style: variant.variant,
        }
      : null;
    const canRecord = !message && variant.state === "done" && !synced.isAlone && !(recording && goesOn(recording));
    return {
      variant,
      label: label + (message?.is_estimated ? " (estimated)" : ""),
      message,
      curve,
      reason: reasonOf(variant, message, recording, this.room),
      canRecord,
    };
  }

  private buffersOf(message: Message<"memory">): messages.MemoryBuffers {
    let buffers = this.known.get(message);
    if (!buffers) {
      buffers = decodeJson<messages.MemoryBuffers>(this.context.synced.parts(message)[0]!);
      this.known.set(message, buffers);
    }
    return buffers;
  }

  protected mark(): void {
    this.rows.mark();
    const levelOf = this.context.local.levelsOfInstructions("optimized");
    for (const { name, element } of this.tiles) lightUp(element, levelOf(name));
  }

  protected override showPart(part: string): void {
    this.form.choose(part as Form);
  }

  protected override resize(): void {
    if (!this.drawn.length) return;
    this.chart.draw();
    if (this.shown && this.form.value === "map") this.drawBody();
  }

  private say(state: HTMLElement): void {
    this.shown = null;
    this.columns = [];
    this.drawn = [];
    fill(this.element, state);
  }

  private chooseRoom(name: string): void {
    this.room = this.rooms.value = name;
    const { variant } = this.context.local;
    this.columns = this.columns.map((column) => this.columnOf(column.variant));
    const only = this.shown && !this.columns.length ? this.columnOf(variant!).curve : null;
    const curves = only ? [{ ...only, style: 0 }] : this.columns.flatMap(({ curve }) => curve ?? []);
    this.chart.show(curves, curves.find((curve) => curve.variant === this.context.local.active) ?? null);
    if (this.columns.length) this.compared.show(this.columns, this.room);
    this.drawBuffers();
  }

  /** Selects a variant and its largest temporary at the selected position; an argument if there is none. */
  private pick(curve: HeapCurve): void {
    this.context.local.setActive(curve.variant);
    if (!this.shown) return;
    const { buffers } = this.shown;
    const rows = this.living;
    const row = rows.find((each) => buffers.texts[buffers.kind[each]!] === "temporary") ?? rows[0];
    if (row === undefined) return;
    this.context.local.selectInstruction("memory", "optimized", buffers.texts[buffers.instruction[row]!]!);
  }

  private get place(): number {
    return roomAt(this.shown!.message.rooms, this.room);
  }

  private get living(): number[] {
    return alive(this.shown!.buffers, this.place, this.chart.at(this.curve));
  }

  /** The curve of the active variant; null if it does not have the chosen memory. */
  private get curve(): HeapCurve | null {
    const { active } = this.context.local;
    return this.chart.curves.find(({ variant }) => variant === active) ?? null;
  }

  /** Describes the selected position. */
  private drawMoment(): void {
    if (this.columns.length) this.compared.draw();
    this.drawBuffers();
  }

  private drawBuffers(): void {
    if (!this.shown) return;
    const rows = this.living;
    this.drawWords(rows);
    this.drawBody(rows);
  }

  private drawWords(rows: readonly number[] = this.living): void {
    const { message, buffers } = this.shown!;
    const room = message.rooms[this.place];
    if (!room) return fill(this.words, h("div", { class: "insp-dim" }, `This program has no ${this.room}.`));
    const at = this.chart.at(this.curve);
    const { isPeak } = this.chart;
    const live = liveAt(room.curve, at);
    const temporary = rows.filter((row) => buffers.texts[buffers.kind[row]!] === "temporary");
    const largest = shares(buffers, temporary, "scope").find(({ name }) => name);
    const gaps = room.temp_bytes - room.live_bytes - room.untraced_bytes;
    const size = (bytes: number): string => format(bytes, "bytes");
    const excess = overflow(room);
    const parts = [
      message.is_estimated && h("span", { class: "insp-heap-estimated" }, ESTIMATED),
      excess > 0 && h("span", { class: "insp-bad" }, `✗ Out of memory: ${size(excess)} more than the capacity.`),
      `${room.name}${room.capacity_bytes === null ? "" : ` of ${size(room.capacity_bytes)}`}:` +
        ` ${size(alwaysIn(room))} of arguments, outputs and constants;` +
        (message.is_estimated
          ? ` ${size(room.temp_bytes)} of temporaries at the peak.`
          : ` ${size(room.temp_bytes)} allocated for temporaries${gaps > 0 ? `, including ${size(gaps)} of gaps.` : "."}`),
      largest &&
        `${size(largest.bytes)} of these temporaries belong to ${largest.name}` +
          (temporary.length > 1 ? ` (${plural(largest.count, "buffer")} of ${grouped(temporary.length)}).` : "."),
      message.unused.length && `Donated but not reused by any output: ${message.unused.join(", ")}.`,
      buffers.left_out && `${plural(buffers.left_out, "smaller buffer")} left out.`,
    ];
    const name = buffers.schedule[at];
    const select = (): void => this.context.local.selectInstruction("memory", "optimized", name!);
    const toPeak = (): void => this.chart.toPeak();
    const { curve } = this;
    fill(
      this.words,
      h(
        "div",
        {},
        this.columns.length && curve ? h("span", { class: "insp-heap-of" }, swatch(curve.style), curve.label) : null,
        h(
          "b",
          {},
          isPeak
            ? `${message.is_estimated ? "Estimated peak" : "Peak"}: ${size(alwaysIn(room) + room.temp_bytes)}, with ${size(live)} of live temporaries`
            : `Selected position: ${size(live)} of temporaries`,
        ),
        ` at position ${grouped(at)} `,
        name && h("button", { type: "button", class: "insp-link", onclick: select }, name),
        !isPeak && h("button", { type: "button", class: "insp-button", onclick: toPeak }, "Go to peak"),
      ),
      ...parts.map((part) => (part ? h("div", { class: "insp-dim" }, part) : null)),
      this.columns.length ? null : this.offer(),
    );
  }

  /** Returns the variants that can be recorded. */
  private others(): number[] {
    return [...this.context.synced.variants.values()]
      .filter((variant) => this.columnOf(variant).canRecord)
      .map(({ variant }) => variant);
  }

  /** Offers to record the other variants, so that they can be compared. */
  private offer(): HTMLElement | null {
    const { synced } = this.context;
    const others = this.others();
    if (!others.length) return null;
    const record = (): void =>
      others.forEach((variant) => synced.send({ type: "record", variant, product: "buffers" }));
    const text = `Record ${plural(others.length, "other variant")} to compare`;
    return h("div", {}, textButton(text, "Compile again and record", record));
  }

  private all(rows: readonly number[] = this.living): Share[] {
    return shares(this.shown!.buffers, rows, this.by.value);
  }

  private drawBody(rows: readonly number[] = this.living): void {
    const bodies = { table: this.rows.element, map: this.map, donations: this.donations.element };
    const body = bodies[this.form.value];
    for (const other of Object.values(bodies)) if (other !== body) other.remove();
    if (!body.isConnected) this.side.append(body);
    const { classList } = this.rows.element;
    classList.toggle("insp-memory-shared", this.isShared);
    classList.toggle("insp-memory-buffers", this.by.value === "buffer");
    this.tiles = [];
    if (body === this.map) this.drawMap(this.all(rows));
    else if (body !== this.rows.element) return this.mark();
    else if (this.isShared) this.drawGroups();
    else this.drawTable(this.all(rows));
    this.mark();
  }

  private drawTable(all: readonly Share[]): void {
    const by = this.by.value;
    const total = all.reduce((sum, { bytes }) => sum + bytes, 0);
    const units = {
      bytes: unitOfBytes(all.map(({ bytes }) => bytes)),
      padding: unitOfBytes(all.map(({ padding }) => padding)),
    };
    const columns = columnsOf(this.shown!.buffers, by, total, units);
    this.sorting.show(columns, "bytes");
    const listed = this.sorting.sorted(all).slice(0, MOST_ROWS);
    const order = columns.find(({ name }) => name === this.sorting.by)!.text.replace(/ \(.*/, "");
    this.rows.show(
      all.length > listed.length
        ? `First ${grouped(listed.length)} of ${grouped(all.length)} ${namesOf(by)}, by ${order}.`
        : "",
      this.sorting.head,
      listed.map((share) => this.row(share, by === "buffer", total, units)),
    );
  }

  /** Whether the rows have a column for each variant. */
  private get isShared(): boolean {
    return this.columns.length > 0 && this.form.value === "table" && this.by.value !== "buffer";
  }

  /** Returns the variants with columns of bytes. */
  private get sharing(): { variant: Timed<messages.VariantMessage>; message: Message<"memory">; curve: HeapCurve }[] {
    return this.columns.flatMap(({ variant, message, curve }) =>
      curve ? [{ variant, message: message!, curve }] : [],
    );
  }

  private groups(): SharedGroup[] {
    return sideBySide(
      this.sharing.map(({ message, curve }) => {
        const buffers = this.buffersOf(message);
        return shares(buffers, alive(buffers, roomAt(message.rooms, this.room), this.chart.at(curve)), this.by.value);
      }),
    );
  }

  /** Draws groups of buffers with a column for each variant. */
  private drawGroups(): void {
    const { sharing } = this;
    const variants = sharing.map(({ variant }) => variant);
    const { places, names } = referencesOf(this.context, variants);
    const active = variants.findIndex(({ variant }) => variant === this.context.local.active);
    this.sortingGroups.show(
      [
        {
          name: this.by.value,
          text: namesOf(this.by.value).slice(0, -1),
          title: "By name",
          value: ({ name }) => name || null,
        },
        ...sharing.map(({ curve }, i): Column<SharedGroup> => ({
          name: `bytes ${curve.label}`,
          text: curve.label,
          title: `Bytes of ${curve.label} at ${this.chart.place}`,
          isNumber: true,
          value: (group) => group.shares[i]?.bytes ?? 0,
        })),
      ],
      `bytes ${sharing[Math.max(0, active)]!.curve.label}`,
    );
    const all = this.groups();
    const listed = this.sortingGroups.sorted(all).slice(0, MOST_ROWS);
    const buffers = this.shown!.buffers;
    this.rows.show(
      all.length > listed.length
        ? `First ${grouped(listed.length)} of ${grouped(all.length)} ${namesOf(this.by.value)}.`
        : "",
      this.sortingGroups.head,
      listed.map(({ name, shares: columns }) => ({
        instruction: columns[active] ? buffers.texts[buffers.instruction[columns[active].row]!]! : "",
        cells: () => [
          h("th", { scope: "row", title: name }, h("bdi", {}, name || h("span", { class: "insp-dim" }, "unknown"))),
          ...columns.map((share, i) => bytesCell(share, columns[places[i]!] ?? null, names[i]!)),
        ],
      })),
    );
  }

  private row(
    { name, row, bytes, padding, count }: Share,
    isBuffers: boolean,
    total: number,
    units: Units,
  ): InstructionRow {
    const { buffers } = this.shown!;
    const cell = (column: number[]): string => buffers.texts[column[row]!]!;
    const dim = (words: string): HTMLElement => h("span", { class: "insp-dim" }, words);
    const line = cell(buffers.line);
    return {
      instruction: cell(buffers.instruction),
      cells: () => [
        h("th", { scope: "row", title: name }, name || dim("unknown")),
        isBuffers && h("td", { title: line }, baseName(line) || dim("unknown")),
        h("td", { class: "insp-number", title: plural(bytes, "byte") }, bytesIn(units.bytes, bytes)),
        shareCell(bytes / Math.max(1, total)),
        isBuffers ? h("td", {}, cell(buffers.kind)) : h("td", { class: "insp-number" }, grouped(count)),
        units.padding !== null &&
          numberCell(padding, (value) => bytesIn(units.padding, value), plural(padding, "byte")),
        isBuffers && h("td", { class: "insp-number" }, grouped(buffers.start[row]!)),
        isBuffers && h("td", { class: "insp-number" }, grouped(buffers.end[row]!)),
        isBuffers && h("td", {}, cell(buffers.phase) || dim("–")),
        !isBuffers && h("td", {}, h("code", {}, cell(buffers.name))),
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

/** Returns the reason why the curve of a variant is unknown. */
function reasonOf(
  { state }: messages.VariantMessage,
  message: Message<"memory"> | null,
  recording: Message<"recording"> | null,
  room: string,
): string {
  if (message) return message.rooms.length ? `this program has no ${room}` : message.note;
  if (state === "failed") return "this variant failed";
  if (state === "cancelled") return "this variant was canceled";
  if (state !== "done") return "compiling";
  if (recording?.state === "failed") return recording.error?.message ?? "recording failed";
  return recording && goesOn(recording) ? "being recorded" : "not recorded";
}

/** Returns the bytes of a group, and the difference from the variant that its variant is compared with. */
function bytesCell(share: Share | null, base: Share | null, against: string | null): HTMLElement {
  const [bytes, before] = [share?.bytes ?? 0, base?.bytes ?? 0];
  const delta = bytes - before;
  const change = delta ? `${formatDelta(delta, "bytes")} (${formatPercent(bytes, before)})` : "=";
  const verdict = delta < 0 ? "better" : delta > 0 ? "worse" : "same";
  return h(
    "td",
    { class: "insp-number" },
    h("span", { class: share ? "" : "insp-dim", title: plural(bytes, "byte") }, share ? format(bytes, "bytes") : "–"),
    against !== null &&
      h("span", { class: `insp-memory-delta insp-${verdict}`, title: `Compared with ${against}` }, change),
  );
}

const isSame = (one: readonly unknown[], other: readonly unknown[]): boolean =>
  one.length === other.length && one.every((each, i) => each === other[i]);

/** Returns the name of the rows in the plural, such as "buffers". */
function namesOf(by: GroupedBy): string {
  return BY.find(({ value }) => value === by)!.text.toLowerCase();
}

/** The units of the columns; null if there is none that fits. Padding has none if there is no padding. */
interface Units {
  readonly bytes: Unit | null;
  readonly padding: Unit | null;
}

function columnsOf(
  buffers: messages.MemoryBuffers,
  by: GroupedBy,
  total: number,
  units: Units,
): readonly Column<Share>[] {
  const text = (column: readonly number[]) => (share: Share) => buffers.texts[column[share.row]!] || null;
  const own: readonly Column<Share>[] = [
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
  ];
  const buffersColumn: Column<Share> = {
    name: "buffers",
    text: "buffers",
    title: "Number of buffers",
    isNumber: true,
    value: ({ count }) => count,
  };
  const largest: Column<Share> = {
    name: "largest",
    text: "largest",
    title: "By name of the largest buffer",
    value: text(buffers.name),
  };
  const isBuffers = by === "buffer";
  const withUnit = (word: string, unit: Unit | null): string => (unit ? `${word} (${unit.name})` : word);
  const source: Column<Share> = {
    name: "source",
    text: "source",
    title: "Line of your code",
    value: text(buffers.line),
  };
  const kind: Column<Share> = { name: "kind", text: "kind", title: "By kind", value: text(buffers.kind) };
  const padding: Column<Share> = {
    name: "padding",
    text: withUnit("padding", units.padding),
    title: "Bytes without elements, such as the padding of TPU tiles",
    isNumber: true,
    value: ({ padding: bytes }) => bytes,
  };
  return [
    { name: by, text: namesOf(by).slice(0, -1), title: "By name", value: ({ name }) => name || null },
    ...(isBuffers ? [source] : []),
    {
      name: "bytes",
      text: withUnit("bytes", units.bytes),
      title: "Bytes",
      isNumber: true,
      value: ({ bytes }) => bytes,
    },
    {
      name: "share",
      text: "share",
      title: "Share of all live bytes at this position",
      isNumber: true,
      value: ({ bytes }) => bytes / Math.max(1, total),
    },
    isBuffers ? kind : buffersColumn,
    ...(units.padding ? [padding] : []),
    ...(isBuffers ? own : [largest]),
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
