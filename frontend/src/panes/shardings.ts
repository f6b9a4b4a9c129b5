// The shardings of the arguments, results and inner values of a program, and a drawing of the selected one.

import { type Choice, Switcher } from "../lib/controls.ts";
import { copyButton } from "../lib/copying.ts";
import { cellOf, columnsOf, textOf } from "../lib/described.ts";
import { fill, h, svg, update } from "../lib/dom.ts";
import { grouped, plural } from "../lib/format.ts";
import { type Part, partShape, partsOf, shownDimensions, type Split } from "../lib/parts.ts";
import { Sorting } from "../lib/sorting.ts";
import { listSplitter } from "../lib/splitter.ts";
import { StickyColumns } from "../lib/stickycolumns.ts";
import { withoutEmpty, withUnitsInHeads } from "../lib/units.ts";
import type * as messages from "../messages.ts";
import { COLORS } from "./mesh.ts";
import { type Context, Drawing, follow, type Pane } from "./pane.ts";
import { sourceLink } from "./sourcelink.ts";
import { goesOn } from "../state/synced.ts";
import { recordButton } from "./recording.ts";
import { awaited, empty, spinner, unfinished } from "./states.ts";
import "../styles/shardings.css";

const SIDE = 240;
const LEAST = 16;
/** Largest number of parts that are drawn. The table covers larger arrays. */
const MOST_PARTS = 1024;
const MOST_IDS = 6;

type Row = messages.ShardedArray;
type Filter = "all" | "differs";

const FILTERS: Choice<Filter>[] = [
  { value: "all", text: "All arrays" },
  {
    value: "differs",
    text: "Differs from request",
    title: "Arguments and results whose sharding is not the PartitionSpec of your code",
  },
];

class ShardingsPane implements Pane {
  readonly element = h("div", { class: "insp-collectives insp-shardings" });
  readonly tools = h("div", { class: "insp-tools" });
  private readonly drawing = new Drawing(() => this.draw());
  private readonly sorting = new Sorting<Row>(() => this.drawRows());
  private readonly filter = new Switcher<Filter>("Listed arrays", FILTERS, "all", () => this.drawRows());
  private readonly body = h("tbody");
  private readonly none = h("div", { class: "insp-note", role: "status", hidden: true });
  private readonly more = h("div", { class: "insp-note", role: "status" });
  private readonly side = h("div", { class: "insp-collective-side insp-scroll" });
  private readonly border = listSplitter(
    "Array list width",
    this.element,
    () => this.element.firstElementChild as HTMLElement,
  );
  private readonly ends: (() => void)[];
  /** The message that was drawn last, and the table that shows it. */
  private list: messages.ShardingList | null = null;
  private table: messages.ShardingList | null = null;
  private rows: readonly Row[] = [];
  private chosen: Row | null = null;

  constructor(private readonly context: Context) {
    const copied = (): string => (this.list ? this.sorting.text(this.rows) : "");
    this.tools.append(this.filter.element, copyButton(copied, "lowered.shardings(compiled).table()"));
    this.ends = [follow(context, "shardings", this.drawing), context.local.signal.on(["active"], this.drawing.request)];
  }

  setVisible(visible: boolean): void {
    this.drawing.setVisible(visible);
  }

  destroy(): void {
    this.ends.forEach((end) => end());
  }

  private draw(): void {
    const { synced, local } = this.context;
    const list = synced.latest("sharding_list", { variant: local.active });
    if (!list?.rows.length) {
      this.list = null;
      const absence =
        unfinished(local.variant, "shardings") ?? awaited(synced, "Reading shardings", "Shardings not received");
      return fill(this.element, list ? empty("No sharded arrays", list.note) : absence);
    }
    this.drawMore(list);
    if (this.list === list) return;
    const before = this.chosen?.name;
    this.list = list;
    this.table = withUnitsInHeads(withoutEmpty(list, "source"));
    this.sorting.show(columnsOf(this.table.columns, VALUES));
    this.chosen = this.table.rows.find(({ name }) => name === before) ?? this.table.rows[0]!;
    const table = h("table", { class: "insp-table" }, h("thead", {}, this.sorting.head), this.body);
    const scroller = h("div", { class: "insp-collective-list insp-scroll" }, table, this.none, this.more);
    const sticky = new StickyColumns(table);
    sticky.show(this.sorting.head);
    scroller.addEventListener("scroll", () => sticky.place(scroller));
    fill(this.element, scroller, this.border, this.side);
    this.drawRows();
    this.drawSide();
  }

