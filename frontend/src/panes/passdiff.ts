// A module before and after a pass, in one text or side by side.

import { Change as Span, MergeView, unifiedMergeView } from "@codemirror/merge";
import { openSearchPanel } from "@codemirror/search";
import { EditorState } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { changesOf, linesBefore } from "../lib/diffing.ts";
import { fill, h } from "../lib/dom.ts";
import { plainText, readDocument, type TextDocument } from "../lib/documents.ts";
import {
  createEditor,
  editorExtensions,
  light,
  revealLine,
  revealRemoved,
  setDetails,
  setWrapping,
} from "../lib/editor.ts";
import type { EditorEvents } from "../lib/editorevents.ts";
import { best, levelsFor, othersIn } from "../lib/linking.ts";
import { definedInstruction } from "../lib/names.ts";
import { decodeText } from "../lib/transport.ts";
import type * as messages from "../messages.ts";
import { anchorAt } from "../state/local.ts";
import type { Message } from "../state/synced.ts";
import type { Context } from "./pane.ts";

export type View = "unified" | "split";

const COLLAPSE = { margin: 3, minSize: 8 };

export class PassDiff {
  readonly element = h("div", { class: "insp-diff" });
  private merge: MergeView | null = null;
  private editors: { view: EditorView; document: TextDocument }[] = [];
  private before: readonly string[] = [];
  private hunks: messages.PassChangeMessage["hunks"] = [];

  /** @param clicked is called with the instruction of a clicked line, or null if it defines none. */
  constructor(
    private readonly context: Context,
    private readonly clicked: (name: string | null) => void,
  ) {}

  show(change: Message<"pass_change">, view: View): void {
    this.clear();
    const { before, after } = this.texts(change);
    const spans = changesOf(change.hunks, before, after).map((s) => new Span(...s));
    const collapse = change.whole ? { collapseUnchanged: COLLAPSE } : {};
    const config = { gutter: true, ...collapse, diffConfig: { override: () => spans } };
    if (!spans.length)
      this.editors = [
        { view: createEditor(after, this.events(after), this.context.local, this.element), document: after },
      ];
    else if (view === "split") this.split(before, after, config);
    else this.unified(before, after, config);
    this.mark();
  }

  find(): void {
    if (this.editors[0]) openSearchPanel(this.editors[0].view);
  }

  /** Scrolls to the definition of an instruction, or to its former place if it was removed. */
  reveal(name: string): void {
    // Both texts of the split view scroll together, so only one of them is scrolled.
    for (const { view, document } of this.editors) {
      const line = document.lineOfInstruction(name);
      if (line >= 0) return revealLine(view, line);
    }
    const [shown] = this.editors;
    const line = this.before.findIndex((text) => definedInstruction(text) === name);
    const hunk = this.hunks.find(([a0, a1]) => a0 <= line && line < a1);
    if (shown && hunk) revealRemoved(shown.view, Math.min(hunk[2], shown.document.text.lines - 1), line - hunk[0]);
  }

  /** Highlights the selected instruction, found by name, and the lines with the same origin. */
  mark(): void {
    const { local } = this.context;
    const link = local.link();
    for (const { view, document } of this.editors) {
      const levels = link && levelsFor(link, document).of;
      const others = link && othersIn(link, document);
      light(view, { chosen: this.chosenLine(document), levels, others, hover: null });
      if (!local.selection || local.selection.pane === "passes") continue;
      const matches = local.matches(document);
      const chosen = this.chosenLine(document);
      const line = chosen >= 0 ? chosen : ((matches && best(matches)[0]) ?? -1);
      if (line >= 0) revealLine(view, line);
    }
  }

  applyOptions(): void {
    const { wrap, details } = this.context.local;
    for (const { view, document } of this.editors) {
      setWrapping(view, wrap);
      setDetails(view, document, details);
    }
  }

  clear(): void {
    this.merge?.destroy();
    if (!this.merge) this.editors.forEach(({ view }) => view.destroy());
    this.merge = null;
    this.editors = [];
    fill(this.element);
  }

  /** Returns the module after a pass, and before it: rebuilt from the text after it and the removed lines. */
  private texts(change: Message<"pass_change">): { before: TextDocument; after: TextDocument } {
    const { synced } = this.context;
    const parts = synced.parts(change);
    const about = { pane: "passes", variant: change.variant, language: "hlo", title: "" } as const;
    const after = readDocument(about, parts, synced.origins);
    const removed = decodeText(parts[5]!);
    const before = linesBefore(after.lines, change.hunks, removed.split("\n"));
    [this.before, this.hunks] = [before, change.hunks];
    return { before: plainText(about, before.join("\n")), after };
  }

  private split(a: TextDocument, b: TextDocument, config: object): void {
    const side = (document: TextDocument) => ({ doc: document.text, extensions: this.extensions(document) });
    this.merge = new MergeView({ a: side(a), b: side(b), parent: this.element, ...config });
    this.editors = [
      { view: this.merge.b, document: b },
      { view: this.merge.a, document: a },
    ];
  }

  private unified(a: TextDocument, b: TextDocument, config: object): void {
    const merge = unifiedMergeView({ original: a.text, mergeControls: false, ...config });
    const state = EditorState.create({ doc: b.text, extensions: [this.extensions(b), merge] });
    this.editors = [{ view: new EditorView({ state, parent: this.element }), document: b }];
  }

  private extensions(document: TextDocument): ReturnType<typeof editorExtensions> {
    return editorExtensions(document, this.events(document), this.context.local);
  }

  private events(document: TextDocument): EditorEvents {
    const { local } = this.context;
    return {
      onLine: (line) => {
        const name = document.instruction(line);
        this.clicked(name);
        if (name !== null && local.hasInstruction("optimized", name))
          local.selectInstruction("passes", "optimized", name);
        else local.select(anchorAt(document, line));
      },
      onHover: () => undefined,
      onMove: () => undefined,
      onClear: () => local.select(null),
    };
  }

  private chosenLine(document: TextDocument): number {
    const { selection } = this.context.local;
    return selection?.instruction ? document.lineOfInstruction(selection.instruction) : -1;
  }
}
