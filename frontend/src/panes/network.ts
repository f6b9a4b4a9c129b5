// A drawing of the chips of a slice with the load of each link, or a table of the bytes that the devices of a host send
// and receive.

import { h, svg } from "../lib/dom.ts";
import { format, grouped, plural } from "../lib/format.ts";
import type * as messages from "../messages.ts";
import { COLORS, groupLabel } from "./mesh.ts";

const CHIP = 26;
const CELL = 62;
const MARGIN = 30;
const BESIDE = 5;
/** Length in pixels of a link that leaves its page or wraps around, which is drawn at both of its ends. */
const STUB = 16;
const MOST_BARS = 72;
const NAMED = 3;

type Drawn = Pick<messages.Priced, "network" | "sizes" | "wraps" | "chips" | "links" | "most_bytes" | "link_count">;
type Point = readonly [number, number, number];

export function networkDrawing(priced: Drawn): (HTMLElement | SVGElement)[] {
  if (!priced.chips.length) {
    return [h("div", { class: "insp-dim" }, `${grouped(priced.link_count)} links are too many to draw.`)];
  }
  return priced.sizes.length ? torus(priced) : bars(priced);
}

function torus(priced: Drawn): (HTMLElement | SVGElement)[] {
  const [columns, rows, pages] = threeOf(priced.sizes);
  const page = columns * CELL + MARGIN;
  const width = pages * page + MARGIN;
  const height = rows * CELL + 2 * MARGIN - CELL + CHIP;
  const most = priced.most_bytes || 1;
  const drawing = svg("svg", {
    class: "insp-network",
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    role: "img",
    "aria-label": `${priced.network}: ${busiest(priced)}`,
  });
  const at = ([x, y, z]: Point): readonly [number, number] => [
    MARGIN + CHIP / 2 + z * page + x * CELL,
    MARGIN + CHIP / 2 + y * CELL,
  ];
  const idle = priced.links.filter(([, , bytes]) => !bytes);
  const loaded = priced.links.filter(([, , bytes]) => bytes).sort((a, b) => a[2] - b[2]);
  for (const [from, to, bytes] of [...idle, ...loaded]) {
    const [a, b] = [threeOf(priced.chips[from]!.place, 0), threeOf(priced.chips[to]!.place, 0)];
    const title = `${placeText(priced, from)} to ${placeText(priced, to)}: ${format(bytes, "bytes")}`;
    drawing.append(link(at(a), a, b, bytes / most, title));
  }
  priced.chips.forEach((chip) => drawing.append(chipShape(chip, at(threeOf(chip.place, 0)))));
  const dense = pages > 1 ? " Slanted links connect to the next and previous page." : "";
  const around = priced.wraps.some(Boolean) ? " Arrows that leave the grid wrap around." : "";
  const words = `${busiest(priced)} Wider arrows carry more bytes.${around}${dense}`;
  return [drawing, h("div", { class: "insp-dim" }, words)];
}

/** Draws an arrow beside the center line of a link, so that both directions are visible. */
function link([x, y]: readonly [number, number], a: Point, b: Point, share: number, title: string): SVGElement {
  const steps = a.map((_, axis) => b[axis]! - a[axis]!) as unknown as Point;
  const isFar = steps.some((step) => Math.abs(step) > 1);
  const [dx, dy, dz] = steps.map((step) => (isFar ? -Math.sign(step) : step)) as unknown as Point;
  const half = CHIP / 2;
  const length = isFar ? STUB : CELL - CHIP;
  const [x0, y0, x1, y1] = dz
    ? [x + dz * half, y + dz * half, x + dz * (half + STUB * 0.7), y + dz * (half + STUB * 0.7)]
    : [
        x + dx * half - dy * BESIDE,
        y + dy * half + dx * BESIDE,
        x + dx * (half + length) - dy * BESIDE,
        y + dy * (half + length) + dx * BESIDE,
      ];
  const [ux, uy] = dz ? [dz * Math.SQRT1_2, dz * Math.SQRT1_2] : [dx, dy];
  const wide = share ? 1 + 3 * share : 1;
  const tip = 3 + wide;
  const corner = (side: 1 | -1): string =>
    `${x1 - ux * tip - side * uy * tip * 0.6} ${y1 - uy * tip + side * ux * tip * 0.6}`;
  return svg(
    "g",
    { class: share ? "insp-link insp-link-used" : "insp-link", style: `--share:${share.toFixed(3)}` },
    svg("title", {}, title),
    svg("path", { d: `M${x0} ${y0}L${x1 - ux * tip} ${y1 - uy * tip}`, "stroke-width": wide }),
    svg("path", { class: "insp-link-tip", d: `M${x1} ${y1}L${corner(1)}L${corner(-1)}Z` }),
  );
}