  /** Explains what the list lacks: arrays beyond its limit, and inner values until the compiler passes are recorded. */
  private drawMore({ left_out: leftOut, has_values: hasValues }: messages.ShardingList): void {
    const { synced, local } = this.context;
    const { variant } = local;
    const parts: (HTMLElement | string)[] = leftOut ? [`${plural(leftOut, "more array")}. `] : [];
    if (hasValues === false && variant?.state === "done" && !synced.isAlone) {
      const recording = synced.latest("recording", { variant: variant.variant, product: "passes" });
      if (recording && goesOn(recording)) parts.push(spinner(), " Recording the shardings of inner values.");
      else if (recording?.state !== "done")
        parts.push(
          "Record the compiler passes to see the shardings of inner values. ",
          recordButton(this.context, variant, "passes", "Record"),
        );
    }
    fill(this.more, ...parts);
    this.more.hidden = !parts.length;
  }

  private drawRows(): void {
    if (!this.table) return;
    const isFiltered = this.filter.value === "differs";
    const rows = isFiltered ? this.table.rows.filter(({ differs }) => differs) : this.table.rows;
    this.rows = this.sorting.sorted(rows);
    if (rows.length && !rows.includes(this.chosen!)) {
      this.chosen = this.rows[0]!;
      this.drawSide();
    }
    fill(this.body, ...this.rows.map((row, i) => this.row(row, i)));
    this.none.textContent = rows.length ? "" : agreement(this.table.rows);
    this.none.hidden = rows.length > 0;
  }

  private row(row: Row, index: number): HTMLElement {
    const isChosen = row === this.chosen;
    return h(
      "tr",
      {
        tabindex: isChosen ? 0 : -1,
        "aria-selected": String(isChosen),
        onclick: () => this.choose(row),
        onkeydown: ((e: KeyboardEvent) => this.key(e, index)) as EventListener,
      },
      ...this.table!.columns.map(
        (head, i) => this.special(head.name, row, textOf(row.cells[i]!)) ?? cellOf(head, row.cells[i]!),
      ),
    );
  }

  /** Returns a cell that is more than text; null for any other. */
  private special(column: string, row: Row, text: string): HTMLElement | null {
    if (column === "name") return h("th", { scope: "row", title: row.name }, row.name);
    if (column === "shape") return h("td", {}, h("code", {}, text));
    if (column === "split" && row.axes) return h("td", { title: row.text }, h("code", {}, text));
    if (column === "asked")
      return h("td", {}, row.asked ? h("code", {}, row.asked) : h("span", { class: "insp-dim" }, chooser(row)));
    if (column === "source") return h("td", {}, row.source && sourceLink(this.context, row.source));
    return null;
  }

  private key(e: KeyboardEvent, index: number): void {
    const step = { ArrowDown: 1, ArrowUp: -1, Enter: 0, " ": 0 }[e.key];
    if (step === undefined) return;
    e.preventDefault();
    const next = this.rows[Math.max(0, Math.min(this.rows.length - 1, index + step))]!;
    this.choose(next);
    this.body.querySelector<HTMLElement>("tr[aria-selected=true]")?.focus();
  }

  private choose(row: Row): void {
    this.chosen = row;
    [...this.body.rows].forEach((element, i) => {
      const isChosen = this.rows[i] === row;
      update(element, { tabindex: isChosen ? "0" : "-1", "aria-selected": String(isChosen) });
    });
    this.drawSide();
  }

  private splitOf({ shape, axes }: Row): Split {
    const { axis_names: axisNames, axis_sizes: axisSizes, ids } = this.list!;
    return { shape, axes: axes!, axisNames, axisSizes, ids };
  }

