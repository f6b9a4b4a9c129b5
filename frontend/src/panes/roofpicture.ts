// The picture of the Roofline pane: profiled kernels under the roofs, or bars of the estimated times of all kernels.

import { fill, h, svg } from "../lib/dom.ts";
import { formatRate, formatSeconds, plural } from "../lib/format.ts";
import { attainable, decade, rangeOf, ridge } from "../lib/roofplot.ts";
import type * as messages from "../messages.ts";

type Point = messages.RooflinePoint;
type Select = (name: string) => void;

/** The mark of a kernel. */
export interface Mark {
  readonly name: string;
  readonly mark: Element;
}

const MARGIN = { left: 58, right: 12, top: 10, bottom: 32 };
const SMALLEST = 2.5;
const LARGEST = 13;
const MOST_BARS = 60;

export function isProfiled({ points }: messages.RooflineMessage): boolean {
  return points.some(({ measured_s }) => typeof measured_s === "number"); // older recordings lack it
}

/** A measured kernel with FLOPs: its place in the plot. */
interface Placed {
  readonly point: Point;
  readonly intensity: number;
  readonly achieved: number;
  readonly attainable: number;
}

/** Draws the achieved FLOP/s of measured kernels, each with a line up to what its roof allows. */
export function drawPlot(plot: HTMLElement, reply: messages.RooflineMessage, select: Select): Mark[] {
  const peak = reply.peak!;
  const [width, height] = [plot.clientWidth, plot.clientHeight];
  if (width < 120 || height < 80) return (fill(plot), []);
  const placed = placedOf(reply);
  const range = rangeOf(
    peak,
    placed.map(({ intensity }) => intensity),
    placed.map(({ achieved }) => achieved),
  );
  const x = (power: number): number =>
    MARGIN.left + ((power - range.left) / (range.right - range.left)) * (width - MARGIN.left - MARGIN.right);
  const y = (power: number): number =>
    height -
    MARGIN.bottom -
    ((power - range.bottom) / (range.top - range.bottom)) * (height - MARGIN.top - MARGIN.bottom);
  const corner = Math.log10(ridge(peak) ?? 10 ** range.right);
  const roof = [range.left, Math.min(corner, range.right), range.right].map(
    (power) => `${x(power)},${y(Math.log10(attainable(peak, 10 ** power)))}`,
  );
  const picture = svg(
    "svg",
    { width, height, role: "img", "aria-label": "Measured kernels under the roofs; the table shows the same data" },
    ...grid(
      powers(range.left, range.right, width / 50),
      powers(range.bottom, range.top, height / 26),
      x,
      y,
      width,
      height,
    ),
    svg("polyline", { class: "insp-roof", points: roof.join(" ") }),
  );
  const largest = Math.max(...placed.map(({ point }) => point.measured_s!), 1e-12);
  const marks = placed.map((each): Mark => {
    const [at, top, bottom] = [each.intensity, each.attainable, each.achieved].map(Math.log10) as [
      number,
      number,
      number,
    ];
    const { point } = each;
    const mark = svg(
      "circle",
      {
        class: `insp-roof-point insp-roof-${point.bound_by || "unknown"}`,
        cx: x(at),
        cy: y(bottom),
        r: SMALLEST + (LARGEST - SMALLEST) * Math.sqrt(point.measured_s! / largest),
        onclick: () => select(point.name),
      },
      svg("title", {}, measuredTitle(each)),
    );
    picture.append(svg("line", { class: "insp-roof-gap", x1: x(at), x2: x(at), y1: y(top), y2: y(bottom) }), mark);
    return { name: point.name, mark };
  });
  fill(plot, picture);
  return marks;
}

/** The measured kernels with a place, the longest first, so that short ones are drawn on top. */
function placedOf({ points, peak }: messages.RooflineMessage): Placed[] {
  return points
    .flatMap((point) => {
      const { intensity, flops, measured_s } = point;
      if (!intensity || !flops || !measured_s) return [];
      return [{ point, intensity, achieved: flops / measured_s, attainable: attainable(peak!, intensity) }];
    })
    .sort((a, b) => b.point.measured_s! - a.point.measured_s!);
}

function powers(from: number, to: number, room: number): number[] {
  const step = Math.max(1, Math.ceil((to - from) / Math.max(1, room)));
  return Array.from({ length: to - from + 1 }, (_, i) => from + i).filter((power) => (power - from) % step === 0);
}

