// The compiler passes of the active variant, and what one of them changed.

import { Change as Span, MergeView, unifiedMergeView } from "@codemirror/merge";
import { openSearchPanel } from "@codemirror/search";
import { EditorState } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { type Choice, segments, toolButton } from "../lib/controls.ts";
import { changesOf, linesBefore } from "../lib/diffing.ts";
import { fill, h } from "../lib/dom.ts";
import { plainText, readDocument, type TextDocument } from "../lib/documents.ts";
import {
  createEditor,
  editorExtensions,
  type EditorEvents,
  light,
  revealLine,
  setDetails,
  setWrapping,
} from "../lib/editor.ts";
import { formatSeconds, plural } from "../lib/format.ts";
import { best, levelsFor } from "../lib/linking.ts";
import { listSplitter } from "../lib/splitter.ts";
import { decodeText } from "../lib/transport.ts";
import type * as messages from "../messages.ts";
import { anchorAt } from "../state/local.ts";
import type { Message } from "../state/synced.ts";
import { type Context, Drawing, follow, type Pane } from "./pane.ts";
import { absence } from "./recording.ts";
import { RowList } from "./rowlist.ts";
import { awaited, empty, failure } from "./states.ts";

type View = "unified" | "split";
type Which = "changed" | "all";

const WHICH: Choice<Which>[] = [
  { value: "changed", text: "Changed", title: "Passes that changed the program" },
  { value: "all", text: "All", title: "Every pass that ran" },
];
const VIEWS: Choice<View>[] = [
  { value: "unified", text: "Unified", title: "Before and after, one below the other" },
  { value: "split", text: "Split", title: "Before and after, side by side" },
];
const WHAT =
  "Compiles this variant once more, with a snapshot of the HLO after each pass. It takes about one and a half times as long.";
const COLLAPSE = { margin: 3, minSize: 8 };

class PassesPane implements Pane {
  readonly element = h("div", { class: "insp-recorded", "data-pane": "passes" });
  readonly tools = h("div", { class: "insp-tools" });
  private readonly drawing = new Drawing(() => this.draw());
  private readonly which = h("div", { class: "insp-segments", role: "group", "aria-label": "Which passes" });
  private readonly views = h("div", { class: "insp-segments", role: "group", "aria-label": "Change as" });
  private readonly detail = h("div", { class: "insp-recorded-detail insp-editor" });
  private readonly list = new RowList("Passes", "Filter passes", ["18px", null, "74px"], (key) =>
    this.choose(Number(key)),
  );
  private readonly border = listSplitter("Width of the list of passes", this.element, () => this.list.element);
  private readonly ends: (() => void)[];
  private readonly chosen = new Map<number, number>();
  private shownWhich: Which = "changed";
  private view: View = "unified";
  private requestId = Math.floor(Math.random() * 2 ** 30);
  private requested = "";
  private listed: { passes: messages.PassList; which: Which } | null = null;
  private drawn: { change: Message<"pass_change">; view: View } | null = null;
  private merge: MergeView | null = null;
  private editors: { view: EditorView; document: TextDocument }[] = [];

  constructor(private readonly context: Context) {
    const find = toolButton("find", "Find (Ctrl-F)", () => this.editors[0] && openSearchPanel(this.editors[0].view));
    this.tools.append(this.list.filter, this.which, this.views, find);
    const { local } = context;
    this.ends = [
      follow(context, "passes", this.drawing),
      local.signal.on(["active"], this.drawing.request),
      local.signal.on(["selection"], () => {
        if (!this.drawing.isVisible) return;
        this.reveal();
        return () => this.mark();
      }),
      local.signal.on(["wrap", "details"], () => this.applyOptions()),
    ];
  }

  setVisible(visible: boolean): void {
    this.drawing.setVisible(visible);
  }

  destroy(): void {
    this.ends.forEach((end) => end());
    this.clear();
  }

  private get passes(): messages.PassList | null {
    const { synced, local } = this.context;
    return synced.latest("passes", { variant: local.active });
  }

