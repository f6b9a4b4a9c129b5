// Lines that are folded at first: files and stack frames at the top of HLO, the parameters of its entry computation, and
// locations before and after MLIR.

import type { TextDocument } from "./documents.ts";
import { parameterBlock } from "./parameters.ts";

const TABLES = ["FileNames", "FunctionNames", "FileLocations", "StackFrames"];

/** Returns the first and last line, from 0, of each block with more than one line. */
export function frameBlocks({ lines, language }: Pick<TextDocument, "lines" | "language">): [number, number][] {
  const blocks =
    language === "hlo"
      ? [hloTables(lines), parameterBlock(lines)]
      : language === "mlir"
        ? [head(lines), tail(lines)]
        : [];
  return blocks.filter((block) => block !== null && block[1] > block[0]) as [number, number][];
}

function hloTables(lines: readonly string[]): [number, number] | null {
  const first = lines.slice(0, 5).indexOf(TABLES[0]!);
  if (first < 0) return null;
  const isRow = (line: string): boolean => line === "" || TABLES.includes(line) || (line[0]! >= "0" && line[0]! <= "9");
  let end = first;
  while (end < lines.length && isRow(lines[end]!)) end++;
  while (lines[end - 1] === "") end--;
  return [first, end - 1];
}

function head(lines: readonly string[]): [number, number] {
  let end = 0;
  while (isLocation(lines[end])) end++;
  return [0, end - 1];
}

function tail(lines: readonly string[]): [number, number] {
  let last = lines.length - 1;
  while (last > 0 && lines[last] === "") last--;
  let first = last;
  while (first > 0 && isLocation(lines[first - 1])) first--;
  return [first, isLocation(lines[last]) ? last : first];
}

function isLocation(line: string | undefined): boolean {
  return line !== undefined && line.startsWith("#loc");
}
