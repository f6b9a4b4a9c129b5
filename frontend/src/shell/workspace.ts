// The workspace: columns of groups, and the bottom panel ("dock"). Layouts are saved by the width of the page, and
// separately for texts side by side, which need more width.

import { toolButton } from "../lib/controls.ts";
import { fill, h } from "../lib/dom.ts";
import { openMenu } from "../lib/menu.ts";
import type { Pane as PaneName } from "../messages.ts";
import { type Pane, TITLES } from "../panes/pane.ts";
import {
  activate,
  type Column,
  dockShareOf,
  type Group,
  type GroupKey,
  groupAt,
  groupOf,
  groupsOf,
  isSameLayout,
  isSamePlacing,
  type Layout,
  type Preset,
  PRESETS,
} from "../state/layout.ts";
import { type Destination, movePane, movesOf } from "../state/moving.ts";
import { columnBorder, dockBorder, groupBorder, type Resizable } from "./borders.ts";
import { dragTabs } from "./dragging.ts";
import type { KeptLayouts } from "./keeping.ts";
import { fitRows, TabRow } from "./tabs.ts";

const NARROW_PX = 700;

/** Panes that a low panel makes unreadable. */
const TALL: readonly PaneName[] = ["graph", "passes", "code"];

export class Workspace {
  readonly element = h("div", { class: "insp-workspace" });
  private layout: Layout;
  private isNarrow = false;
  private narrowActive: PaneName;
  /** The current pane, which commands move: the active one of the group that was used last. */
  private atHand: PaneName;
  private maximized: GroupKey | null = null;
  private readonly resizes = new ResizeObserver(([entry]) => this.onWidth(entry!.contentRect.width));
  private readonly boxes = new Map<GroupKey, HTMLElement>();
  private readonly rows = new Map<GroupKey, TabRow>();
  /** Watches the rows of tabs, which tools beside them make narrower. */
  private readonly rowResizes = new ResizeObserver(() => this.fitTabs());
  private columns: HTMLElement[] = [];
  private readonly sizes: Resizable = {
    layout: () => this.layout,
    usual: () => this.layouts.usual,
    resize: (layout) => this.resizeTo(layout),
  };

  constructor(
    private readonly root: HTMLElement,
    private readonly panes: ReadonlyMap<PaneName, Pane>,
    private readonly layouts: KeptLayouts,
  ) {
    this.layout = layouts.ofNotebook ?? layouts.ofBrowser;
    this.narrowActive = this.atHand = this.layout.columns.at(-1)!.groups[0]!.active;
    this.resizes.observe(this.element);
    dragTabs(this.element, (pane, to) => this.move(pane, to));
    for (const type of ["pointerdown", "focusin"]) this.element.addEventListener(type, (e) => this.onUse(e));
    this.draw();
  }

  destroy(): void {
    this.resizes.disconnect();
    this.rowResizes.disconnect();
  }

  /** Brings a pane to the front. */
  reveal(pane: PaneName): void {
    this.narrowActive = pane;
    this.atHand = pane;
    const key = groupOf(this.layout, pane);
    if (key === null) return this.move(pane, groupsOf(this.layout)[0]![0]);
    const isHidden = this.maximized !== null && this.maximized !== key;
    if (isHidden) this.maximized = null;
    const isFront = groupAt(this.layout, key)?.active === pane && (key !== "dock" || this.layout.dockOpen);
    if (!isHidden && !this.isNarrow && isFront) return;
    this.change(activate(this.layout, pane));
  }

  /** Commands that show, move and hide panes. */
  commands(): { readonly name: string; readonly key: string; readonly run: () => void }[] {
    const show = [...this.panes.keys()].map((pane) => ({
      name: `Show ${TITLES[pane]}`,
      key: "",
      run: () => this.reveal(pane),
    }));
    if (this.isNarrow) return show;
    const { atHand: pane } = this;
    const moves = movesOf(this.layout, pane, TITLES).map(({ text, to }) => ({
      name: `Move ${TITLES[pane]} ${text}`,
      key: "",
      run: () => this.move(pane, to),
    }));
    return [...show, ...moves, { name: `Hide ${TITLES[pane]}`, key: "", run: () => this.move(pane, "away") }];
  }

  private move(pane: PaneName, to: Destination): void {
    this.maximized = null;
    this.change(movePane(this.layout, pane, to));
  }

  private onUse(e: Event): void {
    const key = (e.target as Element).closest<HTMLElement>("[data-group]")?.dataset["group"] as GroupKey | undefined;
    const group = key && !this.isNarrow ? groupAt(this.layout, key) : null;
    if (group) this.atHand = group.active;
  }

  /** Applies a preset layout. */
  arrange(preset: Preset): void {
    this.maximized = null;
    this.change(this.layouts.preset(preset));
  }

