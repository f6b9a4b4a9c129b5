// A border that can be moved: by dragging, by arrow keys, and back to where it was at first.

import { drag, h, whenLaidOut } from "./dom.ts";

interface Splitting {
  readonly label: string;
  /** Whether the border is a vertical line, moved left and right. */
  readonly isVertical: boolean;
  readonly className: string;
  /** A drag begins: takes the distance from there in CSS pixels, down or to the right; null where it cannot. */
  readonly start: () => ((pixels: number) => void) | null;
  /** Moves a little, 1 being down or to the right. */
  readonly step: (direction: 1 | -1) => void;
  readonly reset: () => void;
  /** Where the border stands between 0 and 1, for assistive technology. */
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
    title: `${label}: drag, or arrow keys; double-click to reset`,
  });
  const tell = (): void => element.setAttribute("aria-valuenow", String(Math.round(100 * position())));
  const keys: Record<string, () => void> = {
    [isVertical ? "ArrowLeft" : "ArrowUp"]: () => step(-1),
    [isVertical ? "ArrowRight" : "ArrowDown"]: () => step(1),
    Enter: reset,
  };
  drag(element, (down) => {
    const move = start();
    return move && ((e) => (move(isVertical ? e.clientX - down.clientX : e.clientY - down.clientY), tell()));
  });
  element.addEventListener("keydown", (e) => {
    const act = keys[e.key];
    if (!act) return;
    e.preventDefault();
    act();
    tell();
  });
  element.addEventListener("dblclick", () => (reset(), tell()));
  // Sizes are known once it is on the page.
  whenLaidOut(element, tell);
  element.addEventListener("focus", tell);
  return element;
}

const LEAST_SHARE = 0.12;
const KEY_SHARE = 0.03;

/**
 * The border between a list and what it lists, side by side in `container`. The width is the container's
 * property `--insp-width`, for the list's flex basis, so that it outlives what is drawn anew.
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
