// Texts with data about their lines.

import { parameterBlock } from "./parameters.ts";
import { Text } from "@codemirror/state";
import type { Document, Language, LineTable, OriginTable, Pane } from "../messages.ts";
import { Gradual, PIECE } from "./gradual.ts";
import { definedInstruction, definedNames, definitionKey } from "./names.ts";
import { NONE, type Origins } from "./origins.ts";
import { decodeInt32, decodeJson, decodeText } from "./transport.ts";

/** Data about lines. Texts made in the browser have no first line, and may have no instructions. */
export type Lines = Omit<LineTable, "first_line"> & {
  readonly first_line?: number;
  /** Nonzero for each line that defines an instruction. Missing entries count as 0. */
  readonly defining?: Uint8Array;
};
type About = Pick<Document, "variant" | "language" | "title"> & { readonly pane: Pane };

/** A text. Line numbers start at 0 everywhere. */
export class TextDocument {
  readonly pane: Pane;
  readonly variant: number | null;
  readonly language: Language;
  readonly title: string;
  readonly lines: readonly string[];
  /** CodeMirror's representation, which shares the strings of `lines`. */
  readonly text: Text;
  private readonly instructionLines: Gradual<ReadonlyMap<string, number>>;
  private readonly definitions: Gradual<ReadonlyMap<string, readonly number[]>>;
  private foldEnds: Int32Array | null = null;
  private originLines: OriginLines | null = null;
  private beginning: number | null = null;

  constructor(
    message: About,
    text: string,
    /** The interned origin of each line, or NONE. */
    readonly lineOrigins: Int32Array,
    readonly table: Lines,
  ) {
    this.pane = message.pane;
    this.variant = message.variant;
    this.language = message.language;
    this.title = message.title;
    this.lines = text.split("\n");
    this.text = Text.of(this.lines as string[]);
    this.instructionLines = new Gradual(indexInstructions(this));
    this.definitions = new Gradual(indexDefinitions(this.lines, this.language));
  }

  /** Builds the indices that a click needs, piece by piece. */
  *prepare(): Generator<void> {
    yield void (this.originLines ??= indexOrigins(this.lineOrigins));
    yield* this.instructionLines.make();
    yield* this.definitions.make();
  }

  origin(line: number): number {
    return this.lineOrigins[line] ?? NONE;
  }

  /** Returns whether a line defines an instruction. */
  defines(line: number): boolean {
    return Boolean(this.table.defining?.[line]);
  }

  /** Returns the name of the instruction that a line defines, or null. */
  instruction(line: number): string | null {
    return this.defines(line) ? definedInstruction(this.lines[line]!) : null;
  }

  /** Returns the lines of some origins, in order. */
  linesOf(origins: readonly number[]): Int32Array {
    const { starts, lines } = (this.originLines ??= indexOrigins(this.lineOrigins));
    const parts = origins.map((origin) => lines.subarray(starts[origin] ?? 0, starts[origin + 1] ?? 0));
    const found = new Int32Array(parts.reduce((sum, part) => sum + part.length, 0));
    let end = 0;
    for (const part of parts) {
      found.set(part, end);
      end += part.length;
    }
    return parts.length > 1 ? inOrder(found, this.lines.length) : found;
  }

  /** Returns the line that defines an instruction, or -1. */
  lineOfInstruction(name: string): number {
    return this.instructionLines.value.get(name) ?? -1;
  }

  /** The line to show first: the function in Python; the entry computation in HLO, which follows all that it calls. */
  get firstLine(): number {
    const find = (): number => this.lines.findIndex((text) => text.startsWith("ENTRY "));
    return (this.beginning ??= this.language === "hlo" ? Math.max(0, find()) : (this.table.first_line ?? 0));
  }

  /** Returns the line number to show; "" for a heading. */
  label(line: number): string {
    const labels = this.table.labels;
    return labels ? String(labels[line] ?? "") : String(line + 1);
  }

  /** Returns the first line with a shown line number; -1 if there is none. */
  lineLabeled(label: number): number {
    const labels = this.table.labels;
    return labels ? labels.indexOf(label) : label <= this.lines.length ? label - 1 : -1;
  }

  isHeading(line: number): boolean {
    return this.table.labels !== null && this.table.labels[line] === null && this.lines[line] !== "";
  }

