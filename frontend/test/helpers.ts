// Documents for tests without a browser.

import { type Lines, TextDocument } from "../src/lib/documents.ts";
import { Origins } from "../src/lib/origins.ts";
import type { Language, OriginTable, TextPane } from "../src/messages.ts";

export function document(
  origins: Origins,
  pane: TextPane,
  text: string,
  lineOrigins: number[] = [],
  table: OriginTable = { files: [], libraries: [], origins: [], phases: [] },
  lines: Lines = { labels: null },
  language: Language = "hlo",
): TextDocument {
  const ids = origins.add(table);
  const count = text.split("\n").length;
  const interned = Int32Array.from({ length: count }, (_, i) => ids[lineOrigins[i] ?? -1] ?? -1);
  const message = { type: "document", pane, variant: null, language, title: "", line_count: count } as const;
  return new TextDocument(message, text, interned, lines);
}

/** Returns line data for HLO text. Indented lines of the form `name = ...` define an instruction. */
export function definingOf(text: string): Lines {
  const isDefining = (line: string): boolean => /^\s+(ROOT )?%?[\w.-]+ = /.test(line);
  return { labels: null, defining: Uint8Array.from(text.split("\n"), (line) => Number(isDefining(line))) };
}

/** Returns a table whose lines have one origin each. */
export function single(
  table: { files: string[]; origins: [string, [number, number][]][] },
  phases: string[] = [],
): OriginTable {
  return { files: table.files, libraries: [], origins: table.origins.map((origin) => [origin]), phases };
}
