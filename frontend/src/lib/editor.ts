// A read-only editor over a TextDocument: linked lines, folding, search, jumps to definitions.

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
import { expandAt } from "./expand.ts";
import { frameBlocks } from "./frames.ts";
import { wrapped } from "./hanging.ts";
import { hideDetails, highlighting } from "./highlighting.ts";
import { hovering } from "./hover.ts";
import { nameAt } from "./names.ts";
import { pointing } from "./pointing.ts";

/** What an editor tells its owner. Lines count from 0. */
export interface EditorEvents {
  onLine(line: number): void;
  onHover(line: number | null): void;
  onMove(delta: number): void;
  onClear(): void;
  /** What is known of a line besides its text. */
  describe?(line: number): string[];
  /** What is searched for has changed. */
  onSearch?(query: SearchQuery): void;
}

/** What is lit: levels by interned origin, and the chosen line or -1. */
export interface Lights {
  readonly chosen: number;
  readonly levels: Uint8Array | null;
  readonly hover: Uint8Array | null;
}

export interface EditorOptions {
  readonly wrap: boolean;
  readonly details: boolean;
}

/** A line of which less is seen, or of a shorter one not all, is scrolled to sideways. */
/** Editors that know how high lines are, and keep their place when a line drawn is higher than it was taken to be. */
const measured = new WeakSet<EditorView>();
const LEAST_SEEN_PX = 160;
const DARK: Lights = { chosen: -1, levels: null, hover: null };
const setLights = StateEffect.define<Lights>();
const lights = StateField.define<Lights>({
  create: () => DARK,
  update: (value, transaction) => transaction.effects.reduce((v, e) => (e.is(setLights) ? e.value : v), value),
});
const wrapping = new Compartment();
const detailing = new Compartment();

/** All that makes an editor show `document`; also for the two sides of a diff. */
export function editorExtensions(document: TextDocument, events: EditorEvents, options: EditorOptions): Extension {
  return [
    EditorState.readOnly.of(true),
    EditorView.editable.of(false),
    EditorView.contentAttributes.of({
      tabindex: "0",
      "aria-label": `${document.pane} text, read only`,
      "aria-multiline": "true",
    }),
    lineNumbers({
      formatNumber: (n) => document.label(n - 1),
      domEventHandlers: {
        click: (view, block) => (events.onLine(view.state.doc.lineAt(block.from).number - 1), true),
      },
    }),
    codeFolding({ placeholderText: "…" }),
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
    // CodeMirror, focused at the top, goes back to where it last heard of a scroll. The event of the scroll to the top
    // may be yet to come, and the line under the pointer would be another when the button is let go.
    EditorView.domEventObservers({ mousedown: (_event, view) => view.scrollDOM.dispatchEvent(new Event("scroll")) }),
    // Reveals a line inside the editor alone; CodeMirror would scroll the notebook as well.
    EditorView.scrollHandler.of((view, range) => {
      if (!isOwnScroller(view)) return false;
      requestAnimationFrame(() => revealPosition(view, range.head));
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

/** Searches for the same in another editor, where its search is open. */
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

/** The lines at the top and bottom of what is on screen, from 0. */
export function visibleLines(view: EditorView): { first: number; last: number } {
  const scroller = scrollerOf(view);
  const box = scroller.getBoundingClientRect();
  const top = box.top - view.documentTop;
  const lineAt = (height: number): number => view.state.doc.lineAt(view.lineBlockAtHeight(height).from).number - 1;
  return { first: lineAt(top + view.defaultLineHeight / 2), last: lineAt(top + box.height - view.defaultLineHeight) };
}

/** Scrolls a line to the middle of the editor, or to its top, without moving anything around the editor. */
export function revealLine(view: EditorView, line: number, place: "middle" | "top" = "middle"): void {
  const { doc } = view.state;
  revealPosition(view, doc.line(Math.max(1, Math.min(doc.lines, line + 1))).from, place);
  revealText(view, line);
}

/** Scrolls sideways where a line's text begins, unless enough of it is seen. */
export function revealText(view: EditorView, line: number): void {
  const { scrollDOM, defaultCharacterWidth: width } = view;
  const text = view.state.doc.line(line + 1).text;
  const from = Math.max(0, text.search(/\S/)) * width;
  const to = text.length * width;
  const left = scrollDOM.scrollLeft;
  const gutters = view.contentDOM.offsetLeft; // they stay at the left edge, over the text
  const right = left + scrollDOM.clientWidth - gutters;
  const seen = Math.min(to, right) - Math.max(from, left);
  if (seen < Math.min(to - from, LEAST_SEEN_PX)) scrollDOM.scrollLeft = Math.max(0, from - 2 * width);
}

function revealPosition(view: EditorView, position: number, place: "middle" | "top" = "middle"): void {
  expandAt(view, position);
  const scroller = scrollerOf(view);
  const isThere = (top: number): boolean => Math.abs(top - scroller.scrollTop) < 1;
  const find = (): number => {
    const block = view.lineBlockAt(position);
    const offset = view.documentTop - scroller.getBoundingClientRect().top + scroller.scrollTop;
    const above = place === "top" ? 0 : (scroller.clientHeight - block.height) / 2;
    return offset + block.top - above;
  };
  const scroll = (top: number): void => {
    if (!isThere(top)) scroller.scrollTop = top;
  };
  // A new editor that is scrolled before it has measured a line goes elsewhere once it has.
  if (measured.has(view)) scroll(find());
  const write = (top: number): void => {
    measured.add(view);
    scroll(top);
    requestAnimationFrame(() => (scroll(find()), view.requestMeasure())); // what is scrolled while it measures, it may miss
  };
  // Heights of lines never drawn are estimates; once drawn they are known, and the editor keeps its own place then.
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

/** What a fold of the lines `first` to `last` hides: all but the first line's text. */
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

/** One class for what a line is, by bits: level, chosen, hovered. */
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
      const { chosen, levels, hover } = state.field(lights);
      const origin = document.origin(line);
      return litClass(levels?.[origin] ?? 0, line === chosen, hover?.[origin] ?? 0);
    },
    (update) => update.startState.field(lights) !== update.state.field(lights),
  );
}

/** Decorations of the lines on screen, made anew when the screen or their reason changes. */
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

/** Goes to the definition of the name at a position; false when there is none elsewhere. */
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
