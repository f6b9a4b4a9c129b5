// The kernels of the active variant under the roofs of its chip: a picture, and a table of where the least time goes.

import { type Choice, segments, textButton } from "../lib/controls.ts";
import { fill, h, svg, update } from "../lib/dom.ts";
import { baseName, format, formatRate, formatSeconds, grouped, plural } from "../lib/format.ts";
import { attainable, decade, rangeOf, ridge } from "../lib/roofplot.ts";
import type * as messages from "../messages.ts";
import { CHOSEN, LEVEL_CLASSES } from "../state/local.ts";
import type { Message } from "../state/synced.ts";
import { type Context, Drawing, follow, type Pane } from "./pane.ts";
import { awaited, empty, failure, loading } from "./states.ts";
import "../styles/roofline.css";

type By = messages.RooflineRequest["by"];

const BY: Choice<By>[] = [
  { value: "kernel", text: "Kernels", title: "Each kernel: a fusion, a product, a copy, a collective" },
  { value: "scope", text: "Scopes", title: "Kernels summed by JAX's name stack" },
  { value: "line", text: "Lines", title: "Kernels summed by the innermost Python line" },
  { value: "phase", text: "Phases", title: "Kernels summed by forward, backward, recomputed and the rest" },
  { value: "opcode", text: "Opcodes", title: "Kernels summed by opcode" },
  { value: "roof", text: "Roofs", title: "Kernels summed by the roof that they meet first" },
];
const MARGIN = { left: 46, right: 12, top: 10, bottom: 32 };
const SMALLEST = 2.5;
const LARGEST = 13;

class RooflinePane implements Pane {
  readonly element = h("div", { class: "insp-roofline" });
  readonly tools = h("div", { class: "insp-tools" });
  private readonly chart = h("div", { class: "insp-roofline-chart" });
  private readonly body = h("div", { class: "insp-roofline-body insp-scroll", tabindex: 0, "aria-label": "Roofline" });
  private readonly switcher = h("div", { class: "insp-segments", role: "group", "aria-label": "Rows" });
  private readonly drawing = new Drawing(() => this.draw());
  private readonly resized = new ResizeObserver(() => this.shown && this.drawChart(this.shown));
  private readonly ends: (() => void)[];
  private by: By = "kernel";
  /** Variants for which this machine's own roofs were asked for. */
  private readonly measured = new Set<number>();
  // Random start: two browsers on one kernel must not take each other's replies.
  private requestId = Math.floor(Math.random() * 2 ** 30);
  private requested = "";
  private shown: Message<"roofline"> | null = null;
  private rows: HTMLTableRowElement[] = [];
  private points: { name: string; mark: SVGCircleElement }[] = [];