  private draw(): void {
    const { passes } = this;
    const isThere = Boolean(passes?.rows.length);
    for (const tool of this.tools.children) (tool as HTMLElement).hidden = !isThere;
    if (!passes || !isThere) {
      this.clear();
      this.listed = null;
      const nothing = passes ? empty("No passes", passes.note) : absence(this.context, "passes", "Passes", WHAT);
      return fill(this.element, nothing);
    }
    fill(this.which, ...segments(WHICH, this.shownWhich, (which) => this.setWhich(which)));
    fill(this.views, ...segments(VIEWS, this.view, (view) => this.setView(view)));
    this.drawList(passes);
    this.drawDetail(passes);
  }

  private drawList(passes: messages.PassList): void {
    if (this.listed?.passes === passes && this.listed.which === this.shownWhich) return;
    this.listed = { passes, which: this.shownWhich };
    const longest = Math.max(1e-9, ...passes.rows.map((row) => row.duration_s ?? 0));
    const rows = passes.rows
      .map((row, index) => ({ row, index }))
      .filter(({ row }) => this.shownWhich === "all" || row.changed)
      .map(({ row, index }) => ({
        key: String(index),
        group: row.pipeline,
        text: `${row.name} ${row.pipeline}`,
        className: row.changed ? "" : "insp-unchanged",
        cells: cells(row, longest),
      }));
    const changed = passes.rows.filter((row) => row.changed).length;
    const count = `${plural(changed, "pass", "passes")} of ${passes.rows.length} changed the program`;
    this.list.show(rows, [count, passes.note].filter(Boolean).join(". "));
    fill(this.element, h("div", { class: "insp-recorded-body" }, this.list.element, this.border, this.detail));
    const variant = this.context.local.active!;
    const first = passes.rows.findIndex((row) => row.changed);
    if (!this.chosen.has(variant)) this.chosen.set(variant, Math.max(0, first));
  }

  private choose(index: number): void {
    this.chosen.set(this.context.local.active!, index);
    this.drawing.request();
  }

  private setWhich(which: Which): void {
    this.shownWhich = which;
    this.drawing.request();
  }

  private setView(view: View): void {
    this.view = view;
    this.drawing.request();
  }

  /** Asks for the chosen pass unless it was asked for, and shows it once it is there. */
  private drawDetail(passes: messages.PassList): void {
    const { synced, local } = this.context;
    const variant = local.active!;
    const index = this.chosen.get(variant)!;
    const row = passes.rows[index];
    this.list.select(String(index));
    if (!row) return;
    const wanted = `${variant}/${index}`;
    if (this.requested !== wanted) {
      this.requested = wanted;
      synced.send({ type: "pass", id: ++this.requestId, variant, index, since: null, whole: true });
    }
    const change = synced.reply("pass_change", this.requestId);
    if (!change) {
      this.clear();
      return fill(this.detail, awaited(synced, `Reading ${row.name}`, `${row.name} was not received`));
    }
    if (this.drawn?.change === change && this.drawn.view === this.view) return;
    this.clear();
    if (change.error) return fill(this.detail, failure(change.error, `${row.name} cannot be shown`));
    this.drawChange(row, change);
  }

  private drawChange(row: messages.PassRow, change: Message<"pass_change">): void {
    this.drawn = { change, view: this.view };
    const time = row.duration_s === null ? row.reason : formatSeconds(row.duration_s);
    const head = h(
      "div",
      { class: "insp-summary" },
      h("span", { class: "insp-tok-op" }, row.name),
      h("span", { class: "insp-dim" }, ` ${row.pipeline} · ${time} · `),
      change.summary,
    );
    const host = h("div", { class: "insp-diff" });
    fill(this.detail, head, host);
    const { before, after } = this.texts(change);
    const spans = changesOf(change.hunks, before, after).map((s) => new Span(...s));
    if (!spans.length) this.editors = [{ view: this.plain(after, host), document: after }];
    else if (this.view === "split") this.split(before, after, spans, host);
    else this.unified(before, after, spans, host);
    this.mark();
  }

  /** The module after a pass, and before it: of what came after and what went. */
  private texts(change: Message<"pass_change">): { before: TextDocument; after: TextDocument } {
    const { synced } = this.context;
    const parts = synced.parts(change);
    const about = { pane: "passes", variant: change.variant, language: "hlo", title: "" } as const;
    const after = readDocument(about, parts, synced.origins);
    const before = linesBefore(after.lines, change.hunks, decodeText(parts[4]!).split("\n"));
    return { before: plainText(about, before.join("\n")), after };
  }

