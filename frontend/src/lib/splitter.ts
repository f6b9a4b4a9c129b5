// A border that can be moved by dragging and by arrow keys, and reset to its default.

import { drag, h, whenLaidOut } from "./dom.ts";

interface Splitting {
  readonly label: string;
  /** Whether the border is a vertical line, moved left and right. */
  readonly isVertical: boolean;
  readonly className: string;
  /** Called when a drag begins. Returns a function of the distance in CSS pixels, or null if moving is impossible. */
  readonly start: () => ((pixels: number) => void) | null;
  /** Moves one step; 1 is down or to the right. */
  readonly step: (direction: 1 | -1) => void;
  readonly reset: () => void;
  /** Returns the position between 0 and 1, for assistive technology. */
  readonly position: () => number;
}

export function splitter(splitting: Splitting): HTMLElement {
  const { label, isVertical, className, start, step, reset, position } = splitting;
  const element = h("div", {
    class: className,
    role: "separator",
    tabindex: 0,
    "aria-orientation": isVertical ? "vertical" : "horizontal",
    "aria-label": label,
    "aria-valuenow": 50,
    title: `${label}: drag or use arrow keys; double-click to reset`,
  });
  const announce = (): void => element.setAttribute("aria-valuenow", String(Math.round(100 * position())));
  const keys: Record<string, () => void> = {
    [isVertical ? "ArrowLeft" : "ArrowUp"]: () => step(-1),
    [isVertical ? "ArrowRight" : "ArrowDown"]: () => step(1),
    Enter: reset,
  };
  drag(element, (down) => {
    const move = start();
    return move && ((e) => (move(isVertical ? e.clientX - down.clientX : e.clientY - down.clientY), announce()));
  });
  element.addEventListener("keydown", (e) => {
    const act = keys[e.key];
    if (!act) return;
    e.preventDefault();
    act();
    announce();
  });
  element.addEventListener("dblclick", () => (reset(), announce()));
  // Sizes are known once the element is on the page.
  whenLaidOut(element, announce);
  element.addEventListener("focus", announce);
  return element;
}

const LEAST_SHARE = 0.12;
const KEY_SHARE = 0.03;

/**
 * Returns the border between a list and its detail view, side by side in `container`. The width of the list is stored
 * in the property `--insp-width` of the container, so that it is kept when the contents are redrawn.
 */
export function listSplitter(label: string, container: HTMLElement, list: () => HTMLElement): HTMLElement {
  const share = (pixels: number): number => pixels / Math.max(1, container.clientWidth);
  const width = (): number => share(list().offsetWidth);
  const set = (wanted: number): void => {
    const bounded = Math.max(LEAST_SHARE, Math.min(1 - LEAST_SHARE, wanted));
    container.style.setProperty("--insp-width", `${(100 * bounded).toFixed(2)}%`);
  };
  return splitter({
    label,
    isVertical: true,
    className: "insp-splitter",
    start: () => {
      const before = width();
      return (pixels) => set(before + share(pixels));
    },
    step: (direction) => set(width() + direction * KEY_SHARE),
    reset: () => container.style.removeProperty("--insp-width"),
    position: width,
  });
}
