// A menu that drops from a button.

import { h } from "./dom.ts";

export interface MenuItem {
  readonly text: string;
  readonly run: () => void;
}

export interface MenuSection {
  readonly title: string;
  readonly items: readonly MenuItem[];
}

/** Opens a menu below `button` inside `root`; it closes on a choice, Escape, or a press elsewhere. */
export function openMenu(root: HTMLElement, button: HTMLElement, sections: readonly MenuSection[]): void {
  root.querySelector(".insp-menu")?.remove();
  const menu = h("div", { class: "insp-menu", role: "menu" });
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
  menu.style.top = `${box.bottom - frame.top + 2}px`;
  menu.style.right = `${Math.max(4, frame.right - box.right)}px`;
  root.append(menu);
  const overflow = menu.getBoundingClientRect().bottom - frame.bottom + 4;
  if (overflow > 0) menu.style.top = `${Math.max(4, box.bottom - frame.top + 2 - overflow)}px`;
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