  private plain(document: TextDocument, parent: HTMLElement): EditorView {
    return createEditor(document, this.events(document), this.context.local, parent);
  }

  private split(a: TextDocument, b: TextDocument, spans: Span[], parent: HTMLElement): void {
    const side = (document: TextDocument) => ({ doc: document.text, extensions: this.extensions(document) });
    const config = { gutter: true, collapseUnchanged: COLLAPSE, diffConfig: { override: () => spans } };
    this.merge = new MergeView({ a: side(a), b: side(b), parent, ...config });
    this.editors = [
      { view: this.merge.b, document: b },
      { view: this.merge.a, document: a },
    ];
  }

  private unified(a: TextDocument, b: TextDocument, spans: Span[], parent: HTMLElement): void {
    const merge = unifiedMergeView({
      original: a.text,
      mergeControls: false,
      gutter: true,
      collapseUnchanged: COLLAPSE,
      diffConfig: { override: () => spans },
    });
    const state = EditorState.create({ doc: b.text, extensions: [this.extensions(b), merge] });
    this.editors = [{ view: new EditorView({ state, parent }), document: b }];
  }

  private extensions(document: TextDocument): ReturnType<typeof editorExtensions> {
    return editorExtensions(document, this.events(document), this.context.local);
  }

  private events(document: TextDocument): EditorEvents {
    const { local } = this.context;
    return {
      onLine: (line) => {
        const name = document.instruction(line);
        const optimized = this.context.synced.document("optimized", local.active);
        const isStillThere = name !== null && (optimized?.lineOfInstruction(name) ?? -1) >= 0;
        if (isStillThere) local.selectInstruction("passes", "optimized", name);
        else local.select(anchorAt(document, line));
      },
      onHover: () => undefined,
      onMove: () => undefined,
      onClear: () => local.select(null),
    };
  }

  /** Lights the selected instruction, where the pass's text has one of that name, and what comes from the same place. */
  private mark(): void {
    const link = this.context.local.link();
    for (const { view, document } of this.editors) {
      const levels = link && levelsFor(link, document).of;
      light(view, { chosen: this.chosenLine(document), levels, hover: null });
    }
  }

  /** Scrolls to what is lit, where it was selected elsewhere. */
  private reveal(): void {
    const { local } = this.context;
    if (!local.selection || local.selection.pane === "passes") return;
    for (const { view, document } of this.editors) {
      const matches = local.matches(document);
      const chosen = this.chosenLine(document);
      const line = chosen >= 0 ? chosen : ((matches && best(matches)[0]) ?? -1);
      if (line >= 0) revealLine(view, line);
    }
  }

  private chosenLine(document: TextDocument): number {
    const { selection } = this.context.local;
    return selection?.instruction ? document.lineOfInstruction(selection.instruction) : -1;
  }

  private applyOptions(): void {
    const { wrap, details } = this.context.local;
    for (const { view, document } of this.editors) {
      setWrapping(view, wrap);
      setDetails(view, document, details);
    }
  }

  private clear(): void {
    this.merge?.destroy();
    if (!this.merge) this.editors.forEach(({ view }) => view.destroy());
    this.merge = null;
    this.editors = [];
    this.drawn = null;
    fill(this.detail);
  }
}

function cells(row: messages.PassRow, longest: number): HTMLElement[] {
  const seconds = row.duration_s;
  const share = seconds === null ? 0 : Math.sqrt(seconds / longest);
  return [
    h(
      "td",
      { class: "insp-pass-mark", title: row.changed ? "changed the program" : "changed nothing" },
      row.changed ? "●" : "",
    ),
    h("th", { scope: "row", title: `${row.name} in ${row.pipeline}` }, row.name),
    h(
      "td",
      {
        class: "insp-number insp-pass-time",
        title: row.reason || `${seconds} s`,
        style: `--share:${share.toFixed(3)}`,
      },
      seconds === null ? "–" : formatSeconds(seconds),
    ),
  ];
}

export const pane = (context: Context): Pane => new PassesPane(context);
