// Which lines belong together. Origins and documents have indices, so that a link is looked up: what it costs
// grows with what it lights, not with the program.

import { NONE, type Origins } from "./origins.ts";
import type { TextDocument } from "./documents.ts";

export const WEAK = 1;
export const STRONG = 2;

/** How much each origin has to do with the one that was chosen. */
export class Levels {
  /** 0, WEAK or STRONG, by origin: painting a screen of lines is one look-up each. */
  readonly of: Uint8Array;
  private readonly lit: number[] = [];

  constructor(count: number) {
    this.of = new Uint8Array(count);
  }

  raise(origins: readonly number[], level: number): void {
    for (const origin of origins) {
      const before = this.of[origin]!;
      if (!before) this.lit.push(origin);
      if (before < level) this.of[origin] = level;
    }
  }

  /** The origins of a level. */
  at(level: number): number[] {
    return this.lit.filter((origin) => this.of[origin] === level);
  }
}

export interface Link {
  /** For the lines of texts that a compiler made. */
  readonly text: Levels;
  /** For the lines of the source pane. */
  readonly source: Levels;
}

/** Where the chosen origin was found decides what it means: a source line stands for all it made. */
export function linkOf(origins: Origins, origin: number, isSource: boolean): Link {
  const link = { text: new Levels(origins.size), source: new Levels(origins.size) };
  if (origin === NONE) return link;
  for (const place of origins.innermosts(origin)) {
    const sameLine = origins.atInnermost(place);
    link.text.raise(sameLine, isSource ? STRONG : WEAK);
    link.source.raise(sameLine, STRONG);
    if (isSource) link.text.raise(origins.atFrame(place), WEAK);
  }
  if (isSource) return link;
  for (const site of origins.sites(origin)) link.text.raise(origins.atSite(site), STRONG);
  for (const place of origins.frames(origin)) link.source.raise(origins.atInnermost(place), WEAK);
  return link;
}

/** The levels of a link that apply to a document. */
export function levelsFor(link: Link, document: TextDocument): Levels {
  return document.pane === "source" ? link.source : link.text;
}

/** Lines of a document, from 0, in order. */
export interface Matches {
  readonly strong: Int32Array;
  readonly weak: Int32Array;
}

export function matchesIn(document: TextDocument, link: Link): Matches {
  const levels = levelsFor(link, document);
  const lines = (level: number): Int32Array => document.linesOf(levels.at(level));
  return { strong: lines(STRONG), weak: lines(WEAK) };
}

/** The lines to step through: the strong ones, or the weak ones where there are no strong ones. */
export function best(matches: Matches): Int32Array {
  return matches.strong.length ? matches.strong : matches.weak;
}

/** Index of the entry of a sorted array that is nearest to `value`; -1 in an empty one. */
export function nearestIndex(sorted: Int32Array, value: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! < value) low = middle + 1;
    else high = middle;
  }
  if (low === sorted.length) return low - 1;
  return low > 0 && value - sorted[low - 1]! <= sorted[low]! - value ? low - 1 : low;
}

/** The position after a step over `lines`, among those that are wanted; -1 where none is. */
export function stepTo(lines: Int32Array, from: number, delta: number, isWanted: (line: number) => boolean): number {
  const { length } = lines;
  for (let tried = 1, at = from; tried <= length; tried++) {
    at = (at + (tried === 1 ? delta : Math.sign(delta)) + length) % length;
    if (isWanted(lines[at]!)) return at;
  }
  return -1;
}

/** How many of the lines belong to each phase of a differentiated program, where they belong to several. */
export function phaseCounts(document: TextDocument, lines: Int32Array, origins: Origins): Map<string, number> {
  const counts = new Map<string, number>();
  for (const line of lines) {
    const phase = origins.phase(document.origin(line));
    if (phase) counts.set(phase, (counts.get(phase) ?? 0) + 1);
  }
  return counts.size > 1 ? counts : new Map();
}