  setWide(isWide: boolean): void {
    if (isWide === this.layouts.isWide) return;
    const front = this.maximized === null ? null : (groupAt(this.layout, this.maximized)?.active ?? null);
    this.layouts.isWide = isWide;
    this.layout = this.layouts.ofBrowser;
    this.maximized = front && groupOf(this.layout, front);
    if (front) this.layout = activate(this.layout, front);
    this.draw();
  }

  /** Applies a layout that Python has set. Also called for layouts that the page itself has set, which it ignores. */
  follow(): void {
    const kept = this.layouts.ofNotebook;
    if (!kept || isSameLayout(kept, this.layout)) return;
    this.maximized = null;
    this.change(kept);
  }

  private get available(): PaneName[] {
    return [...this.panes.keys()];
  }

  private change(layout: Layout): void {
    const before = this.layout;
    this.layout = layout;
    this.layouts.keep(layout);
    const isWhole = this.isNarrow || this.maximized !== null || !isSamePlacing(before, layout);
    if (isWhole) return this.draw();
    for (const [key, group] of groupsOf(layout))
      if (groupAt(before, key)!.active !== group.active) this.redraw(key, group);
  }

  private onWidth(width: number): void {
    if (!width) return;
    const isNarrow = width < NARROW_PX;
    const layout = this.layouts.fit(this.layout, width);
    if (isNarrow === this.isNarrow && layout === this.layout) return;
    this.isNarrow = isNarrow;
    if (layout !== this.layout) this.maximized = null;
    this.layout = layout;
    this.draw();
  }

  /** Redraws one group only: elements that move on the page, editors included, are laid out again. */
  private redraw(key: GroupKey, group: Group): void {
    this.keepingFocus(() => {
      for (const pane of group.panes) this.panes.get(pane)!.setVisible(false);
      const before = this.boxes.get(key)!;
      before.replaceWith(this.group(key, group));
      this.resize();
      this.panes.get(group.active)!.setVisible(true); // the new row of tabs fits them once the page is laid out
    });
  }

  private draw(): void {
    this.keepingFocus(() => this.drawAll());
  }

  private drawAll(): void {
    for (const pane of this.panes.values()) pane.setVisible(false);
    this.boxes.clear();
    this.rows.clear();
    this.rowResizes.disconnect();
    this.columns = [];
    this.root.classList.toggle("insp-narrow", this.isNarrow);
    fill(this.element, ...(this.isNarrow ? [this.narrow()] : this.wide()));
    this.resize();
    for (const name of this.shownPanes()) this.panes.get(name)?.setVisible(true);
  }

  /** Draws, then restores the focus: to the same element, its new tab, or the first active tab. Shortcuts need it. */
  private keepingFocus(draw: () => void): void {
    const before = this.element.contains(document.activeElement) ? (document.activeElement as HTMLElement) : null;
    draw();
    if (!before) return;
    const find = (condition: string): HTMLElement | null => this.root.querySelector(`[role=tab]${condition}`);
    const tab = find(`[data-tab="${before.dataset["tab"]}"]`) ?? find("[aria-selected=true]");
    (before.isConnected ? before : tab)?.focus({ preventScroll: true });
  }

  private narrow(): HTMLElement {
    const panes = [...this.panes.keys()];
    return this.group("0.0", { panes, active: this.narrowActive, weight: 1 });
  }

  private wide(): HTMLElement[] {
    const { columns, dock } = this.layout;
    if (this.maximized !== null) {
      const group = groupAt(this.layout, this.maximized);
      if (group) return [this.group(this.maximized, group)];
      this.maximized = null;
    }
    this.columns = columns.map((column, i) => this.column(column, i));
    const row = this.columns.flatMap((column, i) =>
      i ? [columnBorder(this.sizes, () => this.element, i - 1), column] : [column],
    );
    const top = h("div", { class: "insp-columns" }, ...row);
    return dock ? [top, dockBorder(this.sizes, () => this.element), this.group("dock", dock)] : [top];
  }

  private column({ groups }: Column, index: number): HTMLElement {
    const parts = groups.flatMap((group, i) => {
      const box = this.group(`${index}.${i}`, group);
      return i ? [groupBorder(this.sizes, () => this.columns[index]!, index, i - 1), box] : [box];
    });
    return h("div", { class: "insp-stack" }, ...parts);
  }

  private shownPanes(): PaneName[] {
    if (this.isNarrow) return [this.narrowActive];
    const { columns, dock, dockOpen } = this.layout;
    if (this.maximized !== null) return [groupAt(this.layout, this.maximized)!.active];
    const fronts = columns.flatMap(({ groups }) => groups.map(({ active }) => active));
    return [...fronts, ...(dock && dockOpen ? [dock.active] : [])];
  }