  private drawSide(): void {
    const row = this.chosen!;
    const title = h("div", { class: "insp-side-title" }, row.name, " ", h("code", {}, row.what));
    if (!row.axes) return fill(this.side, title, h("div", { class: "insp-dim" }, row.reason));
    fill(this.side, new PartsView(this.splitOf(row), row.replicated_over, title).element);
  }
}

/** A drawing of the parts in two dimensions of an array. The user can choose these, and the index in the others. */
class PartsView {
  readonly element = h("div", { class: "insp-parts" });
  private readonly parts: Part[];
  private readonly shown: number[];
  private readonly at: number[];
  private readonly picture = h("div", { class: "insp-parts-picture" });
  private readonly detail = h("div", { class: "insp-dim", "aria-live": "polite" });

  constructor(
    private readonly split: Split,
    over: readonly string[],
    title: HTMLElement,
  ) {
    this.parts = partsOf(split);
    this.shown = shownDimensions(split);
    this.at = split.shape.map(() => 0);
    const size = partShape(split).join("×") || "a scalar";
    const copies = this.parts[0] ? this.parts[0].ids.length : 0;
    const idle = this.parts.filter(({ ranges }) => ranges.some(([a, b]) => a === b)).flatMap(({ ids }) => ids);
    const facts = [
      `${plural(this.parts.length, "part")} of ${size}`,
      over.length > 0 && `each on ${plural(copies, "device")} (replicated over ${over.join(", ")})`,
      idle.length > 0 && `no elements on ${some(idle)}`,
      this.parts.some(({ isShort }) => isShort) &&
        "dashed parts are smaller, because a dimension does not divide evenly",
    ].filter(Boolean);
    this.element.append(
      title,
      h("div", { class: "insp-dim" }, facts.join("; ")),
      this.fields(),
      this.picture,
      this.detail,
    );
    this.draw();
  }

  private fields(): HTMLElement {
    const { shape, axes } = this.split;
    if (shape.length < 3) return h("div");
    const choice = (which: 0 | 1, label: string): HTMLElement => {
      const options = shape.map((_, d) =>
        h(
          "option",
          { value: d, selected: this.shown[which] === d },
          `${d}${axes[d]!.length ? ` (${axes[d]!.join("+")})` : ""}`,
        ),
      );
      const select = h("select", { class: "insp-select" }, ...options);
      select.addEventListener("change", () => {
        const other = this.shown[1 - which];
        if (other === select.selectedIndex) this.shown[1 - which] = this.shown[which]!;
        this.shown[which] = select.selectedIndex;
        fill(fields, ...this.choices(choice));
        this.draw();
      });
      return h("label", { class: "insp-field" }, label, select);
    };
    const fields = h("div", { class: "insp-parts-fields" }, ...this.choices(choice));
    return fields;
  }

  private choices(choice: (which: 0 | 1, label: string) => HTMLElement): HTMLElement[] {
    const rest = this.split.shape.flatMap((size, d) => {
      if (this.shown.includes(d) || size < 2 || !this.split.axes[d]!.length) return [];
      const field = h("input", {
        type: "number",
        min: 0,
        max: size - 1,
        value: this.at[d]!,
        "aria-label": `Index of dimension ${d}`,
      });
      field.addEventListener("input", () => {
        this.at[d] = Math.max(0, Math.min(size - 1, Number(field.value) || 0));
        this.draw();
      });
      return [h("label", { class: "insp-field" }, `Index of dimension ${d}`, field)];
    });
    return [choice(0, "Vertical"), choice(1, "Horizontal"), ...rest];
  }

