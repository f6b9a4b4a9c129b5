// Explanations for a position in a text: the definition of a name, or the meaning of an operation.

import type { Language } from "../messages.ts";
import type { TextDocument } from "./documents.ts";
import { grouped } from "./format.ts";
import { ofHlo, ofJaxpr, ofStablehlo, type Entry } from "./glossary.ts";
import { nameAt } from "./names.ts";
import { operationsIn, withoutDetails } from "./tokens.ts";

/** An explanation: a heading, code, words, and a link to more; "" for missing parts. */
export interface Explanation {
  readonly title: string;
  readonly code: string;
  readonly words: string;
  readonly url: string;
  /** The explained line, from 0. */
  readonly line: number;
  /** The columns of the explained text. */
  readonly from: number;
  readonly to: number;
}

const MOST_CODE = 320;

/** Explains the name or operation at a column of a line. Returns null if there is nothing to explain. */
export function explain(document: TextDocument, line: number, column: number): Explanation | null {
  const text = document.lines[line] ?? "";
  const operation = operationAt(document, line, column);
  if (operation) return operation;
  const name = nameAt(text, column, document.language);
  if (!name) return null;
  const defined = document.lineOfDefinition(name, line);
  if (defined < 0 || defined === line) return null;
  const from = text.lastIndexOf(name, column);
  const uses = `defined on line ${document.label(defined) || grouped(defined + 1)}`;
  return {
    title: `${name}, ${uses}`,
    code: shortened(document, defined),
    words: "",
    url: "",
    line: defined,
    from,
    to: from + name.length,
  };
}

const ENTRIES: Partial<Record<Language, (name: string) => Entry | null>> = {
  hlo: ofHlo,
  mlir: (name) => (name.startsWith("stablehlo.") ? ofStablehlo(name.slice("stablehlo.".length)) : null),
  jaxpr: ofJaxpr,
};

function operationAt(document: TextDocument, line: number, column: number): Explanation | null {
  const text = document.lines[line] ?? "";
  const lookUp = ENTRIES[document.language];
  for (const { name, from, to } of lookUp ? operationsIn(text, document.language) : []) {
    if (column < from || column > to) continue;
    const entry = lookUp!(name);
    return entry && { title: name, code: "", ...entry, line, from, to };
  }
  return null;
}

/** Returns a line of code without its details, shortened. */
function shortened(document: TextDocument, line: number): string {
  const plain = withoutDetails(document.lines[line]!, document.language).trim();
  return plain.length > MOST_CODE ? `${plain.slice(0, MOST_CODE)} …` : plain;
}
