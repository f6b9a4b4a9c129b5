// A read-only editor for a TextDocument, with linked lines, folding, search, and jumps to definitions.

import { codeFolding, foldEffect, foldGutter, foldKeymap, foldService } from "@codemirror/language";
import {
  getSearchQuery,
  highlightSelectionMatches,
  search,
  searchKeymap,
  searchPanelOpen,
  type SearchQuery,
  setSearchQuery,
} from "@codemirror/search";
import { Compartment, EditorState, type Extension, Prec, StateEffect, StateField } from "@codemirror/state";
import {
  type BlockInfo,
  BlockType,
  Decoration,
  type DecorationSet,
  EditorView,
  keymap,
  lineNumbers,
  ViewPlugin,
  type ViewUpdate,
} from "@codemirror/view";
import { costGutter } from "./costgutter.ts";
import type { TextDocument } from "./documents.ts";
import type { EditorEvents } from "./editorevents.ts";
import { h } from "./dom.ts";
import { expandAt } from "./expand.ts";
import { frameBlocks } from "./frames.ts";
import { wrapped } from "./hanging.ts";
import { hideDetails, highlighting } from "./highlighting.ts";
import { hovering } from "./hover.ts";
import { WEAK } from "./linking.ts";
import { nameAt } from "./names.ts";
import { pointing } from "./pointing.ts";

/** Highlights: levels by interned origin, lines that are weak in any case, and the selected line or -1. */
interface Lights {
  readonly chosen: number;
  readonly levels: Uint8Array | null;
  readonly others: ReadonlySet<number> | null;
  readonly hover: Uint8Array | null;
}

interface EditorOptions {
  readonly wrap: boolean;
  readonly details: boolean;
}

/** Editors that have measured line heights. They keep their position when a line is higher than estimated. */
const measured = new WeakSet<EditorView>();
/** The latest line that each editor was asked to scroll to. */
const latest = new WeakMap<EditorView, symbol>();
/** Smallest visible width in pixels of a line that is not scrolled to sideways, or its whole width if it is shorter. */
const LEAST_SEEN_PX = 160;
const DARK: Lights = { chosen: -1, levels: null, others: null, hover: null };
const setLights = StateEffect.define<Lights>();
const lights = StateField.define<Lights>({
  create: () => DARK,
  update: (value, transaction) => transaction.effects.reduce((v, e) => (e.is(setLights) ? e.value : v), value),
});
const wrapping = new Compartment();
const detailing = new Compartment();

/** Returns the extensions of an editor for `document`, or for one side of a diff. */
export function editorExtensions(document: TextDocument, events: EditorEvents, options: EditorOptions): Extension {
  return [
    EditorState.readOnly.of(true),
    EditorView.editable.of(false),
    EditorView.contentAttributes.of({
      tabindex: "0",
      "aria-label": `${document.pane} text, read-only`,
      "aria-multiline": "true",
    }),
    lineNumbers({
      formatNumber: (n) => document.label(n - 1),
      domEventHandlers: {
        click: (view, block) => (events.onLine(view.state.doc.lineAt(block.from).number - 1), true),
      },
    }),
    codeFolding({ preparePlaceholder: foldedText, placeholderDOM }),
    folding(document),
    foldGutter({ openText: "▾", closedText: "▸" }),
    costGutter(),
    highlighting(document.language),
    headings(document),
    lights,
    litLines(document),
    search({ top: true }),
    highlightSelectionMatches({ minSelectionLength: 2 }),
    EditorView.updateListener.of(({ transactions }) => {
      for (const effect of transactions.flatMap((t) => t.effects))
        if (effect.is(setSearchQuery)) events.onSearch?.(effect.value);
    }),
    wrapping.of(options.wrap ? wrapped : []),
    detailing.of(options.details ? [] : hideDetails(document.language)),
    keys(events),
    pointing(events, (view, position) => jump(view, document, events, position)),
    hovering(document, (line) => events.describe?.(line) ?? []),
    // When it gets the focus at the top, CodeMirror scrolls back to the position of the last scroll event. The event
    // for scrolling to the top may not have arrived yet, and another line would be under the pointer on release.
    EditorView.domEventObservers({ mousedown: (_event, view) => view.scrollDOM.dispatchEvent(new Event("scroll")) }),
    // Scrolls inside the editor only. CodeMirror would scroll the notebook as well.
    EditorView.scrollHandler.of((view, range) => {
      if (!isOwnScroller(view)) return false;
      requestAnimationFrame(() => revealBlock(view, view.state.doc.lineAt(range.head).number - 1, "middle", textOf));
      return true;
    }),
  ];
}

