// Names in HLO, MLIR and jaxpr text: the name at a column, and the names that a line defines. A small scanner without a
// grammar: the line of an instruction is "names = ...", that of a computation "name (" or "name {".

import type { Language } from "../messages.ts";

const WORD = /[\w.\-$]/;

/** Returns the name at `column`, with its sigil (`%`, `@`, `#`) if it has one, or null. */
export function nameAt(line: string, column: number, language: Language): string | null {
  const isPart = (c: string | undefined): boolean => c !== undefined && isNamePart(c, language);
  let start = column;
  let end = column;
  while (start > 0 && isPart(line[start - 1])) start--;
  while (end < line.length && isPart(line[end])) end++;
  const sigil = line[start - 1];
  if (sigil === "%" || sigil === "@" || sigil === "#") start--;
  const name = line.slice(start, end);
  return /[A-Za-z0-9]/.test(name) ? name : null;
}

/** Removes the `%` of a name: HLO is printed with and without it. */
export function bareName(name: string): string {
  return name.startsWith("%") ? name.slice(1) : name;
}

/** Returns the names that a line defines, in the form of `definitionKey`. */
export function definedNames(line: string, language: Language): string[] {
  if (language === "hlo") return hloDefinition(line);
  if (language === "mlir") return mlirDefinitions(line);
  if (language === "jaxpr") return jaxprDefinitions(line);
  return [];
}

/** Returns the name of the instruction that a line of HLO defines, or null. */
export function definedInstruction(line: string): string | null {
  const equals = line.indexOf(" = ");
  if (equals < 0) return null;
  const start = line.lastIndexOf(" ", equals - 1) + 1;
  return bareName(line.slice(start, equals));
}

/** Returns the key for the definition of a name: without the `%` in HLO and the result number in MLIR. */
export function definitionKey(name: string, language: Language): string {
  if (language === "hlo") return bareName(name);
  return language === "mlir" ? name.split("#", 1)[0] || name : name;
}

function isNamePart(c: string, language: Language): boolean {
  return language === "jaxpr" ? /\w/.test(c) : WORD.test(c);
}

function hloDefinition(line: string): string[] {
  const text = line.trimStart();
  const isTopLevel = text.length === line.length;
  const start = text.startsWith("ROOT ") ? 5 : text.startsWith("ENTRY ") ? 6 : 0;
  let end = start + (text[start] === "%" ? 1 : 0);
  const first = end;
  while (end < text.length && WORD.test(text[end]!)) end++;
  const after = text.slice(end, end + 3);
  const defines = after.startsWith(" = ") || (isTopLevel && (after.startsWith(" (") || after.startsWith(" {")));
  return defines && end > first ? [text.slice(first, end)] : [];
}

function mlirDefinitions(line: string): string[] {
  const text = line.trimStart();
  if (text.startsWith("func.func")) {
    const at = text.indexOf("@");
    const name = at < 0 ? null : nameAt(text, at + 1, "mlir");
    return [...(name ? [name] : []), ...argumentNames(text)];
  }
  if (text.startsWith("^")) return argumentNames(text);
  const equals = text.indexOf(" = ");
  if (equals < 0 || !(text.startsWith("%") || text.startsWith("#"))) return [];
  return text
    .slice(0, equals)
    .split(",")
    .map((part) => part.trim().split(":", 1)[0]!);
}

/** `%arg0: tensor<...>`: a name followed by a colon. */
function argumentNames(text: string): string[] {
  return [...text.matchAll(/(%[\w.\-$]+):/g)].map((m) => m[1]!);
}

function jaxprDefinitions(line: string): string[] {
  const equals = line.indexOf(" = ");
  const lambda = line.indexOf("lambda");
  const head = lambda >= 0 ? line.slice(lambda + 6) : equals >= 0 ? line.slice(0, equals) : "";
  return [...head.matchAll(/(\w+):/g)].map((m) => m[1]!);
}
