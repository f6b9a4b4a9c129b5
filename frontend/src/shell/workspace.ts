// Columns and dock: which pane is where, and how large. Two layouts are kept: one of them for texts
// side by side, which need width.

import { toolButton } from "../lib/controls.ts";
import { fill, h } from "../lib/dom.ts";
import { openMenu } from "../lib/menu.ts";
import { splitter } from "../lib/splitter.ts";
import { recall, remember } from "../lib/storage.ts";
import type { Pane as PaneName } from "../messages.ts";
import { type Pane, TITLES } from "../panes/pane.ts";
import {
  activate,
  borderOf,
  defaultLayout,
  evened,
  type Group,
  type GroupKey,
  groupAt,
  groupOf,
  isSameLayout,
  type Layout,
  type Preset,
  presetLayout,
  movePane,
  PRESETS,
  resizeColumns,
  resizeDock,
  restoreLayout,
  widened,
} from "../state/layout.ts";

/** A layout that the notebook keeps; what Python sets may be the name of one. */
export interface Arrangement {
  get(): (Partial<Layout> & { readonly preset?: string; readonly side_by_side?: boolean }) | null;
  set(layout: Layout & { readonly side_by_side: boolean }): void;
}

const NARROW_PX = 700;
const WIDE_PANE: PaneName = "optimized";
const KEY_STEP = 0.03;

export class Workspace {
  readonly element = h("div", { class: "insp-workspace" });
  private layout: Layout;
  private isNarrow = false;
  private narrowActive: PaneName;
  private maximised: GroupKey | null = null;
  private readonly resizes = new ResizeObserver(([entry]) => this.onWidth(entry!.contentRect.width));
  private readonly boxes = new Map<GroupKey, HTMLElement>();

  constructor(
    private readonly root: HTMLElement,
    private readonly panes: ReadonlyMap<PaneName, Pane>,
    /** Whether the optimized HLO shows several texts side by side. */
    private isWide: boolean,
    private readonly arrangement: Arrangement,
  ) {
    this.layout = this.kept ?? this.recalled();
    this.narrowActive = this.layout.columns[this.layout.columns.length - 1]!.active;
    this.resizes.observe(this.element);
    this.draw();
  }

  destroy(): void {
    this.resizes.disconnect();
  }

  /** Brings a pane to the front. */
  reveal(pane: PaneName): void {
    this.narrowActive = pane;
    const key = groupOf(this.layout, pane);
    const isHidden = this.maximised !== null && this.maximised !== key;
    if (isHidden) this.maximised = null;
    if (
      key === null ||
      (!isHidden &&
        !this.isNarrow &&
        groupAt(this.layout, key)?.active === pane &&
        (key !== "dock" || this.layout.dockOpen))
    )
      return;
    this.change(activate(this.layout, pane));
  }

  /** Arranges all panes for a purpose. */
  arrange(preset: Preset): void {
    this.maximised = null;
    this.change(presetLayout(preset, [...this.panes.keys()]));
  }

  setWide(isWide: boolean): void {
    if (isWide === this.isWide) return;
    const front = this.maximised === null ? null : (groupAt(this.layout, this.maximised)?.active ?? null);
    this.isWide = isWide;
    this.layout = this.recalled();
    this.maximised = front && groupOf(this.layout, front);
    if (front) this.layout = activate(this.layout, front);
    this.draw();
  }

  /** As the notebook or Python has it. */
  private get kept(): Layout | null {
    const available = [...this.panes.keys()];
    const kept = this.arrangement.get();
    const preset = PRESETS.find(({ value }) => value === kept?.preset);
    if (preset) return presetLayout(preset.value, available);
    return kept ? restoreLayout(kept, available) : null;
  }

  /** Takes over what Python has set; of what the page itself has set it is told as well. */
  follow(): void {
    const { kept } = this;
    if (!kept || isSameLayout(kept, this.layout)) return;
    this.maximised = null;
    this.layout = kept;
    this.keep();
    this.draw();
  }

  private get memory(): string {
    return this.isWide ? "layout.columns" : "layout";
  }