function chipShape(chip: messages.PricedChip, [x, y]: readonly [number, number]): SVGElement {
  const group = chip.groups.find((each) => each !== null);
  const ids = chip.logical_ids.map((id, i) => id ?? `(${chip.devices[i]})`);
  const label = group === undefined || group === null ? "" : groupLabel(group);
  return svg(
    "g",
    {
      class: label ? "insp-chip" : "insp-chip insp-chip-idle",
      style: label ? `--group:var(--insp-group-${group! % COLORS})` : "",
    },
    svg("title", {}, chipText(chip)),
    svg("rect", { x: x - CHIP / 2, y: y - CHIP / 2, width: CHIP, height: CHIP, rx: 5 }),
    svg("text", { x, y: y + (label ? 0 : 4) }, ids.join(",")),
    label && svg("text", { class: "insp-chip-group", x, y: y + 9 }, label),
  );
}

function chipText(chip: messages.PricedChip): string {
  const said = chip.devices.map((device, i) => {
    const id = chip.logical_ids[i] ?? null;
    return id === null
      ? `device ${device}, idle`
      : `device ${device}, logical id ${id}, group ${chip.groups[i] ?? "none"}`;
  });
  return [chip.place.length > 1 ? `chip (${chip.place.join(", ")})` : "", ...said].filter(Boolean).join("; ");
}

function bars(priced: Drawn): (HTMLElement | SVGElement)[] {
  const loads = priced.chips.map(() => ({ sent: 0, received: 0 }));
  for (const [from, to, bytes] of priced.links) {
    if (to < 0) loads[from]!.sent = bytes;
    else loads[to]!.received = bytes;
  }
  const most = priced.most_bytes || 1;
  const bar = (bytes: number, kind: string): HTMLElement =>
    h(
      "td",
      { class: "insp-number", title: `${kind} ${plural(bytes, "byte")}` },
      h("div", { class: "insp-price-bar", style: `--share:${(bytes / most).toFixed(3)}` }),
      format(bytes, "bytes"),
    );
  const rows = priced.chips.slice(0, MOST_BARS).map((chip, i) => {
    const group = chip.groups[0] ?? null;
    const style = group === null ? "" : `--group:var(--insp-group-${group % COLORS})`;
    const name = `${chip.logical_ids[0] ?? `(${chip.devices[0]})`} ${group === null ? "idle" : groupLabel(group)}`;
    return h(
      "tr",
      { style, title: chipText(chip) },
      h("th", { scope: "row", class: group === null ? "" : "insp-observed-member" }, name),
      bar(loads[i]!.sent, "sends"),
      bar(loads[i]!.received, "receives"),
    );
  });
  const titles = ["device", "sent", "received"].map((title) => h("th", { scope: "col" }, title));
  return [
    h(
      "table",
      { class: "insp-table insp-price-bars" },
      h("thead", {}, h("tr", {}, ...titles)),
      h("tbody", {}, ...rows),
    ),
  ];
}

function busiest(priced: Drawn): string {
  const [first, ...rest] = [...priced.links]
    .sort((a, b) => b[2] - a[2])
    .filter(([, , bytes]) => bytes === priced.most_bytes);
  if (!first || !priced.most_bytes) return "All links are idle.";
  const named = [first, ...rest]
    .slice(0, NAMED)
    .map(([from, to]) => `${placeText(priced, from)} to ${placeText(priced, to)}`);
  const more = rest.length >= NAMED ? `, and ${grouped(rest.length + 1 - NAMED)} more` : "";
  return `Busiest (${format(priced.most_bytes, "bytes")}): ${named.join("; ")}${more}.`;
}

function placeText(priced: Drawn, chip: number): string {
  const place = priced.chips[chip]?.place;
  return place ? `(${place.join(", ")})` : "the switches";
}

function threeOf(numbers: readonly number[], rest = 1): Point {
  const [x = rest, y = rest, z = rest] = numbers;
  return [x, y, z];
}