  private draw(): void {
    const { shape } = this.split;
    const [down, across] = this.shown.length > 1 ? this.shown : [null, this.shown[0] ?? null];
    const inside = this.parts.filter(({ ranges }) =>
      ranges.every(([a, b], d) => d === down || d === across || (a <= this.at[d]! && this.at[d]! < b)),
    );
    const isEmpty = shape.some((size) => !size);
    if (isEmpty || inside.length > MOST_PARTS) {
      const why = isEmpty ? "The array is empty." : `${grouped(inside.length)} parts are too many to draw.`;
      return fill(this.picture, h("div", { class: "insp-dim" }, why));
    }
    const length = (d: number | null): number => (d === null ? 1 : shape[d]!);
    const pieces = (d: number | null): number =>
      d === null ? 1 : new Set(inside.map(({ ranges }) => ranges[d]![0])).size;
    const width = Math.max(SIDE, pieces(across) * LEAST * 2);
    const height = down === null ? 40 : Math.max(SIDE * 0.6, pieces(down) * LEAST);
    const x = (index: number): number => (index / length(across)) * width;
    const y = (index: number): number => (index / length(down)) * height;
    const drawing = svg("svg", {
      class: "insp-parts-svg",
      viewBox: `-1 -1 ${width + 2} ${height + 2}`,
      width: width + 2,
      height: height + 2,
      role: "img",
      "aria-label": `Parts of the array: ${inside
        .map((part) => this.words(part))
        .slice(0, 16)
        .join("; ")}`,
    });
    inside.forEach((part) => {
      const [left, right] = across === null ? [0, 1] : part.ranges[across]!;
      const [top, bottom] = down === null ? [0, 1] : part.ranges[down]!;
      if (left === right || top === bottom) return;
      const shape = svg(
        "g",
        { class: "insp-part", style: `--group:var(--insp-group-${this.parts.indexOf(part) % COLORS})` },
        svg("title", {}, this.words(part)),
        svg("rect", { x: x(left), y: y(top), width: x(right) - x(left), height: y(bottom) - y(top) }),
        part.isShort &&
          svg("rect", {
            class: "insp-part-short",
            x: x(left),
            y: y(top),
            width: x(right) - x(left),
            height: y(bottom) - y(top),
          }),
        svg(
          "text",
          { x: (x(left) + x(right)) / 2, y: (y(top) + y(bottom)) / 2 + 4 },
          this.idsText(part, x(right) - x(left)),
        ),
      );
      shape.addEventListener("mouseenter", () => (this.detail.textContent = this.words(part)));
      drawing.append(shape);
    });
    const said = (d: number | null): string => {
      if (d === null) return "";
      const by = this.split.axes[d]!;
      return `dimension ${d}${by.length ? `, split by ${by.join("+")}` : ", whole"}`;
    };
    fill(
      this.picture,
      h(
        "div",
        { class: "insp-dim" },
        [across !== null && `→ ${said(across)}`, down !== null && `↓ ${said(down)}`].filter(Boolean).join("   "),
      ),
      drawing,
    );
    this.detail.textContent = "Point at a part to see its indices and devices.";
  }

  private idsText({ ids }: Part, width: number): string {
    const most = Math.max(1, Math.min(MOST_IDS, Math.floor(width / 22)));
    return ids.length <= most ? ids.join(",") : `${ids.slice(0, Math.max(1, most - 1)).join(",")},…`;
  }

  private words({ ranges, ids, isShort }: Part): string {
    const indices = `[${ranges.map(([a, b]) => `${a}:${b}`).join(", ")}]`;
    return `${indices}${isShort ? ", smaller," : ""} on ${some(ids)}`;
  }
}

/** Returns the first ids and their total number. */
function some(ids: readonly number[]): string {
  return ids.length <= 32 ? ids.join(", ") : `${ids.slice(0, 32).join(", ")}, … (${grouped(ids.length)} in total)`;
}

/** Explains why no array differs from its request. */
function agreement(rows: readonly Row[]): string {
  const requested = rows.filter(({ asked }) => asked).length;
  return requested
    ? `XLA uses the requested sharding for all ${plural(requested, "array")} that your code requests one for.`
    : "Your code requests no shardings of arguments or results.";
}

function chooser({ kind }: Row): string {
  return kind === "constraint" ? "from the function" : kind === "value" ? "" : "chosen by XLA";
}

/** Values of cells with names that Python's description lacks: a notebook cell is `In [3]`. */
const VALUES: Record<string, (row: Row) => string | null> = {
  source: ({ source }) => source && `${source.file}:${source.line ?? ""}`,
};

export const pane = (context: Context): Pane => new ShardingsPane(context);
