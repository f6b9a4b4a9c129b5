// The optimized HLO of the active variant, of all variants side by side, or compared with the baseline, aligned by
// structure.

import { Change, MergeView, unifiedMergeView } from "@codemirror/merge";
import { EditorState, type Extension } from "@codemirror/state";
import { Decoration, EditorView } from "@codemirror/view";
import { type Choice, segments, textButton } from "../lib/controls.ts";
import { alignedBefore, changesOf } from "../lib/diffing.ts";
import { fill, h } from "../lib/dom.ts";
import type { TextDocument } from "../lib/documents.ts";
import { editorExtensions, revealLine } from "../lib/editor.ts";
import { openMenu } from "../lib/menu.ts";
import { decodeText } from "../lib/transport.ts";
import type * as messages from "../messages.ts";
import { anchorAt, type OptimizedView } from "../state/local.ts";
import type { Message } from "../state/synced.ts";
import { ChangeList } from "./changelist.ts";
import { Columns } from "./columns.ts";
import { nameOfReference, textOf } from "./labels.ts";
import type { Context, Pane } from "./pane.ts";
import { awaited } from "./states.ts";
import { TextPane } from "./text.ts";

const COLLAPSE = { margin: 3, minSize: 8 };
const FOLLOWING = Decoration.line({ class: "insp-following" });
const VIEWS: Choice<OptimizedView>[] = [
  { value: "text", text: "Text", title: "Active variant" },
  { value: "columns", text: "Columns", title: "All variants side by side" },
  { value: "split", text: "Split", title: "Compare side by side" },
  { value: "unified", text: "Unified", title: "Compare in one text" },
];

type Drawn = NonNullable<OptimizedPane["drawn"]>;

class OptimizedPane extends TextPane {
  private readonly switcher = h("div", {
    class: "insp-segments insp-optimized-views",
    role: "group",
    "aria-label": "Optimized HLO view",
  });
  private readonly hiddenButton = textButton("", "Show hidden columns", () => this.openHidden());
  private columns: Columns | null = null;
  private merge: MergeView | null = null;
  private readonly endColumns: () => void;
  /** The comparison on screen, which is redrawn only if it has changed. */
  private drawn: { view: OptimizedView; diff: Message<"diff">; b: TextDocument } | null = null;
  private readonly changes: ChangeList;

  constructor(context: Context) {
    super(context, "optimized");
    this.changes = new ChangeList(context, (change) => this.showChange(change));
    this.tools.prepend(this.hiddenButton, this.switcher);
    this.endColumns = context.local.signal.on(["columns"], this.drawing.request);
  }

  override setVisible(visible: boolean): void {
    super.setVisible(visible);
    this.columns?.setVisible(visible);
  }

  override destroy(): void {
    this.endColumns();
    this.changes.destroy();
    super.destroy();
  }

  protected override draw(): void {
    this.drawTools();
    if (this.context.local.isSideBySide) return this.drawColumns();
    super.draw();
  }

  private drawColumns(): void {
    if (!this.columns) {
      this.clear();
      this.columns = new Columns(this.context, this.name);
      this.columns.setVisible(true);
      fill(this.body, this.columns.element);
    }
    this.columns.draw();
  }

  protected override drawDocument(document: TextDocument): void {
    const { synced, local } = this.context;
    const reference = local.active === null ? null : local.referenceOf(local.active);
    const isCompared = this.isDiff && reference !== null && local.active !== reference;
    if (!isCompared) {
      this.drawn = null;
      return super.drawDocument(document);
    }
    const diff = synced.latest("diff", { baseline: reference, variant: local.active });
    if (!diff) {
      this.clear();
      const title = `Comparing with ${nameOfReference(synced, reference)}`;
      return fill(this.body, awaited(synced, title, "Comparison not received"));
    }
    this.drawDiff({ view: local.optimizedView, diff, b: document });
  }

  private drawDiff(wanted: NonNullable<OptimizedPane["drawn"]>): void {
    this.changes.show(wanted.diff);
    const now = this.drawn;
    const isSame = now && now.view === wanted.view && now.diff === wanted.diff && now.b === wanted.b;
    if (isSame && this.shown.length) return;
    this.clear();
    this.drawn = wanted;
    const summary = h("div", { class: "insp-summary", role: "status" }, ...this.summary(wanted.diff));
    const host = h("div", { class: "insp-diff" });
    fill(this.body, summary, this.changes.element, host);
    const removed = this.context.synced.parts(wanted.diff)[0];
    const a = alignedBefore(wanted.diff, wanted.b, removed ? decodeText(removed) : "");
    this.present(wanted.view === "split" ? this.split(wanted, a, host) : this.unified(wanted, a, host));
  }

