// A strip plot: one tick per duration, on an axis that all strips share.

import { svg } from "./dom.ts";
import { formatSeconds } from "./format.ts";

const HEIGHT = 22;

/** Returns the ends of a common axis for several sets of durations. It begins at 0 if that leaves enough resolution. */
export function stripDomain(sets: readonly (readonly number[])[]): [number, number] {
  const all = sets.flat();
  if (!all.length) return [0, 1];
  const low = Math.min(...all);
  const high = Math.max(...all);
  const margin = (high - low) * 0.05 || high * 0.05 || 1e-9;
  return [low < high * 0.5 ? 0 : Math.max(0, low - margin), high + margin];
}

/** Returns a plot of durations in seconds as ticks, with a thicker one for the median. */
export function strip(
  durations: readonly number[],
  median: number,
  domain: [number, number],
  width = 220,
): SVGSVGElement {
  const x = (value: number): number => 2 + ((value - domain[0]) / (domain[1] - domain[0])) * (width - 4);
  const tick = (value: number, name: string, inset: number): SVGLineElement =>
    svg("line", { class: name, x1: x(value), x2: x(value), y1: inset, y2: HEIGHT - inset });
  return svg(
    "svg",
    {
      class: "insp-strip",
      viewBox: `0 0 ${width} ${HEIGHT}`,
      width,
      height: HEIGHT,
      role: "img",
      "aria-label": `${durations.length} durations, ${formatSeconds(domain[0])} to ${formatSeconds(domain[1])}`,
    },
    svg("line", { class: "insp-strip-axis", x1: 0, x2: width, y1: HEIGHT - 0.5, y2: HEIGHT - 0.5 }),
    ...durations.map((d) => tick(d, "insp-strip-tick", 6)),
    durations.length ? tick(median, "insp-strip-median", 2) : null,
  );
}
