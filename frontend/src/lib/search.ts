// Search for lines by words, and for instructions by properties: opcode, scope, file, bytes, FLOPs, time.

import { computationsOf } from "./computations.ts";
import { PIECE } from "./gradual.ts";
import { bareName } from "./names.ts";
import type { TextDocument } from "./documents.ts";
import type { Measure } from "./linecosts.ts";
import type { Origins } from "./origins.ts";
import { opcodeOf } from "./tokens.ts";

/** A query. All of its conditions must hold. */
export interface Query {
  /** Words that the line must contain. A word with capital letters is case-sensitive. */
  readonly words: readonly string[];
  readonly opcode: string;
  readonly scope: string;
  readonly file: string;
  /** The name of an instruction whose users are searched. */
  readonly users: string;
  readonly least: readonly { readonly measure: Measure; readonly amount: number }[];
}

const MEASURES: Readonly<Record<string, Measure>> = {
  flops: "flops",
  bytes: "main_memory_bytes",
  time: "least_s",
  measured: "measured_s",
  peak: "peak_bytes",
};
const SCALES: Readonly<Record<string, number>> = {
  "": 1,
  k: 1e3,
  m: 1e6,
  g: 1e9,
  t: 1e12,
  kib: 2 ** 10,
  mib: 2 ** 20,
  gib: 2 ** 30,
  b: 1,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  s: 1,
  ms: 1e-3,
  us: 1e-6,
  µs: 1e-6,
  ns: 1e-9,
};

/** Parses queries such as `exp op:fusion scope:attention file:model.py bytes>1MiB flops>1G time>1us`. */
export function parseQuery(text: string): Query {
  const words: string[] = [];
  const named = { op: "", scope: "", file: "", users: "" };
  const least: { measure: Measure; amount: number }[] = [];
  for (const part of text.split(/\s+/).filter(Boolean)) {
    const name = /^(op|scope|file|users):(.+)$/.exec(part);
    const limit = /^(flops|bytes|time|measured|peak)>=?([\d.]+)([a-zµ]*)$/i.exec(part);
    const scale = limit && SCALES[limit[3]!.toLowerCase()];
    if (name) named[name[1] as keyof typeof named] = name[2]!;
    else if (limit && scale !== undefined && scale !== null)
      least.push({ measure: MEASURES[limit[1]!.toLowerCase()]!, amount: Number(limit[2]) * scale });
    else words.push(part);
  }
  return { words, opcode: named.op, scope: named.scope, file: named.file, users: bareName(named.users), least };
}

/** Returns whether a query has conditions on instructions, and not only words. */
export function isFiltered({ opcode, scope, file, users, least }: Query): boolean {
  return Boolean(opcode || scope || file || users || least.length);
}

type AmountOf = (measure: Measure, line: number) => number;

/** Finds the lines that match a query, piece by piece. */
export function* search(
  document: TextDocument,
  query: Query,
  origins: Origins,
  amountOf: AmountOf,
): Generator<void, number[]> {
  const contains = query.words.map(finder);
  const isOrigin = originTest(query, origins);
  const [first, last] = rangeOf(document, query);
  const isUser = query.users ? userTest(query.users) : null;
  const found: number[] = [];
  for (let line = first; line <= last; line++) {
    if (line % PIECE === 0) yield;
    const text = document.lines[line]!;
    if (isUser && !isUser(text)) continue;
    if (!contains.every((find) => find(text))) continue;
    if (query.opcode && opcodeOf(text, document.language) !== query.opcode) continue;
    if (isOrigin && !isOrigin(document.origin(line))) continue;
    if (!query.least.every(({ measure, amount }) => amountOf(measure, line) >= amount)) continue;
    found.push(line);
  }
  return found;
}

/** Returns the first and last line to search. Users are in the computation of the instruction that they use. */
function rangeOf(document: TextDocument, { users }: Query): [number, number] {
  if (!users) return [0, document.lines.length - 1];
  const here = computationsOf(document).at(document.lineOfInstruction(users));
  return here ? [here.first, here.last] : [0, -1];
}

/** Returns a test for lines of HLO that have an instruction among their operands. */
export function userTest(name: string): (text: string) => boolean {
  const pattern = new RegExp(`[(, ]%?${escaped(name)}(?=[,) ])`);
  return (text) => {
    const operands = text.indexOf("(", text.indexOf(" = ") + 3);
    return operands >= 0 && !text.startsWith("ENTRY") && pattern.test(text.slice(text.indexOf(" = ") + 3));
  };
}

function escaped(word: string): string {
  return word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

/** Returns a test for a word, which ignores case if the word is in lower case. */
function finder(word: string): (text: string) => boolean {
  if (word !== word.toLowerCase()) return (text) => text.includes(word);
  const pattern = new RegExp(escaped(word), "i");
  return (text) => pattern.test(text);
}

/** Returns a test of origins by scope and file, cached by origin; null if the query has neither. */
function originTest({ scope, file }: Query, origins: Origins): ((origin: number) => boolean) | null {
  if (!scope && !file) return null;
  const known = new Map<number, boolean>();
  const hasScope = finder(scope);
  const test = (origin: number): boolean => {
    if (scope && !hasScope(origins.operation(origin).replace(/\/[^/]*$/, ""))) return false;
    const files = origins.frames(origin).map((frame) => origins.files[origins.placeAt(frame)?.file ?? -1] ?? "");
    return !file || files.some((each) => each.endsWith(file) || each.includes(`${file}:`));
  };
  return (origin) => {
    let is = known.get(origin);
    if (is === undefined) known.set(origin, (is = origin >= 0 && test(origin)));
    return is;
  };
}