  private recalled(): Layout {
    const available = [...this.panes.keys()];
    const plain = restoreLayout(recall("layout"), available);
    return this.isWide ? restoreLayout(recall(this.memory), available, widened(plain, WIDE_PANE)) : plain;
  }

  private default(): Layout {
    const plain = defaultLayout([...this.panes.keys()]);
    return this.isWide ? widened(plain, WIDE_PANE) : plain;
  }

  private change(layout: Layout): void {
    this.layout = layout;
    this.keep();
    this.draw();
  }

  private onWidth(width: number): void {
    const isNarrow = width > 0 && width < NARROW_PX;
    if (isNarrow === this.isNarrow) return;
    this.isNarrow = isNarrow;
    this.draw();
  }

  private draw(): void {
    const focused = this.root.contains(document.activeElement)
      ? document.activeElement?.getAttribute("data-tab")
      : null;
    for (const pane of this.panes.values()) pane.setVisible(false);
    this.boxes.clear();
    this.root.classList.toggle("insp-narrow", this.isNarrow);
    fill(this.element, ...(this.isNarrow ? [this.narrow()] : this.wide()));
    this.resize();
    this.showActiveTabs();
    for (const name of this.shownPanes()) this.panes.get(name)?.setVisible(true);
    if (focused) this.root.querySelector<HTMLElement>(`[data-tab="${focused}"]`)?.focus();
  }

  private narrow(): HTMLElement {
    const panes = [...this.panes.keys()];
    return this.group(0, { panes, active: this.narrowActive, weight: 1 });
  }

  private wide(): HTMLElement[] {
    const { columns, dock } = this.layout;
    if (this.maximised !== null) {
      const group = groupAt(this.layout, this.maximised);
      if (group) return [this.group(this.maximised, group)];
      this.maximised = null;
    }
    const row = columns.flatMap((column, i) =>
      i ? [this.columnSplitter(i - 1), this.group(i, column)] : [this.group(i, column)],
    );
    const top = h("div", { class: "insp-columns" }, ...row);
    return dock ? [top, this.dockSplitter(), this.group("dock", dock)] : [top];
  }

  private shownPanes(): PaneName[] {
    if (this.isNarrow) return [this.narrowActive];
    const { columns, dock, dockOpen } = this.layout;
    if (this.maximised !== null) return [groupAt(this.layout, this.maximised)!.active];
    return [...columns.map((c) => c.active), ...(dock && dockOpen ? [dock.active] : [])];
  }

  /** Applies the sizes alone: what a splitter changes. */
  private resize(): void {
    const isAlone = this.isNarrow || this.maximised !== null;
    this.layout.columns.forEach((column, i) => {
      const box = this.boxes.get(i);
      if (box) box.style.flexGrow = String(isAlone ? 1 : column.weight);
    });
    const dock = this.boxes.get("dock");
    if (!dock) return;
    const isClosed = !this.layout.dockOpen && !isAlone;
    dock.classList.toggle("insp-closed", isClosed);
    dock.style.flex = isAlone ? "1" : isClosed ? "none" : `0 0 ${this.layout.dockShare * 100}%`;
  }

  private group(key: GroupKey, group: Group): HTMLElement {
    const pane = this.panes.get(group.active)!;
    const isOpen = key !== "dock" || this.layout.dockOpen || this.maximised === "dock";
    const body = h(
      "div",
      { class: "insp-group-body", role: "tabpanel", "aria-label": TITLES[group.active] },
      isOpen && pane.element,
    );
    const header = h(
      "div",
      { class: "insp-group-head" },
      this.tabs(group),
      isOpen && pane.tools,
      this.groupTools(key, group),
    );
    const box = h("section", { class: "insp-group", "data-group": String(key) }, header, body);
    this.boxes.set(key, box);
    return box;
  }

  private tabs(group: Group): HTMLElement {
    const tab = (name: PaneName): HTMLElement =>
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
    return h("div", { class: "insp-tabs", role: "tablist" }, ...group.panes.map(tab));
  }

