// One view of the app: controls, toolbar, panes and status bar, and the code that connects them.

import { fill, h } from "../lib/dom.ts";
import { shareKeys } from "../lib/shortcuts.ts";
import { splitter } from "../lib/splitter.ts";
import { recall, remember } from "../lib/storage.ts";
import { hideStored } from "../lib/stored.ts";
import { addStyles } from "../lib/styles.ts";
import { followTheme } from "../lib/theme.ts";
import type { Pane as PaneName } from "../messages.ts";
import { MAKERS } from "../panes.ts";
import type { Pane } from "../panes/pane.ts";
import { loading } from "../panes/states.ts";
import type { Preset } from "../state/layout.ts";
import type { Local } from "../state/local.ts";
import type { Synced } from "../state/synced.ts";
import { type Command, commandsOf } from "./commands.ts";
import { Controls } from "./controls.ts";
import { Headline } from "./headline.ts";
import { openHelp } from "./help.ts";
import { KeptLayouts } from "./keeping.ts";
import { Notices } from "./notices.ts";
import { Palette } from "./palette.ts";
import { StatusBar } from "./statusbar.ts";
import { Toolbar } from "./toolbar.ts";
import { Workspace } from "./workspace.ts";

/** The usual height: this share of the window, within limits. */
const WINDOW_SHARE = 0.85;
const LARGEST_HEIGHT_PX = 900;
const SMALLEST_HEIGHT_PX = 480;
const MIN_HEIGHT_PX = 240;
const KEY_STEP_PX = 24;

export class View {
  private readonly root = h("div", { class: "insp", role: "region", "aria-label": "Explorer" });
  private readonly main = h("div", { class: "insp-main" });
  private readonly controls: Controls;
  private readonly toolbar: Toolbar;
  private readonly headline: Headline;
  private readonly notices: Notices;
  private readonly statusbar: StatusBar;
  private readonly palette: Palette;
  private readonly commands: readonly Command[];
  private readonly panes = new Map<PaneName, Pane>();
  private readonly ends: (() => void)[];
  private workspace: Workspace | null = null;
  private known = new Set<number>();

  constructor(
    private readonly synced: Synced,
    private readonly local: Local,
    host: HTMLElement,
  ) {
    const context = { synced, local };
    this.commands = commandsOf(context, {
      search: (text) => this.palette.open(text),
      help: () => openHelp(this.root, this.commands),
      fullWindow: () => this.root.classList.toggle("insp-full"),
      arrange: (preset) => this.arrangeFor(preset),
      save: () => this.toolbar.save(),
      saveWithNote: () => this.toolbar.saveWithNote(),
    });
    this.palette = new Palette(this.root, context, () => [...this.commands, ...(this.workspace?.commands() ?? [])]);
    this.controls = new Controls(context);
    this.toolbar = new Toolbar(context, this.controls.opener);
    this.headline = new Headline(context);
    this.notices = new Notices(context);
    this.statusbar = new StatusBar(context);
    this.root.append(
      this.controls.element,
      this.toolbar.element,
      this.headline.element,
      this.notices.element,
      this.main,
      this.statusbar.element,
      this.heightHandle(),
    );
    host.append(this.root);
    addStyles(host);
    this.ends = [
      followTheme(this.root),
      shareKeys(this.root),
      synced.signal.on(["variant"], () => this.onVariants()),
      synced.signal.on(["session"], () => this.onSession()),
      synced.signal.on(["variant"], () => this.arrange()),
      this.local.signal.on(["optimizedView"], () => this.onOptimizedView()),
      this.local.signal.on(["reveal"], () => this.onReveal()),
      synced.signal.on(["arrangement"], () => this.workspace?.follow()),
    ];
    this.root.addEventListener("keydown", (e) => this.onKey(e));
    this.onVariants();
    this.onSession();
  }

  destroy(): void {
    this.ends.forEach((end) => end());
    this.panes.forEach((pane) => pane.destroy());
    for (const part of [
      this.controls,
      this.toolbar,
      this.headline,
      this.notices,
      this.statusbar,
      this.palette,
      this.workspace,
    ])
      part?.destroy();
    this.root.remove();
  }

