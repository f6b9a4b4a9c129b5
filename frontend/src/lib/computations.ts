// The computations of HLO text: their lines, kinds and callers.

import type { TextDocument } from "./documents.ts";
import { Gradual, PIECE } from "./gradual.ts";

/** The kind of a computation: run by itself, part of a fusion, or applied to pairs of elements. */
export type Kind = "run" | "fused" | "applied";

export interface Computation {
  readonly name: string;
  readonly isEntry: boolean;
  readonly kind: Kind;
  /** The lines of its header and of its closing bracket. */
  readonly first: number;
  readonly last: number;
  /** The first line that calls it, and its role there, such as `body`; -1 and "" if nothing calls it. */
  readonly caller: number;
  readonly role: string;
  /** The number of lines that call it. */
  readonly callCount: number;
}

/** A computation that a line calls, in a role such as `body`. */
export interface Call {
  readonly computation: Computation;
  readonly role: string;
}

interface Found {
  readonly all: readonly Computation[];
  readonly calls: ReadonlyMap<number, readonly Call[]>;
}

const HEADER = /^(ENTRY )?%?([\w.-]+) .*\{$/;
const HAS_CALL = /(?:calls|to_apply|body|condition|_computations?)=/;
const CALL = /\b(calls|to_apply|body|condition|\w+_computation|\w+_computations)=(?:\{([^}]*)\}|%?([\w.-]+))/g;

const known = new WeakMap<TextDocument, Computations>();

/** Returns the computations of a text. Texts in languages other than HLO have none. */
export function computationsOf(document: TextDocument): Computations {
  let computations = known.get(document);
  if (!computations) known.set(document, (computations = new Computations(document)));
  return computations;
}

export class Computations {
  private readonly gradual: Gradual<Found>;

  constructor(document: TextDocument) {
    this.gradual = new Gradual(find(document.language === "hlo" ? document.lines : []));
  }

  /** All computations, in text order. */
  get all(): readonly Computation[] {
    return this.gradual.value.all;
  }

  /** The computations that lines call, in the order of the text, by line. */
  get calls(): ReadonlyMap<number, readonly Call[]> {
    return this.gradual.value.calls;
  }

  make(): Generator<void> {
    return this.gradual.make();
  }

  /** Returns the computation that contains a line. */
  at(line: number): Computation | null {
    const last = this.all[lastAtMost(this.all, line)];
    return last && last.first <= line && line <= last.last ? last : null;
  }

  /** Returns the path to a line: the entry computation and the call in it, then each called computation. */
  path(line: number): { readonly computation: Computation; readonly call: number }[] {
    const path = [];
    const seen = new Set<Computation>();
    let here = this.at(line);
    let call = line;
    while (here && !seen.has(here)) {
      path.unshift({ computation: here, call });
      seen.add(here);
      call = here.caller;
      here = call < 0 ? null : this.at(call);
    }
    return path;
  }
}

function* find(lines: readonly string[]): Generator<void, Found> {
  const heads: { name: string; isEntry: boolean; first: number }[] = [];
  const called: { line: number; role: string; name: string }[] = [];
  for (const [line, text] of lines.entries()) {
    const header = text.endsWith("{") && !text.startsWith(" ") ? HEADER.exec(text) : null;
    if (header) heads.push({ name: header[2]!, isEntry: Boolean(header[1]), first: line });
    else if (HAS_CALL.test(text))
      for (const [, role, several, one] of text.matchAll(CALL))
        for (const name of one ? [one] : several!.split(",").map((each) => each.trim().replace(/^%/, "")))
          called.push({ line, role: role!, name });
    if (line % PIECE === 0) yield;
  }
  const callers = new Map<string, { line: number; role: string; count: number }>();
  for (const { line, role, name } of called) {
    const known = callers.get(name);
    if (known) known.count += 1;
    else callers.set(name, { line, role, count: 1 });
  }
  const all = heads.map(({ name, isEntry, first }, i) => {
    const { line, role, count } = callers.get(name) ?? { line: -1, role: "", count: 0 };
    const kind: Kind = count ? kindOf(role, lines[line]!) : "run";
    const last = endOf(lines, first, heads[i + 1]?.first ?? lines.length);
    return { name, isEntry, kind, first, last, caller: line, role, callCount: count };
  });
  return { all, calls: callsOf(all, called) };
}

function callsOf(
  all: readonly Computation[],
  called: readonly { readonly line: number; readonly role: string; readonly name: string }[],
): Map<number, Call[]> {
  const byName = new Map(all.map((computation) => [computation.name, computation]));
  const calls = new Map<number, Call[]>();
  for (const { line, role, name } of called) {
    const computation = byName.get(name);
    if (!computation) continue;
    const known = calls.get(line);
    if (known) known.push({ computation, role });
    else calls.set(line, [{ computation, role }]);
  }
  return calls;
}

function kindOf(role: string, text: string): Kind {
  if (role === "to_apply") return text.includes(" call(") ? "run" : "applied";
  return role === "calls" && text.includes(" fusion(") ? "fused" : "run";
}

/** Returns the line with the closing bracket of a computation. */
function endOf(lines: readonly string[], first: number, next: number): number {
  for (let line = next - 1; line > first; line--) if (lines[line]!.startsWith("}")) return line;
  return next - 1;
}

/** Returns the index of the last computation that begins at or above a line, or 0. */
function lastAtMost(sorted: readonly Computation[], line: number): number {
  let [low, high] = [0, sorted.length];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (sorted[middle]!.first <= line) low = middle;
    else high = middle;
  }
  return low;
}
