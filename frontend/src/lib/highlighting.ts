// Syntax highlighting of compiler texts by tokens of the visible lines, without a grammar.

import { HighlightStyle, LRLanguage, syntaxHighlighting } from "@codemirror/language";
import type { Extension } from "@codemirror/state";
import {
  Decoration,
  type DecorationSet,
  type EditorView,
  MatchDecorator,
  ViewPlugin,
  WidgetType,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { parser as pythonParser } from "@lezer/python";
import type { Language } from "../messages.ts";
import { DETAILS, TOKENS } from "./tokens.ts";

// Longer lines (constants, backend configurations) are colored up to this column.
const MAX_LENGTH = 4000;

const mark = (name: string): Decoration => Decoration.mark({ class: `insp-tok-${name}` });
const MARKS: Record<string, Decoration> = Object.fromEntries(
  ["comment", "string", "name", "type", "keyword", "op", "number", "attribute"].map((n) => [n, mark(n)]),
);

/** Returns the highlighting for a language. */
export function highlighting(language: Language): Extension {
  if (language === "python") return [LANGUAGE, syntaxHighlighting(PYTHON)];
  const regexp = TOKENS[language];
  return regexp ? tokens(regexp) : [];
}

export function hasDetails(language: Language): boolean {
  return DETAILS[language] !== undefined;
}

/** Replaces locations and metadata by an ellipsis, unless text in them is selected. */
export function hideDetails(language: Language): Extension {
  const regexp = DETAILS[language];
  if (!regexp) return [];
  const matcher = new MatchDecorator({
    regexp,
    maxLength: MAX_LENGTH,
    decorate: (add, from, to, match, view) => {
      const { main } = view.state.selection;
      if (!main.empty && main.from < to && main.to > from) return;
      add(from, to, Decoration.replace({ widget: new Ellipsis(match[0].trim().replace(/^, /, "")) }));
    },
  });
  return decorated(matcher, true);
}

class Ellipsis extends WidgetType {
  constructor(private readonly hidden: string) {
    super();
  }
  override eq(other: Ellipsis): boolean {
    return other.hidden === this.hidden;
  }
  toDOM(): HTMLElement {
    const span = document.createElement("span");
    span.className = "insp-ellipsis";
    span.title = this.hidden;
    span.textContent = "⋯";
    return span;
  }
}

function tokens(regexp: RegExp): Extension {
  return decorated(
    new MatchDecorator({
      regexp,
      maxLength: MAX_LENGTH,
      decoration: (match) => {
        for (const name in match.groups) if (match.groups[name] !== undefined) return MARKS[name]!;
        return null;
      },
    }),
    false,
  );
}

function decorated(matcher: MatchDecorator, followsSelection: boolean): Extension {
  return ViewPlugin.define(
    (view: EditorView) => ({
      decorations: matcher.createDeco(view) as DecorationSet,
      update(update) {
        const isStale = followsSelection && update.selectionSet;
        this.decorations = isStale ? matcher.createDeco(update.view) : matcher.updateDeco(update, this.decorations);
      },
    }),
    { decorations: (plugin) => plugin.decorations },
  );
}

// Not @codemirror/lang-python: it includes completion, which a read-only text does not need and is a fifth of the
// bundle.
const LANGUAGE = LRLanguage.define({ name: "python", parser: pythonParser });
const PYTHON = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], class: "insp-tok-keyword" },
  { tag: [tags.string, tags.special(tags.string)], class: "insp-tok-string" },
  { tag: [tags.number, tags.bool, tags.null], class: "insp-tok-number" },
  { tag: tags.comment, class: "insp-tok-comment" },
  { tag: [tags.function(tags.variableName), tags.function(tags.propertyName)], class: "insp-tok-op" },
  { tag: [tags.definition(tags.variableName), tags.className, tags.meta], class: "insp-tok-type" },
]);