  private split({ diff, b }: Drawn, a: TextDocument, parent: HTMLElement): TextPane["shown"] {
    const side = (document: TextDocument, more: Extension): { doc: TextDocument["text"]; extensions: Extension } => ({
      doc: document.text,
      extensions: [editorExtensions(document, this.events(document), this.context.local), more],
    });
    this.merge = new MergeView({
      a: side(a, following(diff, a, 0)),
      b: side(b, following(diff, b, 2)),
      parent,
      gutter: true,
      collapseUnchanged: COLLAPSE,
      diffConfig: { override: override(diff, a, b) },
    });
    return [
      { view: this.merge.a, document: a },
      { view: this.merge.b, document: b },
    ];
  }

  private unified({ diff, b }: Drawn, a: TextDocument, parent: HTMLElement): TextPane["shown"] {
    const extensions = [
      editorExtensions(b, this.events(b), this.context.local),
      following(diff, b, 2),
      unifiedMergeView({
        original: a.text,
        mergeControls: false,
        gutter: true,
        collapseUnchanged: COLLAPSE,
        diffConfig: { override: override(diff, a, b) },
      }),
    ];
    const view = new EditorView({ state: EditorState.create({ doc: b.text, extensions }), parent });
    return [{ view, document: b }];
  }

  /**
   * Selects an instruction that a change produced, so that all panes show it, and scrolls to it; to the change's place
   * in the text if it produced none.
   */
  private showChange({ after, line }: messages.ChangeMessage): void {
    const own = this.shown.at(-1);
    if (!own) return;
    const { view, document } = own;
    const made = after.map((name) => document.lineOfInstruction(name)).find((each) => each >= 0);
    if (made !== undefined) this.context.local.select(anchorAt(document, made));
    const place = made ?? line;
    if (place >= 0) revealLine(view, place);
  }

  protected override clear(): void {
    super.clear();
    this.columns?.destroy();
    this.columns = null;
    this.merge?.destroy();
    this.merge = null;
    this.drawn = null;
  }

  /** Searches in all columns, or in the text. */
  override find(): void {
    if (this.columns) this.columns.find();
    else super.find();
  }

  protected override get tellsChange(): boolean {
    return !this.isDiff;
  }

  private get isDiff(): boolean {
    const { optimizedView } = this.context.local;
    return optimizedView === "split" || optimizedView === "unified";
  }

  /** Summarizes the differences. Between platforms, a note first explains that nearly everything differs. */
  private summary(diff: messages.DiffMessage): (HTMLElement | string)[] {
    const { variants } = this.context.synced;
    const [a, b] = [variants.get(diff.baseline), variants.get(diff.variant)];
    const words = diff.summary;
    if (!a || !b || a.platform === b.platform) return [words];
    const note = `${a.target} and ${b.target} have different compilers, so nearly everything differs. `;
    const show = textButton("Show side by side", "Show all variants in columns, linked by shared operations", () =>
      this.context.local.setOptimizedView("columns"),
    );
    return [h("span", { class: "insp-summary-note" }, note), h("span", {}, words), show];
  }

  private drawTools(): void {
    const { synced, local } = this.context;
    const isAlone = local.active === null || local.referenceOf(local.active) === local.active;
    const choices = VIEWS.filter(({ value }) => !isAlone || value === "text" || value === "columns");
    this.switcher.hidden = synced.variants.size < 2;
    const shown = local.isSideBySide ? "columns" : isAlone ? "text" : local.optimizedView;
    fill(this.switcher, ...segments(choices, shown, (view) => local.setOptimizedView(view)));
    this.findButton.title = local.isSideBySide ? "Find in every column" : "Find (Ctrl-F)";
    const count = synced.variants.size - local.columns.length;
    this.hiddenButton.hidden = !local.isSideBySide || count === 0;
    this.hiddenButton.textContent = `${count} more`;
  }

  private openHidden(): void {
    const { synced, local } = this.context;
    const hidden = [...synced.variants.values()].filter((v) => local.hidden.has(v.variant));
    const items = hidden.map((v) => ({ text: textOf(v), run: () => local.showColumns([v.variant]) }));
    const all = { text: "All", run: () => local.showColumns([...local.hidden]) };
    openMenu(this.element.closest<HTMLElement>(".insp")!, this.hiddenButton, [
      { title: "Show column", items: items.length > 1 ? [...items, all] : items },
    ]);
  }
}

/** Marks the lines of hunks that only follow from other hunks. `side` is the index of the line range in a hunk. */
function following(diff: messages.DiffMessage, document: TextDocument, side: 0 | 2): Extension {
  const { text } = document;
  const ranges = diff.following.flatMap((number) => {
    const hunk = diff.hunks[number]!;
    return Array.from({ length: hunk[side + 1]! - hunk[side]! }, (_, i) =>
      FOLLOWING.range(text.line(hunk[side]! + i + 1).from),
    );
  });
  return EditorView.decorations.of(Decoration.set(ranges));
}

function override(diff: messages.DiffMessage, a: TextDocument, b: TextDocument): () => readonly Change[] {
  return () => changesOf(diff.hunks, a, b).map(([fa, ta, fb, tb]) => new Change(fa, ta, fb, tb));
}

export const pane = (context: Context): Pane => new OptimizedPane(context);