  private onKey(e: KeyboardEvent): void {
    const isField = e.target instanceof Element && e.target.matches("input, textarea, select");
    if (e.defaultPrevented || isField || e.ctrlKey || e.metaKey || e.altKey) return;
    const command = this.commands.find(({ key }) => key === e.key);
    if (!command) return;
    e.preventDefault();
    command.run();
  }

  private onReveal(): void {
    if (this.local.revealed) this.workspace?.reveal(this.local.revealed);
  }

  private arrangeFor(preset: Preset): void {
    this.local.setOptimizedView(preset === "compare" && this.synced.variants.size > 1 ? "columns" : "text");
    this.workspace?.arrange(preset);
  }

  private onSession(): void {
    const { session } = this.synced;
    if (!session) return fill(this.main, loading("Waiting for the notebook kernel", null));
    if (this.workspace) return;
    this.root.style.height = `${this.usualHeight}px`;
    for (const name of session.panes) this.panes.set(name, MAKERS[name]({ synced: this.synced, local: this.local }));
    const kept = this.synced.arrangement.get()?.["side_by_side"];
    if (kept ?? recall(this.memory) ?? session.side_by_side) this.local.setOptimizedView("columns");
    if (!this.synced.isRecorded) this.ends.push(hideStored(session.stored_class));
    const layouts = new KeptLayouts(
      [...this.panes.keys()],
      this.synced.arrangement,
      this.root.clientWidth || window.innerWidth,
      this.local.isSideBySide,
      session.is_kernel,
    );
    this.workspace = new Workspace(this.root, this.panes, layouts);
    fill(this.main, this.workspace.element);
    this.onReveal();
  }

  /** The name of the saved choice of columns. Explorers that begin side by side have a separate one. */
  private get memory(): string {
    return this.synced.session?.side_by_side ? "columns.targets" : "columns";
  }

  private onOptimizedView(): void {
    const { optimizedView } = this.local;
    if (optimizedView === "text" || optimizedView === "columns") remember(this.memory, optimizedView === "columns");
    this.arrange();
  }

  private arrange(): void {
    this.workspace?.setWide(this.local.isSideBySide);
  }

  /**
   * Keeps one variant active. A variant that is added after another one has ended becomes the active one, unless it has
   * another program: the pane that added it stays as it is.
   */
  private onVariants(): void {
    const { variants, earlier } = this.synced;
    const ended = ["done", "failed", "cancelled"];
    const hadEnded = [...this.known].some((v) => ended.includes(variants.get(v)?.state ?? ""));
    let next = this.local.active;
    for (const variant of variants.values()) {
      const isNew = !this.known.has(variant.variant) && !earlier.has(variant.variant) && !variant.origin;
      if (isNew && hadEnded && variant.state !== "done") next = variant.variant;
    }
    this.known = new Set(variants.keys());
    if (next === null || !variants.has(next)) next = [...variants.keys()].at(next === null ? 0 : -1) ?? null;
    this.local.setActive(next);
  }

  private heightHandle(): HTMLElement {
    const resize = (pixels: number): void => {
      this.root.style.height = `${Math.max(MIN_HEIGHT_PX, Math.round(pixels))}px`;
    };
    return splitter({
      label: "Explorer height",
      isVertical: false,
      className: "insp-height",
      start: () => {
        const before = this.root.offsetHeight;
        return (pixels) => resize(before + pixels);
      },
      step: (direction) => resize(this.root.offsetHeight + direction * KEY_STEP_PX),
      reset: () => resize(this.usualHeight),
      position: () => Math.min(1, this.root.offsetHeight / Math.max(1, window.innerHeight)),
    });
  }

  private get usualHeight(): number {
    const fitting = Math.min(LARGEST_HEIGHT_PX, Math.round(WINDOW_SHARE * window.innerHeight));
    return this.synced.session?.height_px || Math.max(SMALLEST_HEIGHT_PX, fitting);
  }
}
