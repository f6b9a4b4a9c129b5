// A strip of the passes of a compile: the duration of each pass, the module's counts after it, and the selected pass.

import { drag, fill, h, svg, update } from "../lib/dom.ts";
import { format, formatDelta, formatSeconds, grouped } from "../lib/format.ts";
import {
  barsPath,
  type Count,
  countsBefore,
  curvePath,
  nearest,
  nextOf,
  type Scale,
  timeParts,
} from "../lib/passcurves.ts";
import type * as messages from "../messages.ts";

const CURVES: readonly { count: Count; text: string; unit: "count" | "bytes" }[] = [
  { count: "instructions", text: "instructions", unit: "count" },
  { count: "fusions", text: "fusions", unit: "count" },
  { count: "written_bytes", text: "written", unit: "bytes" },
  { count: "collectives", text: "collectives", unit: "count" },
];
const PAGE = 10;

/** Lengths of the dashes and gaps of each curve. */
const DASHES = [
  [1, 0],
  [8, 3],
  [2, 3],
  [14, 4],
] as const;

export class PassStrip {
  readonly element = h("div", { class: "insp-pass-strip" });
  private readonly times = h("div", { class: "insp-pass-times", role: "img" });
  private readonly legend = h("div", { class: "insp-pass-legend" });
  private readonly cursor = svg("rect", { class: "insp-pass-cursor", y: 0, height: 1, width: 1 });
  private readonly touched = svg("path", { class: "insp-pass-touched" });
  private readonly plot = h("div", {
    class: "insp-pass-plot",
    tabindex: 0,
    role: "slider",
    "aria-label": "Pass",
    onkeydown: ((e: KeyboardEvent) => this.key(e)) as EventListener,
    onmousemove: ((e: MouseEvent) => this.hover(e)) as EventListener,
    onmouseleave: () => this.tell(this.index),
  });
  private list: messages.PassList | null = null;
  private listed: readonly number[] = [];
  private index = 0;
  private hovered = -1;

  constructor(private readonly choose: (index: number) => void) {
    drag(this.plot, (down) => {
      this.plot.focus({ preventScroll: true });
      this.point(down);
      return (move) => this.point(move);
    });
    this.element.append(this.times, this.plot, this.legend);
  }

  /** @param listed the indices of the passes to step through. */
  show(list: messages.PassList, listed: readonly number[], scale: Scale): void {
    this.list = list;
    this.listed = listed;
    const { rows } = list;
    const bars = (name: string, isOf: (row: messages.PassRow) => boolean): SVGElement =>
      svg("path", { class: name, d: barsPath(rows, isOf, scale) });
    const curves = CURVES.map(({ count }, i) =>
      svg("path", { class: "insp-pass-curve", d: curvePath(list, count), style: lineStyle(i) }),
    );
    fill(
      this.plot,
      svg(
        "svg",
        { viewBox: `0 0 ${Math.max(1, rows.length)} 1`, preserveAspectRatio: "none", "aria-hidden": "true" },
        bars("insp-pass-bar", (row) => !row.changed),
        bars("insp-pass-bar insp-pass-bar-changed", (row) => row.changed),
        this.cursor,
        this.touched,
        ...curves,
      ),
    );
    this.showTimes(list.times);
    this.look(this.index);
  }

  /** Moves the cursor to a pass. */
  look(index: number): void {
    this.index = index;
    update(this.cursor, { x: String(index) });
    this.tell(index);
  }

  /** Marks the passes that changed the followed instruction. */
  mark(indices: readonly number[]): void {
    update(this.touched, { d: indices.map((i) => `M${i},0h1v0.13h-1z`).join("") });
  }

  private key(e: KeyboardEvent): void {
    const { listed } = this;
    const paged = (direction: number): number => {
      const place = Math.max(0, listed.indexOf(this.index)) + direction * PAGE;
      return listed[Math.max(0, Math.min(listed.length - 1, place))] ?? this.index;
    };
    const found = {
      ArrowRight: () => nextOf(listed, this.index, 1),
      ArrowLeft: () => nextOf(listed, this.index, -1),
      ArrowDown: () => nextOf(listed, this.index, 1),
      ArrowUp: () => nextOf(listed, this.index, -1),
      PageDown: () => paged(1),
      PageUp: () => paged(-1),
      Home: () => listed[0] ?? this.index,
      End: () => listed.at(-1) ?? this.index,
    }[e.key];
    if (!found) return;
    e.preventDefault();
    this.go(found());
  }