function grid(
  across: readonly number[],
  up: readonly number[],
  x: (power: number) => number,
  y: (power: number) => number,
  width: number,
  height: number,
): SVGElement[] {
  const line = (x1: number, x2: number, y1: number, y2: number): SVGElement =>
    svg("line", { class: "insp-roof-grid", x1, x2, y1, y2 });
  const middle = (MARGIN.top + height - MARGIN.bottom) / 2;
  return [
    ...across.map((power) => line(x(power), x(power), MARGIN.top, height - MARGIN.bottom)),
    ...up.map((power) => line(MARGIN.left, width - MARGIN.right, y(power), y(power))),
    ...across.map((power) =>
      svg("text", { x: x(power), y: height - MARGIN.bottom + 13, "text-anchor": "middle" }, decade(power)),
    ),
    ...up.map((power) => svg("text", { x: MARGIN.left - 5, y: y(power) + 3, "text-anchor": "end" }, decade(power))),
    svg(
      "text",
      { x: (MARGIN.left + width) / 2, y: height - 4, "text-anchor": "middle" },
      "Arithmetic intensity (FLOP/byte)",
    ),
    svg(
      "text",
      { transform: `translate(12, ${middle}) rotate(-90)`, "text-anchor": "middle" },
      "Attainable performance (FLOP/s)",
    ),
  ];
}

/** Draws a bar for the estimated time of each kernel, the slowest first. */
export function drawBars(plot: HTMLElement, { points }: messages.RooflineMessage, select: Select): Mark[] {
  const timed = points.filter(({ least_s }) => least_s !== null).sort((a, b) => b.least_s! - a.least_s!);
  const shown = timed.slice(0, MOST_BARS);
  const largest = shown[0]?.least_s || 1;
  const marks = shown.map((point) => ({ name: point.name, mark: bar(point, point.least_s! / largest, select) }));
  const rest = timed.slice(MOST_BARS);
  const sum = rest.reduce((all, { least_s }) => all + least_s!, 0);
  const more = `${plural(rest.length, "more kernel")}: ${formatSeconds(sum)}`;
  fill(
    plot,
    h(
      "div",
      { class: "insp-time-bars insp-scroll", tabindex: 0, role: "group", "aria-label": "Estimated times of kernels" },
      h("div", { class: "insp-dim" }, "Estimated times. Profile the program to see achieved performance."),
      ...marks.map(({ mark }) => mark),
      rest.length > 0 && h("div", { class: "insp-dim" }, more),
    ),
  );
  return marks;
}

function bar(point: Point, share: number, select: Select): HTMLElement {
  const { name, bound_by, least_s } = point;
  const filled = h("span", { class: `insp-roof-${bound_by || "unknown"}` });
  filled.style.width = `${100 * share}%`;
  return h(
    "button",
    { type: "button", class: "insp-time-bar", title: estimatedTitle(point), onclick: () => select(name) },
    h("span", { class: "insp-time-name" }, name),
    h("span", { class: "insp-time-track" }, filled),
    h("span", { class: "insp-time-value" }, formatSeconds(least_s!)),
    h("span", { class: "insp-dim" }, bound_by),
  );
}

function estimatedTitle(point: Point): string {
  const least = point.least_s === null ? "Estimated time unknown" : `Estimated time: ${formatSeconds(point.least_s)}`;
  const share = point.share === null ? "" : `, ${(100 * point.share).toFixed(1)} % of all kernels`;
  const intensity = point.intensity === null ? "" : `\n${point.intensity.toPrecision(3)} FLOPs per byte`;
  const bound = point.bound_by ? `\nbound by ${point.bound_by}` : "";
  return `${point.name} (${point.opcode})\n${least}${share}${intensity}${bound}${point.unknown ? `\n${point.unknown}` : ""}`;
}

function measuredTitle({ point, achieved, attainable }: Placed): string {
  const speed = `${formatRate(achieved, "FLOP/s")} achieved, ${formatRate(attainable, "FLOP/s")} attainable`;
  const share = `${((100 * achieved) / attainable).toPrecision(2)} %`;
  return `${estimatedTitle(point)}\nMeasured time: ${formatSeconds(point.measured_s!)}\n${speed} (${share})`;
}
