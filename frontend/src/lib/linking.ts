// Which lines belong together. A link is one byte an origin, so that painting a screen of lines
// costs one look-up each, and a scan of 230,000 lines under a millisecond.

import { NONE, type Origins } from "./origins.ts";
import type { TextDocument } from "./documents.ts";

export const WEAK = 1;
export const STRONG = 2;

/** How much each origin has to do with the one that was chosen: 0, WEAK or STRONG. */
export interface Link {
  /** For the lines of texts that a compiler made. */
  readonly text: Uint8Array;
  /** For the lines of the source pane. */
  readonly source: Uint8Array;
}

/** Where the chosen origin was found decides what it means: a source line stands for all it made. */
export function linkOf(origins: Origins, origin: number, isSource: boolean): Link {
  const link = { text: new Uint8Array(origins.size), source: new Uint8Array(origins.size) };
  if (origin === NONE) return link;
  const chosen = {
    sites: new Set(origins.sites(origin)),
    innermosts: new Set(origins.innermosts(origin)),
    frames: new Set(origins.frames(origin)),
  };
  for (let other = 0; other < origins.size; other++) {
    const sameLine = origins.innermosts(other).some((place) => chosen.innermosts.has(place));
    if (isSource) {
      const calls = origins.frames(other).some((place) => chosen.innermosts.has(place));
      link.text[other] = sameLine ? STRONG : calls ? WEAK : 0;
      link.source[other] = sameLine ? STRONG : 0;
    } else {
      const sameSite = origins.sites(other).some((site) => chosen.sites.has(site));
      const called = origins.innermosts(other).some((place) => chosen.frames.has(place));
      link.text[other] = sameSite ? STRONG : sameLine ? WEAK : 0;
      link.source[other] = sameLine ? STRONG : called ? WEAK : 0;
    }
  }
  return link;
}

/** The levels of a link that apply to a document. */
export function levelsFor(link: Link, document: TextDocument): Uint8Array {
  return document.pane === "source" ? link.source : link.text;
}

/** Lines of a document, from 0, in order. */
export interface Matches {
  readonly strong: Int32Array;
  readonly weak: Int32Array;
}

export function matchesIn(document: TextDocument, link: Link): Matches {
  const levels = levelsFor(link, document);
  const strong: number[] = [];
  const weak: number[] = [];
  const origins = document.lineOrigins;
  for (let line = 0; line < origins.length; line++) {
    const level = levels[origins[line]!];
    if (level === STRONG) strong.push(line);
    else if (level === WEAK) weak.push(line);
  }
  return { strong: Int32Array.from(strong), weak: Int32Array.from(weak) };
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