export function createEditor(
  document: TextDocument,
  events: EditorEvents,
  options: EditorOptions,
  parent: HTMLElement,
): EditorView {
  const state = EditorState.create({ doc: document.text, extensions: editorExtensions(document, events, options) });
  const view = new EditorView({ state, parent });
  const frames = frameBlocks(document);
  view.dispatch({ effects: frames.map(([first, last]) => foldEffect.of(rangeOf(document, first, last))) });
  return view;
}

/** Sets the query of another editor if its search panel is open. */
export function searchToo(view: EditorView, query: SearchQuery): void {
  const isOther = searchPanelOpen(view.state) && !getSearchQuery(view.state).eq(query);
  if (isOther) view.dispatch({ effects: setSearchQuery.of(query) });
}

export function light(view: EditorView, value: Lights): void {
  view.dispatch({ effects: setLights.of(value) });
}

export function setWrapping(view: EditorView, wrap: boolean): void {
  view.dispatch({ effects: wrapping.reconfigure(wrap ? wrapped : []) });
}

export function setDetails(view: EditorView, document: TextDocument, details: boolean): void {
  view.dispatch({ effects: detailing.reconfigure(details ? [] : hideDetails(document.language)) });
}

/** Returns the first and last visible line, from 0. */
export function visibleLines(view: EditorView): { first: number; last: number } {
  const scroller = scrollerOf(view);
  const box = scroller.getBoundingClientRect();
  const top = box.top - view.documentTop;
  const lineAt = (height: number): number => view.state.doc.lineAt(view.lineBlockAtHeight(height).from).number - 1;
  return { first: lineAt(top + view.defaultLineHeight / 2), last: lineAt(top + box.height - view.defaultLineHeight) };
}

/** Scrolls a line to the middle or top of the editor, without moving anything around the editor. */
export function revealLine(view: EditorView, line: number, place: "middle" | "top" = "middle"): void {
  revealBlock(view, line, place, textOf);
  revealText(view, line);
}

/** Stays at the current position, whatever line was requested before. Scrolls sideways to the start of a visible line. */
export function stayAt(view: EditorView, line: number): void {
  latest.set(view, Symbol());
  revealText(view, line);
}

/** Scrolls to a removed line: number `index` of those that are drawn above `line`. */
export function revealRemoved(view: EditorView, line: number, index: number): void {
  revealBlock(view, line, "middle", ({ top }) => {
    const height = view.defaultLineHeight;
    return { top: top + index * height, height };
  });
}

/** Returns the part of a block that is its line, without the removed lines or frames that are drawn with it. */
function textOf(block: BlockInfo): Pick<BlockInfo, "top" | "height"> {
  const parts = Array.isArray(block.type) ? (block.type as readonly BlockInfo[]) : [block];
  return parts.find(({ type }) => type === BlockType.Text) ?? block;
}

/** Scrolls sideways to the start of a line's text, unless enough of it is visible. */
function revealText(view: EditorView, line: number): void {
  const { scrollDOM, defaultCharacterWidth: width } = view;
  const text = view.state.doc.line(line + 1).text;
  const from = Math.max(0, text.search(/\S/)) * width;
  const to = text.length * width;
  const left = scrollDOM.scrollLeft;
  const gutters = view.contentDOM.offsetLeft; // sticky, above the text
  const right = left + scrollDOM.clientWidth - gutters;
  const seen = Math.min(to, right) - Math.max(from, left);
  if (seen < Math.min(to - from, LEAST_SEEN_PX)) scrollDOM.scrollLeft = Math.max(0, from - 2 * width);
}

/** Scrolls to a part of the block that has a line. */
function revealBlock(
  view: EditorView,
  line: number,
  place: "middle" | "top",
  partOf: (block: BlockInfo) => Pick<BlockInfo, "top" | "height">,
): void {
  const { doc } = view.state;
  const position = doc.line(Math.max(1, Math.min(doc.lines, line + 1))).from;
  expandAt(view, position);
  const scroller = scrollerOf(view);
  const isThere = (top: number): boolean => Math.abs(top - scroller.scrollTop) < 1;
  const find = (): number => {
    const block = partOf(view.lineBlockAt(position));
    const offset = view.documentTop - scroller.getBoundingClientRect().top + scroller.scrollTop;
    const above = place === "top" ? 0 : (scroller.clientHeight - block.height) / 2;
    return offset + block.top - above;
  };
  const scroll = (top: number): void => {
    if (!isThere(top)) scroller.scrollTop = top;
  };
  const request = Symbol();
  latest.set(view, request);
  const isLatest = (): boolean => latest.get(view) === request; // another line may be requested meanwhile
  // An editor that is scrolled before its first measurement jumps to another position afterward.
  if (measured.has(view)) scroll(find());
  const write = (top: number): void => {
    measured.add(view);
    if (!isLatest()) return;
    scroll(top);
    // It may miss scrolling while measuring.
    requestAnimationFrame(() => {
      if (isLatest()) scroll(find());
      view.requestMeasure();
    });
  };
  // Heights are estimates until lines are drawn. Then the editor corrects its position itself.
  view.requestMeasure({ read: find, write });
}