  /** Where a row of tabs is too narrow for all of them, the one at the front is in view. */
  private showActiveTabs(): void {
    for (const tab of this.element.querySelectorAll<HTMLElement>("[role=tab][aria-selected=true]")) {
      const row = tab.parentElement!;
      const left = tab.offsetLeft - row.offsetLeft;
      if (left < row.scrollLeft) row.scrollLeft = left;
      else if (left + tab.offsetWidth > row.scrollLeft + row.clientWidth)
        row.scrollLeft = left + tab.offsetWidth - row.clientWidth;
    }
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
    this.show(next);
    this.root.querySelector<HTMLElement>(`[data-tab="${next}"]`)?.focus();
  }

  private groupTools(key: GroupKey, group: Group): HTMLElement | null {
    if (this.isNarrow) return null;
    const isMaximised = this.maximised === key;
    const isOpen = this.layout.dockOpen;
    const toggleDock = (): void => this.change({ ...this.layout, dockOpen: !isOpen });
    const maximise = (): void => {
      this.maximised = isMaximised ? null : key;
      this.draw();
    };
    return h(
      "div",
      { class: "insp-group-tools" },
      toolButton("menu", "Choose what is shown here", (e) => this.openMenu(e.currentTarget as HTMLElement, key, group)),
      toolButton(isMaximised ? "restore" : "maximise", isMaximised ? "Back to all columns" : "Maximise", maximise),
      key === "dock" &&
        !isMaximised &&
        toolButton(isOpen ? "down" : "up", isOpen ? "Close the panel" : "Open the panel", toggleDock),
    );
  }

  private openMenu(button: HTMLElement, key: GroupKey, group: Group): void {
    const others = [...this.panes.keys()].filter((p) => !group.panes.includes(p));
    const move = (pane: PaneName, to: GroupKey | "column" | "away") => () =>
      this.change(movePane(this.layout, pane, to));
    const title = TITLES[group.active];
    const isAlone = group.panes.length === 1;
    openMenu(this.root, button, [
      { title: "Show here", items: others.map((p) => ({ text: TITLES[p], run: move(p, key) })) },
      {
        title,
        items: [{ text: "Hide", run: move(group.active, "away") }],
      },
      {
        title: `Move ${title} to`,
        items: [
          ...(isAlone && key !== "dock" ? [] : [{ text: "a new column", run: move(group.active, "column") }]),
          ...(key === "dock" ? [] : [{ text: "the panel below", run: move(group.active, "dock") }]),
        ],
      },
      {
        title: "Layout",
        items: [
          ...PRESETS.map(({ value, text }) => ({ text: `For: ${text}`, run: () => this.arrange(value) })),
          { text: "Reset to default", run: () => this.change(this.default()) },
        ],
      },
    ]);
  }

  private columnSplitter(index: number): HTMLElement {
    const share = (pixels: number): number => pixels / Math.max(1, this.element.clientWidth);
    const move = (before: Layout, by: number): void => this.resizeTo(resizeColumns(before, index, by));
    return splitter({
      label: "Width of the columns",
      isVertical: true,
      className: "insp-splitter",
      start: () => {
        const before = this.layout;
        return (pixels) => move(before, share(pixels));
      },
      step: (direction) => move(this.layout, direction * KEY_STEP),
      reset: () => this.resizeTo(evened(this.layout, this.default())),
      position: () => borderOf(this.layout, index),
    });
  }

  private dockSplitter(): HTMLElement {
    const move = (before: Layout, by: number): void => this.resizeTo(resizeDock(before, before.dockShare - by));
    return splitter({
      label: "Height of the panel",
      isVertical: false,
      className: "insp-splitter insp-splitter-flat",
      start: () => {
        const before = this.layout;
        return before.dockOpen ? (pixels) => move(before, pixels / Math.max(1, this.element.clientHeight)) : null;
      },
      step: (direction) => this.layout.dockOpen && move(this.layout, direction * KEY_STEP),
      reset: () => this.layout.dockOpen && this.resizeTo(resizeDock(this.layout, this.default().dockShare)),
      position: () => 1 - this.layout.dockShare,
    });
  }

  private resizeTo(layout: Layout): void {
    this.layout = layout;
    this.resize();
    this.keep();
  }

  /** In the notebook, where Python reads it, and for the next Explorer in this browser. */
  private keep(): void {
    remember(this.memory, this.layout);
    this.arrangement.set({ ...this.layout, side_by_side: this.isWide });
  }
}
