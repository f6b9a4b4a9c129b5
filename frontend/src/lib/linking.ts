// Links between lines of several texts. Origins and documents are indexed, so that the time for a link grows with the
// number of its lines, not with the size of the program.

import { NONE, type Origins } from "./origins.ts";
import type { TextDocument } from "./documents.ts";
import { byKernel, inTurn } from "./turns.ts";

export const WEAK = 1;
export const STRONG = 2;

/** The relation of each origin to the selected one. */
class Levels {
  /** 0, WEAK or STRONG by origin, so that painting needs one lookup per line. */
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

  /** Returns the origins of a level. */
  at(level: number): number[] {
    return this.lit.filter((origin) => this.of[origin] === level);
  }
}

export interface Link {
  /** Levels for lines of compiler texts: STRONG for the same operation in the same call, such as one of many layers. */
  readonly call: Levels;
  /** Levels for texts without that call: STRONG for the same operation of the same line in any call. */
  readonly text: Levels;
  /** Levels for lines of the source pane. */
  readonly source: Levels;
  /** The levels that apply to each document so far. */
  readonly chosen: WeakMap<TextDocument, Levels>;
  /** The selected line, if equal operations may be told apart by their order. */
  readonly place: LinePlace | null;
  readonly origins: Origins;
  /** The lines of equal operations in another turn, for each document so far. */
  readonly others: WeakMap<TextDocument, ReadonlySet<number>>;
}

/** A line of a text. */
export interface LinePlace {
  readonly document: TextDocument;
  readonly line: number;
}

const NO_LINES: ReadonlySet<number> = new Set();

/**
 * Returns the link of an origin. If it was selected in the source pane, everything whose own line is that source line is
 * STRONG, and everything that the line calls is WEAK.
 *
 * @param place the line that was selected, whose turn among equal operations counts; null for none.
 */
export function linkOf(origins: Origins, origin: number, isSource: boolean, place: LinePlace | null = null): Link {
  const [text, source] = [new Levels(origins.size), new Levels(origins.size)];
  const turn = { place: isSource ? null : place, origins, others: new WeakMap<TextDocument, ReadonlySet<number>>() };
  const chosen = new WeakMap<TextDocument, Levels>();
  if (origin === NONE) return { call: text, text, source, chosen, ...turn };
  if (isSource) {
    for (const place of origins.innermosts(origin)) {
      source.raise(origins.atInnermost(place), STRONG);
      for (const found of [origins.atInnermost(place), origins.atOwn(place)]) text.raise(found, STRONG);
      text.raise(origins.atFrame(place), WEAK);
    }
    return { call: text, text, source, chosen, ...turn };
  }
  const call = new Levels(origins.size);
  for (const level of [call, text])
    for (const place of origins.innermosts(origin)) level.raise(origins.atInnermost(place), WEAK);
  for (const site of origins.sites(origin)) text.raise(origins.atSite(site), STRONG);
  for (const each of origins.calls(origin)) call.raise(origins.atCall(each), STRONG);
  for (const place of origins.owns(origin)) source.raise(origins.atInnermost(place), STRONG);
  for (const place of origins.frames(origin)) source.raise(origins.atInnermost(place), WEAK);
  return { call, text, source, chosen, ...turn };
}

/** Returns the levels of a link that apply to a document. */
export function levelsFor(link: Link, document: TextDocument): Levels {
  if (document.pane === "source") return link.source;
  let levels = link.chosen.get(document);
  if (!levels) {
    levels = document.linesOf(link.call.at(STRONG)).length ? link.call : link.text;
    link.chosen.set(document, levels);
  }
  return levels;
}

/**
 * Returns the lines of a document with an operation that equals the selected one, but in another turn, such as another
 * layer of a Python loop. They are WEAK.
 */
export function othersIn(link: Link, document: TextDocument): ReadonlySet<number> {
  let others = link.others.get(document);
  if (!others) link.others.set(document, (others = findOthers(link, document)));
  return others;
}

function findOthers(link: Link, document: TextDocument): ReadonlySet<number> {
  const { place, origins } = link;
  if (!place || place.line < 0 || document.pane === "source") return NO_LINES;
  const isByCall = levelsFor(link, document) === link.call;
  const origin = place.document.origin(place.line);
  const all = new Set<number>();
  const same = new Set<number>();
  for (const key of isByCall ? origins.calls(origin) : origins.sites(origin)) {
    const equal = isByCall ? origins.atCall(key) : origins.atSite(key);
    const own = byKernel(place.document, place.document.linesOf(equal));
    const at = own.findIndex((lines) => lines.includes(place.line));
    const kernels = byKernel(document, document.linesOf(equal));
    kernels.flat().forEach((line) => all.add(line));
    const meant = at < 0 || own.length < 2 ? kernels : inTurn(kernels, at, own.length);
    meant.flat().forEach((line) => same.add(line));
  }
  for (const line of same) all.delete(line);
  return all;
}

/** Returns the level of a line of a document: 0, WEAK or STRONG. */
export function levelOf(link: Link, document: TextDocument, line: number): number {
  const level = levelsFor(link, document).of[document.origin(line)] ?? 0;
  return level === STRONG && othersIn(link, document).has(line) ? WEAK : level;
}

/** The linked lines of a document, from 0, in order. */
export interface Matches {
  readonly strong: Int32Array;
  readonly weak: Int32Array;
}

export function matchesIn(document: TextDocument, link: Link): Matches {
  const levels = levelsFor(link, document);
  const others = othersIn(link, document);
  const [strong, weak] = [document.linesOf(levels.at(STRONG)), document.linesOf(levels.at(WEAK))];
  if (!others.size) return { strong, weak };
  return { strong: strong.filter((line) => !others.has(line)), weak: Int32Array.from([...weak, ...others]).sort() };
}

/** Returns the lines to step through: the strong ones, or the weak ones if there are no strong ones. */
export function best(matches: Matches): Int32Array {
  return matches.strong.length ? matches.strong : matches.weak;
}

/** Returns the index of the entry of a sorted array that is nearest to `value`; -1 if it is empty. */
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

/** Returns the index after a step over the lines that `isWanted` accepts; -1 if there are none. */
export function stepTo(lines: Int32Array, from: number, delta: number, isWanted: (line: number) => boolean): number {
  const { length } = lines;
  for (let tried = 1, at = from; tried <= length; tried++) {
    at = (at + (tried === 1 ? delta : Math.sign(delta)) + length) % length;
    if (isWanted(lines[at]!)) return at;
  }
  return -1;
}

/** Returns the number of lines in each phase of a differentiated program; empty if all are in one phase. */
export function phaseCounts(document: TextDocument, lines: Int32Array, origins: Origins): Map<string, number> {
  const counts = new Map<string, number>();
  for (const line of lines) {
    const phase = origins.phase(document.origin(line));
    if (phase) counts.set(phase, (counts.get(phase) ?? 0) + 1);
  }
  return counts.size > 1 ? counts : new Map();
}
