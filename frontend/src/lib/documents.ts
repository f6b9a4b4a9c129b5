// A text with what is known of its lines.

import { Text } from "@codemirror/state";
import type { Document, Language, LineTable, OriginTable, Pane } from "../messages.ts";
import { definedNames, definitionKey } from "./names.ts";
import { NONE, type Origins } from "./origins.ts";
import { decodeInt32, decodeJson, decodeText } from "./transport.ts";

type About = Pick<Document, "variant" | "language" | "title"> & { readonly pane: Pane };

/** Lines count from 0 throughout. */
export class TextDocument {
  readonly pane: Pane;
  readonly variant: number | null;
  readonly language: Language;
  readonly title: string;
  readonly lines: readonly string[];
  /** CodeMirror's form; shares the strings of `lines`. */
  readonly text: Text;
  private instructionLines: Map<string, number> | null = null;
  private definitions: Map<string, number[]> | null = null;
  private foldEnds: Int32Array | null = null;

  constructor(
    message: About,
    text: string,
    /** The interned origin of each line, or NONE. */
    readonly lineOrigins: Int32Array,
    readonly table: LineTable,
  ) {
    this.pane = message.pane;
    this.variant = message.variant;
    this.language = message.language;
    this.title = message.title;
    this.lines = text.split("\n");
    this.text = Text.of(this.lines as string[]);
  }

  origin(line: number): number {
    return this.lineOrigins[line] ?? NONE;
  }

  instruction(line: number): string | null {
    return this.table.instructions?.[line] ?? null;
  }

  /** The line that defines an instruction, or -1. */
  lineOfInstruction(name: string): number {
    this.instructionLines ??= indexOf(this.table.instructions ?? []);
    return this.instructionLines.get(name) ?? -1;
  }

  /** The line at which a reader begins: of HLO the entry computation, below all that it calls. */
  get firstLine(): number {
    return this.language === "hlo"
      ? Math.max(
          0,
          this.lines.findIndex((text) => text.startsWith("ENTRY ")),
        )
      : 0;
  }

  /** The number to show beside a line; "" for a heading. */
  label(line: number): string {
    const labels = this.table.labels;
    return labels ? String(labels[line] ?? "") : String(line + 1);
  }

  isHeading(line: number): boolean {
    return this.table.labels !== null && this.table.labels[line] === null && this.lines[line] !== "";
  }

  /** The line that defines `name` for a use in `line`: the nearest above, else the first; or -1. */
  lineOfDefinition(name: string, line: number): number {
    this.definitions ??= this.indexDefinitions();
    const lines = this.definitions.get(definitionKey(name, this.language)) ?? [];
    let found = lines[0] ?? -1;
    for (const candidate of lines) {
      if (candidate <= line) found = candidate;
    }
    return found;
  }

  /** The last line of the block that `line` opens by indentation, or `line` when it opens none. */
  foldEnd(line: number): number {
    this.foldEnds ??= foldEndsOf(this.lines);
    return this.foldEnds[line] ?? line;
  }

  private indexDefinitions(): Map<string, number[]> {
    const found = new Map<string, number[]>();
    this.lines.forEach((text, line) => {
      for (const name of definedNames(text, this.language)) {
        const key = definitionKey(name, this.language);
        const lines = found.get(key);
        if (lines) lines.push(line);
        else found.set(key, [line]);
      }
    });
    return found;
  }
}

/** The text of a `Document`'s four buffers, unpacked; its origins become known to all texts. */
export function readDocument(about: About, parts: readonly ArrayBuffer[], origins: Origins): TextDocument {
  const [text, lineOrigins, table, lines] = parts;
  if (!text || !lineOrigins || !table || !lines) throw new Error("a document has four buffers");
  const ids = origins.add(decodeJson<OriginTable>(table));
  const interned = decodeInt32(lineOrigins).map((origin) => ids[origin] ?? NONE);
  return new TextDocument(about, decodeText(text), interned, decodeJson<LineTable>(lines));
}

/** A text of which nothing is known. */
export function plainText(about: About, text: string): TextDocument {
  const count = text.split("\n").length;
  const table = { labels: null, instructions: new Array<null>(count).fill(null) };
  return new TextDocument(about, text, new Int32Array(count).fill(NONE), table);
}

function indexOf(names: readonly (string | null)[]): Map<string, number> {
  const lines = new Map<string, number>();
  names.forEach((name, line) => {
    if (name !== null && !lines.has(name)) lines.set(name, line);
  });
  return lines;
}

/** Blocks by indentation, in one pass: a block ends before the next line that is not deeper. */
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
