// Highlighting of compiler texts by tokens of the visible lines; no grammar, no parse of the whole.

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

// Longer lines (a constant, a backend's configuration) are coloured up to here.
const MAX_LENGTH = 4000;

const mark = (name: string): Decoration => Decoration.mark({ class: `insp-tok-${name}` });
const MARKS: Record<string, Decoration> = Object.fromEntries(
  ["comment", "string", "name", "type", "keyword", "op", "number", "attribute"].map((n) => [n, mark(n)]),
);

const STRING = String.raw`(?<string>"(?:[^"\\]|\\.)*")`;
const NUMBER = String.raw`(?<number>(?<![\w.%])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?\b)`;
const ELEMENT = String.raw`(?:pred|token|bf16|[suc]\d{1,3}|f\d{1,2}(?:e\d\w*)?)`;

const HLO = new RegExp(
  [
    String.raw`(?<comment>/\*.*?\*/|//.*$)`,
    STRING,
    String.raw`(?<type>\b${ELEMENT}\[[^\]]*\](?:\{[^}]*\})?)`,
    String.raw`(?<keyword>\b(?:ENTRY|ROOT|HloModule|FileNames|FunctionNames|FileLocations|StackFrames)\b)`,
    String.raw`(?<attribute>\b[a-z_]+(?==))`,
    String.raw`(?<op>(?<=[ )}\]])[a-z][a-z0-9\-]*(?=\())`,
    String.raw`(?<name>%[\w.\-$]+)`,
    NUMBER,
  ].join("|"),
  "g",
);

const MLIR = new RegExp(
  [
    String.raw`(?<comment>//.*$)`,
    STRING,
    String.raw`(?<type>\b(?:tensor|memref|vector|tuple)<[^>]*>|\b(?:[su]?i\d+|f\d+|bf16)\b)`,
    String.raw`(?<keyword>\b(?:module|func\.func|func\.return|return|public|private|attributes|loc)\b)`,
    String.raw`(?<op>\b(?:stablehlo|chlo|mhlo|sdy|func|mpmd|tpu|triton)\.[\w.]+|\bcall\b)`,
    String.raw`(?<attribute>#[\w.\-]+|\b[\w.]+(?= = [\[\dtf<#"]))`,
    String.raw`(?<name>[%@][\w.\-$#]+)`,
    NUMBER,
  ].join("|"),
  "g",
);

const JAXPR = new RegExp(
  [
    STRING,
    String.raw`(?<type>(?<=:)[A-Za-z_]\w*(?:<\w+>)?\[[^\]]*\](?:\{[^}]*\})?)`,
    String.raw`(?<keyword>\b(?:lambda|let|in)\b)`,
    String.raw`(?<op>(?<= = )[a-z_][\w\-]*)`,
    String.raw`(?<attribute>\b[a-z_]\w*(?==))`,
    NUMBER,
  ].join("|"),
  "g",
);

const LLVM = new RegExp(
  [
    String.raw`(?<comment>;.*$)`,
    STRING,
    String.raw`(?<keyword>\b(?:define|declare|target|source_filename|attributes|internal|private|global|constant|ret|br|label|switch|unreachable|to)\b)`,
    String.raw`(?<type>\b(?:i\d+|half|bfloat|float|double|ptr|void|label|metadata)\b|<\d+ x \w+>)`,
    String.raw`(?<op>(?<=^\s+|= |= tail |= musttail )[a-z][\w.]*)`,
    String.raw`(?<attribute>![\w.]+|#\d+)`,
    String.raw`(?<name>[%@][\w.\-$]+)`,
    NUMBER,
  ].join("|"),
  "g",
);

/** Assembly of any machine: an address, an instruction, registers and numbers. */
const MACHINE = new RegExp(
  [
    String.raw`(?<comment>//.*$|;(?= ).*$|/\*.*?\*/)`,
    STRING,
    String.raw`(?<keyword>^\s*\.?[\w.$<>\-]+:(?!\s*\S)|^\s*\.[a-z]\w*|\$region\d+)`,
    String.raw`(?<attribute>^\s*(?:0x)?[0-9a-f]+\s*:|@!?%?U?P\w*)`,
    String.raw`(?<op>(?<=^\s*(?:(?:0x)?[0-9a-f]+\s*:\s+(?:\{ )?)?|= |\*/\s+|@!?%?U?P\w* )[A-Za-z][\w.:]*)`,
    String.raw`(?<name>%[\w.$]+|\b(?:[re]?[a-ds][ixp]|[xyz]mm\d+|U?R\d+|U?P\d|r\d+[dwb]?|[xwvq]\d+)\b)`,
    NUMBER,
  ].join("|"),
  "g",
);

/** What says where a line comes from, at its end: shown through links instead. */
const DETAILS: Partial<Record<Language, RegExp>> = {
  hlo: /, (?:metadata|frontend_attributes|backend_config)=\{(?:[^{}"]|"(?:[^"\\]|\\.)*"|\{(?:[^{}"]|"(?:[^"\\]|\\.)*"|\{[^{}]*\})*\})*\}/g,
  mlir: / loc\((?:#[\w.]+|unknown|"(?:[^"\\]|\\.)*"(?:\([^()]*\))?)\)/g,
};

/** Colours for a language. */
export function highlighting(language: Language): Extension {
  switch (language) {
    case "python":
      return [LANGUAGE, syntaxHighlighting(PYTHON)];
    case "hlo":
      return tokens(HLO);
    case "mlir":
      return tokens(MLIR);
    case "jaxpr":
      return tokens(JAXPR);
    case "llvm":
      return tokens(LLVM);
    case "ptx":
    case "asm":
    case "sass":
    case "llo":
      return tokens(MACHINE);
    case "text":
      return [];
  }
}

export function hasDetails(language: Language): boolean {
  return DETAILS[language] !== undefined;
}

/** Puts a small mark in the place of locations and metadata, except where text in them is selected. */
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

// Not @codemirror/lang-python: it brings completion, a fifth of the bundle, to a read-only text.
const LANGUAGE = LRLanguage.define({ name: "python", parser: pythonParser });
const PYTHON = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], class: "insp-tok-keyword" },
  { tag: [tags.string, tags.special(tags.string)], class: "insp-tok-string" },
  { tag: [tags.number, tags.bool, tags.null], class: "insp-tok-number" },
  { tag: tags.comment, class: "insp-tok-comment" },
  { tag: [tags.function(tags.variableName), tags.function(tags.propertyName)], class: "insp-tok-op" },
  { tag: [tags.definition(tags.variableName), tags.className, tags.meta], class: "insp-tok-type" },
]);
