// A row of tabs that is always one line high: tabs that do not fit are in a menu.

import { h } from "../lib/dom.ts";

/** The width that the button of the menu takes, from `workspace.css`. */
const MORE_PX = 60;

export class TabRow {
  readonly element: HTMLElement;
  private readonly more: HTMLButtonElement;

  /**
   * Args:
   *   tabs: the tabs in order; the selected one is always visible.
   *   openMenu: shows a menu of the hidden tabs below a button.
   */
  constructor(
    private readonly tabs: readonly HTMLButtonElement[],
    openMenu: (button: HTMLElement, hidden: readonly HTMLButtonElement[]) => void,
  ) {
    this.more = h("button", {
      type: "button",
      class: "insp-more-tabs",
      "aria-haspopup": "menu",
      hidden: true,
      onclick: () =>
        openMenu(
          this.more,
          tabs.filter(({ hidden }) => hidden),
        ),
    });
    const list = h("div", { class: "insp-tabs", role: "tablist" }, ...tabs);
    this.element = h("div", { class: "insp-tab-row" }, list, this.more);
  }

  /** Shows all tabs, to measure them. */
  reset(): void {
    if (this.more.hidden) return;
    for (const tab of this.tabs) tab.hidden = false;
    this.more.hidden = true;
  }

  /** Measures the tabs, and returns a function that hides those that do not fit. */
  measured(): () => void {
    const widths = this.tabs.map(({ offsetWidth }) => offsetWidth);
    const isSelected = this.tabs.map((tab) => tab.getAttribute("aria-selected") === "true");
    const isShown = fitting(widths, isSelected.indexOf(true), this.element.clientWidth, MORE_PX);
    return () => this.hideOthers(isShown);
  }

  private hideOthers(isShown: readonly boolean[]): void {
    const hidden = this.tabs.filter((tab, i) => (tab.hidden = !isShown[i]));
    this.more.hidden = !hidden.length;
    if (!hidden.length) return;
    this.more.textContent = `${hidden.length} more`;
    this.more.title = `More panes: ${hidden.map(({ textContent }) => textContent).join(", ")}`;
  }
}

/** Makes rows fit. All are measured before any of them changes, so that the page is laid out once. */
export function fitRows(rows: readonly TabRow[]): void {
  for (const row of rows) row.reset();
  const changes = rows.map((row) => row.measured());
  for (const change of changes) change();
}

/** Returns which parts fit into a width in order, with a button for the rest. The selected part always does. */
export function fitting(
  widths: readonly number[],
  selected: number,
  available: number,
  moreWidth: number,
): readonly boolean[] {
  const total = widths.reduce((sum, width) => sum + width, 0);
  if (total <= available) return widths.map(() => true);
  let left = available - moreWidth - (widths[selected] ?? 0);
  return widths.map((width, i) => {
    if (i === selected) return true;
    left -= width;
    return left >= 0;
  });
}
