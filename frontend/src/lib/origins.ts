// Origins of lines, interned over all documents: one number means one origin everywhere.

import type { OriginTable } from "../messages.ts";

/** No origin. */
export const NONE = -1;

/** A source line: index into `Origins.files`, line from 1. */
export interface Place {
  readonly file: number;
  readonly line: number;
}

/**
 * An origin is an operation name and a chain of source lines, innermost first. Its *site* is the
 * operation's own name with the innermost line alone: what two documents of one program agree on.
 */
export class Origins {
  readonly files: string[] = [];
  private readonly names: string[] = [];
  private readonly places: Place[] = [];
  private readonly nameOf: number[] = [];
  private readonly siteOf: number[] = [];
  private readonly framesOf: number[][] = [];
  private readonly fileIds = new Map<string, number>();
  private readonly nameIds = new Map<string, number>();
  private readonly placeIds = new Map<string, number>();
  private readonly siteIds = new Map<string, number>();
  private readonly originIds = new Map<string, number>();

  get size(): number {
    return this.nameOf.length;
  }

  /** Interns a document's table; gives the number here of each of its origins. */
  add(table: OriginTable): Int32Array {
    const files = table.files.map((f) => internIn(this.fileIds, f, () => this.files.push(f)));
    return Int32Array.from(table.origins, ([name, frames]) =>
      this.intern(
        name,
        frames.map(([file, line]) => this.place(files[file] ?? NONE, line)),
      ),
    );
  }

  operation(origin: number): string {
    return this.names[this.nameOf[origin] ?? NONE] ?? "";
  }

  /** The numbers of the source lines of an origin, innermost first. */
  frames(origin: number): readonly number[] {
    return this.framesOf[origin] ?? [];
  }

  /** The number of the innermost source line, or NONE. */
  innermost(origin: number): number {
    return this.framesOf[origin]?.[0] ?? NONE;
  }

  site(origin: number): number {
    return this.siteOf[origin] ?? NONE;
  }

  placeAt(place: number): Place | null {
    return this.places[place] ?? null;
  }

  private place(file: number, line: number): number {
    return internIn(this.placeIds, `${file}:${line}`, () => this.places.push({ file, line }));
  }

  private intern(name: string, frames: number[]): number {
    const nameId = internIn(this.nameIds, name, () => this.names.push(name));
    return internIn(this.originIds, `${nameId}|${frames.join()}`, () => {
      this.nameOf.push(nameId);
      this.framesOf.push(frames);
      const site = frames.length ? `${ownName(name)}|${frames[0]}` : name;
      this.siteOf.push(internIn(this.siteIds, site, () => undefined));
    });
  }
}

/**
 * An operation name without the calls around it: `jit(f)/shard_map/psum` in HLO is `psum` in the
 * StableHLO of the same program. Transformations (`jvp`, `transpose`, `vmap`) stay: they tell the
 * forward operation from the backward one on the same line.
 */
function ownName(name: string): string {
  const isCall = (part: string): boolean => part === "shard_map" || part === "pjit" || /^jit\([^()]*\)$/.test(part);
  const own = name.split("/").filter((part) => !isCall(part));
  return own.join("/") || name;
}

function internIn(ids: Map<string, number>, key: string, add: () => unknown): number {
  const known = ids.get(key);
  if (known !== undefined) return known;
  const id = ids.size;
  ids.set(key, id);
  add();
  return id;
}
