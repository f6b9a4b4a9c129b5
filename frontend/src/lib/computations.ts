// The computations of a text of HLO: where each stands, what it is, and who calls it.

import type { TextDocument } from "./documents.ts";
import { Gradual, PIECE } from "./gradual.ts";

/** What a computation is: run by itself, a part of a fusion, or applied to pairs of elements. */
export type Kind = "run" | "fused" | "applied";

export interface Computation {
  readonly name: string;
  readonly isEntry: boolean;
  readonly kind: Kind;
  /** Its header, and its last line. */
  readonly first: number;
  readonly last: number;
  /** The first line that calls it, and as what, such as `body`; -1 and "" where none does. */
  readonly caller: number;
  readonly role: string;
}

const HEADER = /^(ENTRY )?%?([\w.-]+) .*\{$/;
const HAS_CALL = /(?:calls|to_apply|body|condition|_computations?)=/;
const CALL = /\b(calls|to_apply|body|condition|\w+_computation|\w+_computations)=(?:\{([^}]*)\}|%?([\w.-]+))/g;

const known = new WeakMap<TextDocument, Computations>();

/** Those of a text; none of a language that is not HLO. */
export function computationsOf(document: TextDocument): Computations {
  let found = known.get(document);
  if (!found) known.set(document, (found = new Computations(document)));
  return found;
}

export class Computations {
  private readonly found: Gradual<readonly Computation[]>;

  constructor(document: TextDocument) {
    this.found = new Gradual(find(document.language === "hlo" ? document.lines : []));
  }

  /** In the order of the text. */
  get all(): readonly Computation[] {
    return this.found.value;
  }

  make(): Generator<void> {
    return this.found.make();
  }

  /** The one that a line belongs to. */
  at(line: number): Computation | null {
    const found = this.all[lastAtMost(this.all, line)];
    return found && found.first <= line && line <= found.last ? found : null;
  }

  /** What leads to a line: the entry computation, then each call and the computation that it calls. */
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

function* find(lines: readonly string[]): Generator<void, Computation[]> {
  const heads: { name: string; isEntry: boolean; first: number }[] = [];
  const callers = new Map<string, { line: number; role: string; kind: Kind }>();
  for (const [line, text] of lines.entries()) {
    const header = text.endsWith("{") && !text.startsWith(" ") ? HEADER.exec(text) : null;
    if (header) heads.push({ name: header[2]!, isEntry: Boolean(header[1]), first: line });
    else if (HAS_CALL.test(text))
      for (const [, role, several, one] of text.matchAll(CALL))
        for (const name of one ? [one] : several!.split(",").map((each) => each.trim().replace(/^%/, "")))
          if (!callers.has(name)) callers.set(name, { line, role: role!, kind: kindOf(role!, text) });
    if (line % PIECE === 0) yield;
  }
  return heads.map(({ name, isEntry, first }, i) => {
    const { line, role, kind } = callers.get(name) ?? { line: -1, role: "", kind: "run" as const };
    const next = heads[i + 1]?.first ?? lines.length;
    return { name, isEntry, kind, first, last: endOf(lines, first, next), caller: line, role };
  });
}

function kindOf(role: string, text: string): Kind {
  if (role === "to_apply") return text.includes(" call(") ? "run" : "applied";
  return role === "calls" && text.includes(" fusion(") ? "fused" : "run";
}

/** The line with the bracket that closes a computation. */
function endOf(lines: readonly string[], first: number, next: number): number {
  for (let line = next - 1; line > first; line--) if (lines[line]!.startsWith("}")) return line;
  return next - 1;
}

/** Index of the last computation that does not begin below a line, else 0. */
function lastAtMost(sorted: readonly Computation[], line: number): number {
  let [low, high] = [0, sorted.length];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (sorted[middle]!.first <= line) low = middle;
    else high = middle;
  }
  return low;
}
