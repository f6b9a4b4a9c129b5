// What stands at a place of a text, for whoever points at it: a definition, or what an operation does.

import type { TextDocument } from "./documents.ts";
import { grouped } from "./format.ts";
import { ofHlo, ofJaxpr, ofStablehlo, type Entry } from "./glossary.ts";
import { nameAt } from "./names.ts";

/** What is said: a heading, code, words, and where more is said; "" for what there is not. */
export interface Explanation {
  readonly title: string;
  readonly code: string;
  readonly words: string;
  readonly url: string;
  /** Columns of what it is about. */
  readonly from: number;
  readonly to: number;
}

const MOST_CODE = 320;

/** Of the name or operation at a column of a line; null where nothing is to be said. */
export function explain(document: TextDocument, line: number, column: number): Explanation | null {
  const text = document.lines[line] ?? "";
  const operation = operationAt(document, text, column);
  if (operation) return operation;
  const name = nameAt(text, column, document.language);
  if (!name) return null;
  const defined = document.lineOfDefinition(name, line);
  if (defined < 0 || defined === line) return null;
  const from = text.lastIndexOf(name, column);
  const uses = `defined in line ${document.label(defined) || grouped(defined + 1)}`;
  return {
    title: `${name}, ${uses}`,
    code: shortened(document, defined),
    words: "",
    url: "",
    from,
    to: from + name.length,
  };
}

/** Where operations stand: before a bracket in HLO, behind a dialect in MLIR, behind `=` in a jaxpr. */
const PATTERNS: Readonly<Record<string, { readonly find: RegExp; readonly say: (name: string) => Entry | null }>> = {
  hlo: { find: /(?<=[}\])]? )([a-z][a-z\d-]*)(?=\()/g, say: ofHlo },
  mlir: { find: /(?<=\bstablehlo\.)(\w+)/g, say: ofStablehlo },
  jaxpr: { find: /(?<== )(\w+)(?=[[ ])/g, say: ofJaxpr },
};

function operationAt(document: TextDocument, text: string, column: number): Explanation | null {
  const pattern = PATTERNS[document.language];
  if (!pattern) return null;
  for (const found of text.matchAll(pattern.find)) {
    const [from, to] = [found.index, found.index + found[1]!.length];
    if (column < from || column > to) continue;
    const entry = pattern.say(found[1]!);
    return entry && { title: found[1]!, code: "", ...entry, from, to };
  }
  return null;
}

/** A line of code without what stands at its end for other readers: metadata, locations, configuration. */
function shortened(document: TextDocument, line: number): string {
  const whole = document.lines[line]!.trim();
  const plain = whole
    .replace(/, (metadata|backend_config|frontend_attributes|sharding)=.*$/, "")
    .replace(/ loc\(.*\)$/, "");
  return plain.length > MOST_CODE ? `${plain.slice(0, MOST_CODE)} …` : plain;
}