  private go(index: number): void {
    if (index !== this.index) this.choose(index);
  }

  private point(e: PointerEvent): void {
    this.go(this.at(e, this.listed));
  }

  private hover(e: MouseEvent): void {
    const { rows } = this.list!;
    const index = this.at(e, [...rows.keys()]);
    if (index !== this.hovered) this.tell(index);
  }

  private at(e: MouseEvent, among: readonly number[]): number {
    const { left, width } = this.plot.getBoundingClientRect();
    return nearest(among, this.list!.rows.length, (e.clientX - left) / Math.max(1, width));
  }

  /** Describes a pass below the strip. */
  private tell(index: number): void {
    this.hovered = index;
    const row = this.list?.rows[index];
    if (!row) return fill(this.legend);
    const before = countsBefore(this.list!, index);
    const time = row.duration_s === null ? row.reason : formatSeconds(row.duration_s);
    const words = `${index} ${row.name}, ${time}`;
    update(this.plot, {
      "aria-valuemin": "0",
      "aria-valuemax": String(this.list!.rows.length - 1),
      "aria-valuenow": String(this.index),
      "aria-valuetext": words,
    });
    const counts = CURVES.map(({ count, text, unit }, i) => {
      const now = row.counts?.[count];
      if (now === undefined) return null;
      const delta = now - (before?.[count] ?? now);
      const value = unit === "bytes" ? format(now, unit) : grouped(now);
      const changed = delta ? ` ${unit === "bytes" ? formatDelta(delta, unit) : signed(delta)}` : "";
      return h(
        "span",
        { class: "insp-pass-count", style: lineStyle(i), title: EXPLAINED[count] },
        `${text} ${value}`,
        changed && h("b", {}, changed),
      );
    });
    fill(this.legend, h("span", { class: "insp-pass-which", title: row.pipeline }, words), ...counts);
  }

  private showTimes(times: readonly messages.CompileTimePart[]): void {
    const said = times.map((t) => `${t.name}: ${t.duration_s === null ? t.reason : formatSeconds(t.duration_s)}`);
    this.times.hidden = !times.length;
    this.times.setAttribute("aria-label", `Compile time: ${said.join("; ")}`);
    const total = times.reduce((sum, { duration_s }) => sum + (duration_s ?? 0), 0);
    const unknown = times.filter(({ duration_s }) => duration_s === null);
    const parts = timeParts(times).map(({ part, share }) => {
      const percent = `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
      const title = `${part.name} (${part.where}): ${formatSeconds(part.duration_s!)}, ${percent} of ${formatSeconds(total)}`;
      return h(
        "span",
        { class: "insp-pass-part", "data-where": part.where, style: `flex:${share.toFixed(5)} 1 0`, title },
        `${part.name} ${formatSeconds(part.duration_s!)}`,
      );
    });
    const missing = unknown.length
      ? h(
          "span",
          { class: "insp-pass-unknown", title: unknown.map((t) => `${t.name}: ${t.reason}`).join("\n") },
          `+ ${unknown.map((t) => t.name).join(", ")}: unknown`,
        )
      : null;
    fill(this.times, ...parts, missing);
  }
}

const EXPLAINED: Record<Count, string> = {
  instructions: "Instructions of all computations, including those in fusions",
  fusions: "Fusion instructions",
  written_bytes: "Bytes of all results outside fusions, each counted once",
  collectives: "Collectives, including those in fusions. A start and its done count as one",
};

function signed(value: number): string {
  return (value < 0 ? "−" : "+") + grouped(Math.abs(value));
}

/** Returns the color and the dashes of a curve, so that curves are told apart without colors. */
function lineStyle(curve: number): string {
  const [on, off] = DASHES[curve % DASHES.length]!;
  return `--hue:var(--insp-group-${curve});--on:${on}px;--off:${off}px`;
}
