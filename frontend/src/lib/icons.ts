// Icons as strokes on a 16 by 16 grid.

import { svg } from "./dom.ts";

const PATHS = {
  find: "M11 11l3.5 3.5M7 12a5 5 0 1 0 0-10 5 5 0 0 0 0 10z",
  wrap: "M2 4h12M2 8h9.5a2.3 2.3 0 0 1 0 4.6H8M10 10.4L7.8 12.6l2.2 2.2M2 12.5h3",
  details: "M2 4.5h12M2 8h5M2 11.5h12M9.5 8h.01M11.75 8h.01M14 8h.01",
  costs: "M2 13.5V8.5M6 13.5v-11M10 13.5v-7M14 13.5v-3",
  menu: "M2.5 2.5h11v11h-11zM2.5 6h11M8 6v7.5",
  maximize: "M9.5 2.5h4v4M13.5 2.5L9 7M6.5 13.5h-4v-4M2.5 13.5L7 9",
  restore: "M13 6.5H9.5V3M9.5 6.5L13.5 2.5M3 9.5h3.5V13M6.5 9.5l-4 4",
  down: "M3.5 6L8 10.5 12.5 6",
  up: "M3.5 10L8 5.5l4.5 4.5",
  left: "M10 3.5L5.5 8l4.5 4.5",
  right: "M6 3.5L10.5 8 6 12.5",
  close: "M4 4l8 8M12 4l-8 8",
  stop: "M4.5 4.5h7v7h-7z",
  play: "M5 3.5l7.5 4.5L5 12.5z",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  fit: "M2.5 5.5v-3h3M10.5 2.5h3v3M13.5 10.5v3h-3M5.5 13.5h-3v-3M5.5 5.5h5v5h-5z",
  compare: "M6.5 2.5h-4v11h4M9.5 2.5h4v11h-4M8 1v14",
  link: "M7 9l2-2M6.5 5.5l2-2a2.8 2.8 0 0 1 4 4l-2 2M9.5 10.5l-2 2a2.8 2.8 0 0 1-4-4l2-2",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  save: "M8 2v8M4.5 7L8 10.5 11.5 7M2.5 13.5h11",
  columns: "M1.5 2.5h13v11h-13zM6 2.5v11M10.2 2.5v11",
  pin: "M5.5 2.5h5M6.5 2.5v4L4 9.5h8L9.5 6.5v-4M8 9.5v4.5",
  done: "M3 8.5L6.5 12 13 4.5",
  failed: "M4 4l8 8M12 4l-8 8",
  cancelled: "M3.5 8h9",
} as const;

export type IconName = keyof typeof PATHS;

export function icon(name: IconName): SVGSVGElement {
  return svg(
    "svg",
    { class: "insp-icon", viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true" },
    svg("path", { d: PATHS[name] }),
  );
}