  /** Returns the line that defines `name` for a use in `line`: the nearest one above, or else the first one, or -1. */
  lineOfDefinition(name: string, line: number): number {
    const lines = this.definitions.value.get(definitionKey(name, this.language)) ?? [];
    let found = lines[0] ?? -1;
    for (const candidate of lines) {
      if (candidate <= line) found = candidate;
    }
    return found;
  }

  /** Returns the last line of the block that `line` opens by indentation, or `line` if it opens none. */
  foldEnd(line: number): number {
    if (!this.foldEnds) {
      this.foldEnds = foldEndsOf(this.lines);
      const parameters = this.language === "hlo" ? parameterBlock(this.lines) : null;
      if (parameters) this.foldEnds[parameters[0]] = parameters[1];
    }
    return this.foldEnds[line] ?? line;
  }
}

/** Lines sorted by origin. Those of origin `i` are `lines[starts[i]]` up to but excluding `lines[starts[i + 1]]`. */
interface OriginLines {
  readonly starts: Int32Array;
  readonly lines: Int32Array;
}

function indexOrigins(lineOrigins: Int32Array): OriginLines {
  const count = lineOrigins.reduce((most, origin) => Math.max(most, origin), NONE) + 1;
  const starts = new Int32Array(count + 1);
  for (const origin of lineOrigins) if (origin !== NONE) starts[origin + 1]! += 1;
  for (let origin = 0; origin < count; origin++) starts[origin + 1]! += starts[origin]!;
  const lines = new Int32Array(starts[count]!);
  const next = starts.slice();
  lineOrigins.forEach((origin, line) => {
    if (origin !== NONE) lines[next[origin]!++] = line;
  });
  return { starts, lines };
}

/** Sorts lines of a text with `count` lines. Uses a counting sort if there are many. */
function inOrder(found: Int32Array, count: number): Int32Array {
  if (found.length < count / 16) return found.sort();
  const isFound = new Uint8Array(count);
  for (const line of found) isFound[line] = 1;
  let end = 0;
  for (let line = 0; line < count; line++) if (isFound[line]) found[end++] = line;
  return found;
}

/** Reads a text from the five unpacked buffers of a `Document`, and adds its origins to `origins`. */
export function readDocument(about: About, parts: readonly ArrayBuffer[], origins: Origins): TextDocument {
  const [text, lineOrigins, table, lines, defining] = parts;
  if (!text || !lineOrigins || !table || !lines || !defining) throw new Error("a document has five buffers");
  const ids = origins.add(decodeJson<OriginTable>(table));
  const interned = decodeInt32(lineOrigins).map((origin) => ids[origin] ?? NONE);
  const known = { ...decodeJson<LineTable>(lines), defining: new Uint8Array(defining) };
  return new TextDocument(about, decodeText(text), interned, known);
}

/** Returns a text without data about its lines. */
export function plainText(about: About, text: string): TextDocument {
  const count = text.split("\n").length;
  return new TextDocument(about, text, new Int32Array(count).fill(NONE), { labels: null });
}

function* indexInstructions(document: TextDocument): Generator<void, Map<string, number>> {
  const lines = new Map<string, number>();
  for (let line = 0; line < document.lines.length; line++) {
    const name = document.instruction(line);
    if (name !== null && !lines.has(name)) lines.set(name, line);
    if (line % PIECE === 0) yield;
  }
  return lines;
}

function* indexDefinitions(texts: readonly string[], language: Language): Generator<void, Map<string, number[]>> {
  const found = new Map<string, number[]>();
  for (const [line, text] of texts.entries()) {
    for (const name of definedNames(text, language)) {
      const key = definitionKey(name, language);
      const lines = found.get(key);
      if (lines) lines.push(line);
      else found.set(key, [line]);
    }
    if (line % PIECE === 0) yield;
  }
  return found;
}

/** Returns the ends of blocks by indentation, in one pass. A block ends before the next line that is not deeper. */
export function foldEndsOf(lines: readonly string[]): Int32Array {
  const ends = Int32Array.from(lines, (_, i) => i);
  const open: { line: number; indent: number }[] = [];
  let lastFilled = -1;
  lines.forEach((text, line) => {
    const indent = text.search(/\S/);
    if (indent < 0) return;
    while (open.length && open[open.length - 1]!.indent >= indent) ends[open.pop()!.line] = lastFilled;
    open.push({ line, indent });
    lastFilled = line;
  });
  for (const { line } of open) ends[line] = lastFilled;
  return ends;
}