function scrollerOf(view: EditorView): HTMLElement {
  return view.dom.closest<HTMLElement>(".cm-mergeView") ?? view.scrollDOM;
}

function isOwnScroller(view: EditorView): boolean {
  return scrollerOf(view).clientHeight > 0;
}

function folding(document: TextDocument): Extension {
  return foldService.of((state, from, to) => {
    const line = state.doc.lineAt(from).number - 1;
    const end = document.foldEnd(line);
    return end > line ? { from: to, to: state.doc.line(end + 1).to } : null;
  });
}

/** Returns the text that stands for folded lines. */
function foldedText(state: EditorState, { from, to }: { from: number; to: number }): string {
  const [first, last] = [state.doc.lineAt(from), state.doc.lineAt(to)];
  const count = last.number - first.number;
  return count > 1 && / parameter\(\d+\)/.test(first.text) ? `… ${count} more parameters` : "…";
}

function placeholderDOM(_view: EditorView, onclick: (event: Event) => void, text: string): HTMLElement {
  return h("span", { class: "cm-foldPlaceholder", title: "Show the folded lines", onclick }, text);
}

/** Returns the range that a fold of the lines `first` to `last` hides: everything after the first line. */
function rangeOf(document: TextDocument, first: number, last: number): { from: number; to: number } {
  return { from: document.text.line(first + 1).to, to: document.text.line(last + 1).to };
}

const HEADING = Decoration.line({ class: "insp-heading" });

function headings(document: TextDocument): Extension {
  if (!document.table.labels) return [];
  return lineDecorations(
    (_state, line) => (document.isHeading(line) ? HEADING : null),
    () => false,
  );
}

const LIT: Record<string, Decoration> = {};

/** Returns the decoration of a line with a level, selection and hover state. */
function litClass(level: number, chosen: boolean, hover: number): Decoration | null {
  if (!level && !chosen && !hover) return null;
  const key = `${level}${chosen}${hover}`;
  const names = [
    chosen ? "insp-chosen" : ["", "insp-weak", "insp-strong"][level],
    ["", "insp-hover-weak", "insp-hover"][hover],
  ];
  return (LIT[key] ??= Decoration.line({ class: names.filter(Boolean).join(" ") }));
}

function litLines(document: TextDocument): Extension {
  return lineDecorations(
    (state, line) => {
      const { chosen, levels, others, hover } = state.field(lights);
      const origin = document.origin(line);
      const level = levels?.[origin] ?? 0;
      return litClass(others?.has(line) ? Math.min(level, WEAK) : level, line === chosen, hover?.[origin] ?? 0);
    },
    (update) => update.startState.field(lights) !== update.state.field(lights),
  );
}

/** Decorates the visible lines. Rebuilds the decorations when the visible lines change or `isStale` returns true. */
function lineDecorations(
  decorationAt: (state: EditorState, line: number) => Decoration | null,
  isStale: (update: ViewUpdate) => boolean,
): Extension {
  const build = (view: EditorView): DecorationSet => {
    const ranges = [];
    for (const { from, to } of view.visibleRanges) {
      for (let position = from; position <= to;) {
        const line = view.state.doc.lineAt(position);
        const decoration = decorationAt(view.state, line.number - 1);
        if (decoration) ranges.push(decoration.range(line.from));
        position = line.to + 1;
      }
    }
    return Decoration.set(ranges, true);
  };
  return ViewPlugin.define(
    (view) => ({
      decorations: build(view),
      update(update: ViewUpdate) {
        if (update.viewportChanged || update.docChanged || isStale(update)) this.decorations = build(update.view);
      },
    }),
    { decorations: (plugin) => plugin.decorations },
  );
}

function keys(events: EditorEvents): Extension {
  const move = (delta: number) => () => (events.onMove(delta), true);
  return [
    keymap.of([...searchKeymap, ...foldKeymap]),
    Prec.low(
      keymap.of([
        { key: "ArrowDown", run: move(1) },
        { key: "ArrowUp", run: move(-1) },
        { key: "Escape", run: () => (events.onClear(), true) },
      ]),
    ),
  ];
}

/** Goes to the definition of the name at a position. Returns false if there is none in another line. */
function jump(view: EditorView, document: TextDocument, events: EditorEvents, position: number): boolean {
  const line = view.state.doc.lineAt(position);
  const name = nameAt(line.text, position - line.from, document.language);
  if (!name) return false;
  const target = document.lineOfDefinition(name, line.number - 1);
  if (target < 0 || target === line.number - 1) return false;
  events.onLine(target);
  const { first, last } = visibleLines(view);
  if (target < first || target > last) revealLine(view, target);
  return true;
}