  constructor(private readonly context: Context) {
    this.tools.append(this.switcher);
    this.resized.observe(this.chart);
    this.ends = [
      follow(context, "roofline", this.drawing),
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
    const variant = synced.variants.get(local.active ?? -1);
    this.tools.hidden = variant?.state !== "done";
    fill(
      this.switcher,
      ...segments(BY, this.by, (by) => {
        this.by = by;
        this.drawing.request();
      }),
    );
    if (!variant) return this.say(empty("No roofline yet", "It comes with the first compiled variant."));
    if (variant.state === "failed") return this.say(failure(variant.error, "No roofline: this variant failed"));
    if (variant.state === "cancelled") return this.say(empty("No roofline", "This variant was cancelled."));
    if (variant.state !== "done") return this.say(loading("Compiling", variant));
    this.request(variant.variant);
    const reply = synced.reply("roofline", this.requestId);
    if (!reply) {
      const isOther = this.shown?.variant === variant.variant && synced.notebookKernel !== "gone";
      this.element.classList.toggle("insp-busy", isOther);
      if (!isOther) this.say(awaited(synced, "Counting flops and bytes", "The roofline was not received"));
      return;
    }
    if (reply === this.shown) return;
    this.element.classList.remove("insp-busy");
    if (reply.error) return this.say(failure(reply.error, "The roofline cannot be made"));
    this.drawAll(reply);
  }

  /** Asks for what is wanted now, unless it was asked for. */
  private request(variant: number): void {
    const isMeasured = this.measured.has(variant);
    const wanted = [variant, this.by, isMeasured].join("/");
    if (wanted === this.requested) return;
    this.requested = wanted;
    this.context.synced.send({
      type: "roofline",
      id: ++this.requestId,
      variant,
      by: this.by,
      is_measured: isMeasured,
    });
  }

  private say(state: HTMLElement): void {
    this.shown = null;
    this.rows = [];
    this.points = [];
    fill(this.element, state);
  }

  private drawAll(reply: Message<"roofline">): void {
    this.shown = reply;
    fill(this.element, this.chart, this.body);
    this.drawChart(reply);
    this.drawTable(reply);
    this.mark();
  }

  private drawChart(reply: Message<"roofline">): void {
    const { peak } = reply;
    this.points = [];
    if (!peak) return fill(this.chart, this.noRoofs(reply));
    const [width, height] = [this.chart.clientWidth, this.chart.clientHeight - 46];
    if (width < 120 || height < 80) return fill(this.chart, this.caption(reply));
    const range = rangeOf(
      peak,
      reply.points.map((point) => point.intensity ?? 0),
    );
    const x = (power: number): number =>
      MARGIN.left + ((power - range.left) / (range.right - range.left)) * (width - MARGIN.left - MARGIN.right);
    const y = (power: number): number =>
      height -
      MARGIN.bottom -
      ((power - range.bottom) / (range.top - range.bottom)) * (height - MARGIN.top - MARGIN.bottom);
    const powers = (from: number, to: number, room: number): number[] => {
      const step = Math.max(1, Math.ceil((to - from) / Math.max(1, room)));
      return Array.from({ length: to - from + 1 }, (_, i) => from + i).filter((power) => (power - from) % step === 0);
    };
    const across = powers(range.left, range.right, width / 50);
    const up = powers(range.bottom, range.top, height / 26);
    const corner = Math.log10(ridge(peak) ?? 10 ** range.right);
    const roof = [range.left, Math.min(corner, range.right), range.right].map(
      (power) => `${x(power)},${y(Math.log10(attainable(peak, 10 ** power)))}`,
    );
    const picture = svg(
      "svg",
      { width, height, role: "img", "aria-label": "Kernels under the roofs; the table has the same" },
      ...across.map((power) =>
        svg("line", {
          class: "insp-roof-grid",
          x1: x(power),
          x2: x(power),
          y1: MARGIN.top,
          y2: height - MARGIN.bottom,
        }),
      ),
      ...up.map((power) =>
        svg("line", { class: "insp-roof-grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(power), y2: y(power) }),
      ),
      ...across.map((power) =>
        svg("text", { x: x(power), y: height - MARGIN.bottom + 13, "text-anchor": "middle" }, decade(power)),
      ),
      ...up.map((power) => svg("text", { x: MARGIN.left - 5, y: y(power) + 3, "text-anchor": "end" }, decade(power))),
      svg(
        "text",
        { x: (MARGIN.left + width) / 2, y: height - 4, "text-anchor": "middle" },
        "across: flop a byte; up: attainable flop/s",
      ),
      svg("polyline", { class: "insp-roof", points: roof.join(" ") }),
    );
    const largest = Math.max(...reply.points.map((point) => point.share ?? 0), 1e-9);
    // The largest first, so that small ones lie on top.
    for (const point of [...reply.points].sort((a, b) => (b.share ?? 0) - (a.share ?? 0))) {
      const power = point.intensity ? Math.log10(point.intensity) : range.left;
      const rate = attainable(peak, 10 ** power);
      const r = SMALLEST + (LARGEST - SMALLEST) * Math.sqrt((point.share ?? 0) / largest);
      const mark = svg(
        "circle",
        {
          class: `insp-roof-point insp-roof-${point.bound_by || "unknown"}`,
          cx: x(power),
          cy: y(Math.log10(rate)),
          r,
          onclick: () => this.choose(point),
        },
        svg("title", {}, titleOf(point)),
      );
      picture.append(mark);
      this.points.push({ name: point.instruction, mark });
    }
    fill(this.chart, this.caption(reply), picture);
  }

  private caption({ peak, total }: Message<"roofline">): HTMLElement {
    const flat =
      peak!.flops_per_s === null ? peak!.reason : `${formatRate(peak!.flops_per_s, "flop/s")} in ${peak!.name}`;
    const least =
      total?.least_s == null
        ? "least time unknown"
        : `at least ${formatSeconds(total.least_s)}${total.bound_by ? `, bound by ${total.bound_by}` : ""}`;
    return h(
      "div",
      { class: "insp-roofline-caption" },
      h("div", {}, h("b", {}, least), total?.unknown && h("span", { class: "insp-dim" }, ` (${total.unknown})`)),
      h(
        "div",
        { class: "insp-dim", title: `${peak!.source}` },
        `${peak!.chip}: ${flat}, ${formatRate(peak!.memory_bytes_per_s, "B/s")}; ${peak!.source}`,
      ),
    );
  }

  private noRoofs(reply: Message<"roofline">): HTMLElement {
    const measure = (): void => {
      this.measured.add(reply.variant);
      this.drawing.request();
    };
    const button = textButton(
      "Measure this machine",
      "A matrix product and a copy with NumPy: about a second",
      measure,
    );
    return reply.can_measure
      ? empty("No published roofs of this CPU", "Its share of a machine can be measured.", button)
      : empty("No roofs", reply.reason);
  }

  private drawTable(reply: Message<"roofline">): void {
    const isKernels = this.by === "kernel";
    this.rows = reply.rows.map((row, i) => this.row(row, i, isKernels));
    const heading = (text: string, isNumber = false, title = ""): HTMLElement =>
      h("th", { scope: "col", class: isNumber ? "insp-number" : "", title }, text);
    const what = BY.find(({ value }) => value === this.by)!.text.toLowerCase();
    const head = h(
      "tr",
      {},
      heading(isKernels ? "kernel" : what.slice(0, -1)),
      isKernels ? heading("opcode") : heading("kernels", true),
      heading("least time", true, "At the roof that it meets first, all executions"),
      heading("share", true, "Of the times of all kernels"),
      isKernels && heading("bound by"),
      heading("flops", true),
      heading("bytes", true, "Of the main memory"),
      heading("links", true, "Bytes that one device sends to others"),
      isKernels ? heading("source") : heading("slowest kernel"),
    );
    const isCut = reply.rows.length < reply.count;
    fill(
      this.body,
      isCut &&
        h(
          "div",
          { class: "insp-note" },
          `The slowest ${grouped(reply.rows.length)} of ${grouped(reply.count)} ${what}.`,
        ),
      h("table", { class: "insp-table insp-rows" }, h("thead", {}, head), h("tbody", {}, ...this.rows)),
    );
  }

  private row(row: messages.RooflineRow, index: number, isKernels: boolean): HTMLTableRowElement {
    const number = (value: number | null, text: (value: number) => string): HTMLElement => {
      const title = value === null ? row.unknown || "not known" : row.unknown;
      return h(
        "td",
        { class: value ? "insp-number" : "insp-number insp-dim", title },
        value === null ? "–" : text(value),
      );
    };
    const source = row.source && `${baseName(row.source.file)}${row.source.line === null ? "" : `:${row.source.line}`}`;
    const isPartly = row.unknown !== "" && row.least_s !== null;
    const name = row.name ?? h("span", { class: "insp-dim" }, "not known");
    return h(
      "tr",
      {
        tabindex: index === 0 ? 0 : -1,
        "aria-selected": "false",
        onclick: () => this.choose(row),
        onkeydown: ((e: KeyboardEvent) => this.key(e, index)) as EventListener,
      },
      h(
        "th",
        { scope: "row", class: "insp-roofline-name", title: row.name ?? "" },
        this.by === "line" && row.source ? source : name,
      ),
      isKernels
        ? h("td", {}, h("span", { class: "insp-tok-op" }, row.opcode))
        : h("td", { class: "insp-number", title: plural(row.kernels, "kernel") }, grouped(row.kernels)),
      number(row.least_s, (value) => `${isPartly ? "≥ " : ""}${formatSeconds(value)}`),
      h(
        "td",
        { class: "insp-number insp-roofline-share", style: `--share:${(row.share ?? 0).toFixed(4)}` },
        row.share === null ? "–" : `${(100 * row.share).toFixed(1)} %`,
      ),
      isKernels &&
        h(
          "td",
          {},
          h("span", { class: `insp-roof-key insp-roof-${row.bound_by || "unknown"}` }),
          row.bound_by || "unknown",
        ),
      number(row.flops, (value) => format(value, "count")),
      number(row.main_memory_bytes, (value) => format(value, "bytes")),
      number(row.link_bytes, (value) => (value ? format(value, "bytes") : "–")),
      isKernels
        ? h("td", { title: row.source?.file ?? "" }, source ?? h("span", { class: "insp-dim" }, "unknown"))
        : h("td", {}, h("code", {}, row.instruction)),
    );
  }

  private key(e: KeyboardEvent, index: number): void {
    const step = { ArrowDown: 1, ArrowUp: -1, Enter: 0, " ": 0 }[e.key];
    if (step === undefined) return;
    e.preventDefault();
    const next = Math.max(0, Math.min(this.rows.length - 1, index + step));
    this.rows[next]!.focus({ preventScroll: false });
    this.choose(this.shown!.rows[next]!);
  }

  /** Selects the kernel, or the slowest of several, so that its line in every text is lit and shown. */
  private choose(row: messages.RooflineRow): void {
    this.context.local.selectInstruction("roofline", "optimized", row.instruction);
  }

  /** Lights the rows and points that belong to the selection. */
  private mark(): void {
    const { local } = this.context;
    const levelOf = (name: string): number => local.levelOfInstruction("optimized", name);
    this.shown?.rows.forEach(({ instruction }, i) => {
      const level = levelOf(instruction);
      if (this.rows[i])
        update(this.rows[i], { class: LEVEL_CLASSES[level]!, "aria-selected": String(level === CHOSEN) });
    });
    for (const { name, mark } of this.points) {
      const level = levelOf(name);
      LEVEL_CLASSES.forEach((each, i) => each && mark.classList.toggle(each, i === level));
    }
  }
}

function titleOf(point: messages.RooflineRow): string {
  const least = point.least_s === null ? "time unknown" : `at least ${formatSeconds(point.least_s)}`;
  const share = point.share === null ? "" : `, ${(100 * point.share).toFixed(1)} % of all kernels`;
  const intensity = point.intensity === null ? "" : `\n${point.intensity.toPrecision(3)} flop a byte`;
  const bound = point.bound_by ? `\nbound by ${point.bound_by}` : "";
  return `${point.name} (${point.opcode})\n${least}${share}${intensity}${bound}${point.unknown ? `\n${point.unknown}` : ""}`;
}

export const pane = (context: Context): Pane => new RooflinePane(context);
