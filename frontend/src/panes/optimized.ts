// The optimized HLO of the active variant, as text or against the baseline.

import { Change, MergeView, unifiedMergeView } from "@codemirror/merge";
import { EditorState } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { type Choice, segments } from "../lib/controls.ts";
import { changesOf } from "../lib/diffing.ts";
import { fill, h } from "../lib/dom.ts";
import type { TextDocument } from "../lib/documents.ts";
import { editorExtensions } from "../lib/editor.ts";
import type * as messages from "../messages.ts";
import type { OptimizedView } from "../state/local.ts";
import type { Context, Pane } from "./pane.ts";
import { loading } from "./states.ts";
import { TextPane } from "./text.ts";

const COLLAPSE = { margin: 3, minSize: 8 };
const VIEWS: Choice<OptimizedView>[] = [
  { value: "text", text: "Text", title: "The active variant" },
  { value: "split", text: "Split", title: "Against the baseline, side by side" },
  { value: "unified", text: "Unified", title: "Against the baseline, one below the other" },
];

class OptimizedPane extends TextPane {
  private readonly switcher = h("div", { class: "insp-segments", role: "group", "aria-label": "Optimized HLO as" });
  private merge: MergeView | null = null;
  /** What is on screen, to leave it alone when nothing of it changed. */
  private drawn: { view: OptimizedView; diff: messages.Diff; a: TextDocument; b: TextDocument } | null = null;

  constructor(context: Context) {
    super(context, "optimized");
    this.tools.prepend(this.switcher);
  }

  protected override draw(): void {
    this.drawSwitcher();
    super.draw();
  }

  protected override drawDocument(document: TextDocument): void {
    const { synced, local } = this.context;
    const { baseline } = synced;
    const isCompared = local.optimizedView !== "text" && baseline !== null && local.active !== baseline;
    const base = isCompared ? synced.document("optimized", baseline) : null;
    if (!isCompared || !base) {
      this.drawn = null;
      return super.drawDocument(document);
    }
    const diff = synced.diff(baseline, local.active!);
    if (!diff) {
      this.clear();
      return fill(this.body, loading("Comparing with the baseline", null));
    }
    this.drawDiff({ view: local.optimizedView, diff, a: base, b: document });
  }

  private drawDiff(wanted: NonNullable<OptimizedPane["drawn"]>): void {
    const now = this.drawn;
    const isSame =
      now && now.view === wanted.view && now.diff === wanted.diff && now.a === wanted.a && now.b === wanted.b;
    if (isSame && this.shown.length) return;
    this.clear();
    this.drawn = wanted;
    const summary = h("div", { class: "insp-summary" }, wanted.diff.summary || "No instruction differs.");
    const host = h("div", { class: "insp-diff" });
    fill(this.body, summary, host);
    this.present(wanted.view === "split" ? this.split(wanted, host) : this.unified(wanted, host));
  }

  private split({ diff, a, b }: NonNullable<OptimizedPane["drawn"]>, parent: HTMLElement): TextPane["shown"] {
    const side = (
      document: TextDocument,
    ): { doc: TextDocument["text"]; extensions: ReturnType<typeof editorExtensions> } => ({
      doc: document.text,
      extensions: editorExtensions(document, this.events(document), this.context.local),
    });
    this.merge = new MergeView({
      a: side(a),
      b: side(b),
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

  private unified({ diff, a, b }: NonNullable<OptimizedPane["drawn"]>, parent: HTMLElement): TextPane["shown"] {
    const extensions = [
      editorExtensions(b, this.events(b), this.context.local),
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

  protected override clear(): void {
    super.clear();
    this.merge?.destroy();
    this.merge = null;
    this.drawn = null;
  }

  private drawSwitcher(): void {
    const { synced, local } = this.context;
    const canCompare = synced.variants.size > 1 && local.active !== null && local.active !== synced.baseline;
    this.switcher.hidden = !canCompare;
    fill(this.switcher, ...segments(VIEWS, local.optimizedView, (view) => local.setOptimizedView(view)));
  }
}

function override(diff: messages.Diff, a: TextDocument, b: TextDocument): () => readonly Change[] {
  return () => changesOf(diff.hunks, a, b).map(([fa, ta, fb, tb]) => new Change(fa, ta, fb, tb));
}

export const optimizedPane = (context: Context): Pane => new OptimizedPane(context);
