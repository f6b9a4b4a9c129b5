// Dragging of tabs: onto other tabs, or to a side of a group, which creates a new group there.

import { h } from "../lib/dom.ts";
import type { Pane } from "../messages.ts";
import type { GroupKey } from "../state/layout.ts";
import type { Destination, Side } from "../state/moving.ts";

/** Largest movement in pixels of a click. */
const LEAST_PX = 6;
/** Share of a group's width or height that counts as one of its sides. */
const EDGE = 0.28;

interface Drop {
  readonly to: Destination;
  /** The highlighted area, in window coordinates. */
  readonly box: DOMRect;
}

/** @param drop is called with the pane and the destination where its tab was released. */
export function dragTabs(element: HTMLElement, drop: (pane: Pane, to: Destination) => void): void {
  element.addEventListener("pointerdown", (down) => {
    const tab = (down.target as Element).closest<HTMLElement>("[data-tab]");
    if (!tab || down.button !== 0 || down.pointerType === "touch") return;
    follow(element, tab, down, drop);
  });
}

function follow(
  element: HTMLElement,
  tab: HTMLElement,
  down: PointerEvent,
  drop: (pane: Pane, to: Destination) => void,
): void {
  const mark = h("div", { class: "insp-drop", "aria-hidden": "true" });
  let found: Drop | null = null;
  const move = (e: PointerEvent): void => {
    if (!mark.isConnected && Math.hypot(e.clientX - down.clientX, e.clientY - down.clientY) < LEAST_PX) return;
    tab.setPointerCapture(e.pointerId);
    element.append(mark);
    found = dropAt(element, e.clientX, e.clientY);
    show(element, mark, found);
  };
  const end = (): void => {
    mark.remove();
    window.removeEventListener("pointermove", move);
    window.removeEventListener("pointerup", up);
    window.removeEventListener("pointercancel", end);
    window.removeEventListener("keydown", key, true);
  };
  const up = (): void => {
    end();
    if (found) drop(tab.dataset["tab"] as Pane, found.to);
  };
  const key = (e: KeyboardEvent): void => {
    if (e.key !== "Escape" || !mark.isConnected) return;
    e.preventDefault();
    e.stopPropagation();
    end();
  };
  window.addEventListener("pointermove", move);
  window.addEventListener("pointerup", up);
  window.addEventListener("pointercancel", end);
  window.addEventListener("keydown", key, true);
}

function show(element: HTMLElement, mark: HTMLElement, found: Drop | null): void {
  mark.hidden = !found;
  if (!found) return;
  const frame = element.getBoundingClientRect();
  const { left, top, width, height } = found.box;
  mark.style.transform = `translate(${left - frame.left}px, ${top - frame.top}px)`;
  mark.style.width = `${width}px`;
  mark.style.height = `${height}px`;
}

function dropAt(element: HTMLElement, x: number, y: number): Drop | null {
  const group = document.elementsFromPoint(x, y).map((each) => each.closest<HTMLElement>("[data-group]"));
  const target = group.find((each) => each && element.contains(each));
  if (!target) return null;
  const at = target.dataset["group"] as GroupKey;
  const head = target.querySelector(".insp-group-head")!.getBoundingClientRect();
  const box = target.getBoundingClientRect();
  if (at === "dock" || y < head.bottom) return { to: at, box: at === "dock" ? box : head };
  const side = sideOf((x - box.left) / box.width, (y - head.bottom) / Math.max(1, box.bottom - head.bottom));
  return side ? { to: { at, side }, box: halfOf(box, side) } : { to: at, box };
}

/** Returns the side that is nearest to a point, given as shares of width and height; null near the center. */
export function sideOf(x: number, y: number): Side | null {
  const distances: [number, Side][] = [
    [x, "left"],
    [1 - x, "right"],
    [y, "above"],
    [1 - y, "below"],
  ];
  const [least, side] = distances.reduce((a, b) => (b[0] < a[0] ? b : a));
  return least < EDGE ? side : null;
}

function halfOf({ left, top, width, height }: DOMRect, side: Side): DOMRect {
  if (side === "left") return new DOMRect(left, top, width / 2, height);
  if (side === "right") return new DOMRect(left + width / 2, top, width / 2, height);
  const below = side === "below" ? height / 2 : 0;
  return new DOMRect(left, top + below, width, height / 2);
}
