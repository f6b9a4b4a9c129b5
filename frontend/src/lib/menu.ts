// A drop-down menu.

import { h } from "./dom.ts";
import { visiblePart } from "./overlay.ts";

interface MenuItem {
  readonly text: string;
  readonly run: () => void;
}

interface MenuSection {
  readonly title: string;
  readonly items: readonly MenuItem[];
}

const EDGE_PX = 4;

/** Opens a menu below `button` inside `root`. It closes on a choice, Escape, or a click elsewhere. */
export function openMenu(root: HTMLElement, button: HTMLElement, sections: readonly MenuSection[]): void {
  root.querySelector(".insp-menu")?.remove();
  const menu = h("div", { class: "insp-menu insp-scroll", role: "menu" });
  const close = (): void => {
    menu.remove();
    document.removeEventListener("pointerdown", outside, true);
  };
  const outside = (e: Event): void => {
    if (!menu.contains(e.target as Node)) close();
  };
  const choose = (item: MenuItem) => () => {
    close();
    button.focus();
    item.run();
  };
  for (const { title, items } of sections.filter((s) => s.items.length)) {
    menu.append(h("div", { class: "insp-menu-title" }, title));
    menu.append(...items.map((i) => h("button", { type: "button", role: "menuitem", onclick: choose(i) }, i.text)));
  }
  menu.addEventListener("keydown", (e) => onKey(e, menu, () => (close(), button.focus())));
  const frame = root.getBoundingClientRect();
  const box = button.getBoundingClientRect();
  const seen = visiblePart(root);
  menu.style.maxWidth = `${seen.right - seen.left - 2 * EDGE_PX}px`;
  menu.style.maxHeight = `${seen.bottom - seen.top - 2 * EDGE_PX}px`;
  root.append(menu);
  // Below the button and aligned with its right edge, but within the visible area.
  const { offsetWidth, offsetHeight } = menu;
  const within = (place: number, least: number, most: number): number => Math.max(least, Math.min(most, place));
  const top = within(box.bottom + 2, seen.top + EDGE_PX, seen.bottom - EDGE_PX - offsetHeight);
  const left = within(box.right - offsetWidth, seen.left + EDGE_PX, seen.right - EDGE_PX - offsetWidth);
  menu.style.top = `${top - frame.top - root.clientTop}px`;
  menu.style.left = `${left - frame.left - root.clientLeft}px`;
  document.addEventListener("pointerdown", outside, true);
  menu.querySelector<HTMLElement>("button")?.focus();
}

function onKey(e: KeyboardEvent, menu: HTMLElement, close: () => void): void {
  const items = [...menu.querySelectorAll<HTMLElement>("button")];
  const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
  if (e.key === "Escape") close();
  if (step !== undefined)
    items.at((items.indexOf(document.activeElement as HTMLElement) + step) % items.length)?.focus();
  if (step !== undefined || e.key === "Escape") {
    e.preventDefault();
    e.stopPropagation();
  }
}