  /** Applies the sizes of groups and columns, which splitters change. */
  private resize(): void {
    const isAlone = this.isNarrow || this.maximized !== null;
    for (const [i, column] of this.columns.entries())
      column.style.flexGrow = String(this.layout.columns[i]?.weight ?? 1);
    for (const [key, group] of groupsOf(this.layout)) {
      const box = this.boxes.get(key);
      if (box) box.style.flexGrow = String(isAlone ? 1 : group.weight);
    }
    const dock = this.boxes.get("dock");
    if (!dock) return;
    const isClosed = !this.layout.dockOpen && !isAlone;
    dock.classList.toggle("insp-closed", isClosed);
    dock.style.flex = isAlone ? "1" : isClosed ? "none" : `0 0 ${dockShareOf(this.layout) * 100}%`;
    const isTall = this.layout.dock !== null && TALL.includes(this.layout.dock.active);
    dock.style.minHeight = isTall && !isAlone && !isClosed ? "min(320px, 70%)" : "";
  }

  private group(key: GroupKey, group: Group): HTMLElement {
    const pane = this.panes.get(group.active)!;
    const isOpen = key !== "dock" || this.layout.dockOpen || this.maximized === "dock";
    const body = h(
      "div",
      { class: "insp-group-body", role: "tabpanel", "aria-label": TITLES[group.active] },
      isOpen && pane.element,
    );
    const header = h(
      "div",
      { class: "insp-group-head" },
      this.tabs(key, group),
      isOpen && pane.tools,
      this.groupTools(key, group),
    );
    const box = h("section", { class: "insp-group", "data-group": String(key) }, header, body);
    this.boxes.set(key, box);
    return box;
  }

  private tabs(key: GroupKey, group: Group): HTMLElement {
    const tab = (name: PaneName): HTMLButtonElement =>
      h(
        "button",
        {
          type: "button",
          role: "tab",
          "data-tab": name,
          "aria-selected": String(name === group.active),
          tabindex: name === group.active ? 0 : -1,
          onclick: () => this.show(name),
          onkeydown: ((e: KeyboardEvent) => this.onTabKey(e, group)) as EventListener,
        },
        TITLES[name],
      );
    const row = new TabRow(group.panes.map(tab), (button, hidden) => {
      const items = hidden.map((each) => ({
        text: each.textContent,
        run: () => this.showFocused(each.dataset["tab"] as PaneName),
      }));
      openMenu(this.root, button, [{ title: "More panes", items }]);
    });
    const before = this.rows.get(key);
    if (before) this.rowResizes.unobserve(before.element);
    this.rows.set(key, row);
    this.rowResizes.observe(row.element);
    return row.element;
  }

  private fitTabs(): void {
    fitRows([...this.rows.values()]);
  }

  private show(name: PaneName): void {
    this.narrowActive = name;
    this.change(activate(this.layout, name));
  }

  private onTabKey(e: KeyboardEvent, group: Group): void {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (step === undefined) return;
    e.preventDefault();
    const next = group.panes.at((group.panes.indexOf(group.active) + step) % group.panes.length)!;
    this.showFocused(next);
  }

  private showFocused(name: PaneName): void {
    this.show(name);
    this.root.querySelector<HTMLElement>(`[data-tab="${name}"]`)?.focus();
  }

  private groupTools(key: GroupKey, group: Group): HTMLElement | null {
    if (this.isNarrow) return null;
    const isMaximized = this.maximized === key;
    const isOpen = this.layout.dockOpen;
    const toggleDock = (): void => this.change({ ...this.layout, dockOpen: !isOpen });
    const maximize = (): void => {
      this.maximized = isMaximized ? null : key;
      this.draw();
    };
    return h(
      "div",
      { class: "insp-group-tools" },
      toolButton("menu", "Pane menu", (e) => this.openMenu(e.currentTarget as HTMLElement, key, group)),
      toolButton(isMaximized ? "restore" : "maximize", isMaximized ? "Restore layout" : "Maximize", maximize),
      key === "dock" &&
        !isMaximized &&
        toolButton(isOpen ? "down" : "up", isOpen ? "Close panel" : "Open panel", toggleDock),
    );
  }

  private openMenu(button: HTMLElement, key: GroupKey, group: Group): void {
    const others = this.available.filter((pane) => !group.panes.includes(pane));
    const { active } = group;
    openMenu(this.root, button, [
      { title: "Show here", items: others.map((pane) => ({ text: TITLES[pane], run: () => this.move(pane, key) })) },
      {
        title: `Move ${TITLES[active]}`,
        items: [
          ...movesOf(this.layout, active, TITLES).map(({ text, to }) => ({
            text: text[0]!.toUpperCase() + text.slice(1),
            run: () => this.move(active, to),
          })),
          { text: `Hide ${TITLES[active]}`, run: () => this.move(active, "away") },
        ],
      },
      {
        title: "Layout",
        items: [
          ...PRESETS.map(({ value, text }) => ({ text, run: () => this.arrange(value) })),
          { text: "Default layout", run: () => this.change(this.layouts.usual) },
        ],
      },
    ]);
  }

  private resizeTo(layout: Layout): void {
    this.layout = layout;
    this.resize();
    this.layouts.keep(layout);
  }
}
