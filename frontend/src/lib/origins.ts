// Origins of lines, interned across all documents: equal numbers mean equal origins.

import type { OriginTable } from "../messages.ts";

/** No origin. */
export const NONE = -1;

/** A source line: an index into `Origins.files`, and the line from 1. */
interface Place {
  readonly file: number;
  readonly line: number;
}

/**
 * An origin is an operation name and a stack of source lines, innermost first. Its *call* is the operation's own name
 * with the stack, which tells the layers of a model apart. Its *site* is the name with the innermost line only, because
 * some documents lack a part of the stack. Its *own* line is the innermost one outside of libraries. A line may have
 * several origins, for example inside a function that is called twice. One number stands for all origins of a line.
 */
export class Origins {
  readonly files: string[] = [];
  private readonly libraries = new Set<number>();
  private readonly names: string[] = [];
  private readonly places: Place[] = [];
  private readonly nameOf: number[] = [];
  private readonly sitesOf: number[][] = [];
  private readonly callsOf: number[][] = [];
  private readonly ownsOf: number[][] = [];
  private readonly innermostsOf: number[][] = [];
  private readonly framesOf: number[][] = [];
  private readonly phaseOf: string[] = [];
  private readonly bySite: number[][] = [];
  private readonly byCall: number[][] = [];
  private readonly byOwn: number[][] = [];
  private readonly byInnermost: number[][] = [];
  private readonly byFrame: number[][] = [];
  private readonly fileIds = new Map<string, number>();
  private readonly nameIds = new Map<string, number>();
  private readonly placeIds = new Map<string, number>();
  private readonly siteIds = new Map<string, number>();
  private readonly originIds = new Map<string, number>();

  get size(): number {
    return this.nameOf.length;
  }

  /** Interns a document's table. Returns the number of each of its entries. */
  add(table: OriginTable): Int32Array {
    const files = table.files.map((f) => internIn(this.fileIds, f, () => this.files.push(f)));
    files.forEach((id, i) => table.libraries?.[i] && this.libraries.add(id));
    return Int32Array.from(table.origins, (entry, i) =>
      this.intern(
        entry.map(([name, frames]) => ({
          name: internIn(this.nameIds, name, () => this.names.push(name)),
          frames: frames.map(([file, line]) => this.place(files[file] ?? NONE, line)),
        })),
        table.phases?.[i] ?? "",
      ),
    );
  }

  /** Returns the operation name, or the first one of several. */
  operation(origin: number): string {
    return this.names[this.nameOf[origin] ?? NONE] ?? "";
  }

  /** Returns the phase of a differentiated program that an origin belongs to; "" if unknown. */
  phase(origin: number): string {
    return this.phaseOf[origin] ?? "";
  }

  /** Returns the numbers of all source lines of an origin, innermost first. */
  frames(origin: number): readonly number[] {
    return this.framesOf[origin] ?? [];
  }

  /** Returns the number of the innermost source line, or NONE; the first one of several. */
  innermost(origin: number): number {
    return this.innermosts(origin)[0] ?? NONE;
  }

  /**
   * Returns the line to show: the innermost one in the user's code, with the innermost library line below it. If all
   * lines are in libraries, the innermost one. Null without lines.
   */
  source(origin: number): { file: string; line: number; library: string } | null {
    const places = this.frames(origin).map((frame) => this.places[frame]!);
    const own = places.find(({ file }) => !this.libraries.has(file)) ?? places[0];
    if (!own) return null;
    const inner = places[0]!;
    const library = inner === own ? "" : `${this.files[inner.file] ?? ""}:${inner.line}`;
    return { file: this.files[own.file] ?? "", line: own.line, library };
  }

  /** Returns the source lines outside of libraries, innermost first; all lines if there are none. */
  ownFrames(origin: number): readonly number[] {
    const frames = this.frames(origin);
    const own = frames.filter((frame) => !this.libraries.has(this.places[frame]!.file));
    return own.length ? own : frames;
  }

  innermosts(origin: number): readonly number[] {
    return this.innermostsOf[origin] ?? [];
  }

  sites(origin: number): readonly number[] {
    return this.sitesOf[origin] ?? [];
  }

  calls(origin: number): readonly number[] {
    return this.callsOf[origin] ?? [];
  }

  /** Returns the numbers of the innermost source lines outside of libraries, or of the innermost ones if all are in them. */
  owns(origin: number): readonly number[] {
    return this.ownsOf[origin] ?? [];
  }

  /** Returns the origins with a call. */
  atCall(call: number): readonly number[] {
    return this.byCall[call] ?? [];
  }

  /** Returns the origins with a place as their own source line. */
  atOwn(place: number): readonly number[] {
    return this.byOwn[place] ?? [];
  }

  /** Returns the origins with a site. */
  atSite(site: number): readonly number[] {
    return this.bySite[site] ?? [];
  }

  /** Returns the origins with a place as their innermost source line. */
  atInnermost(place: number): readonly number[] {
    return this.byInnermost[place] ?? [];
  }

  /** Returns the origins with a place among their source lines. */
  atFrame(place: number): readonly number[] {
    return this.byFrame[place] ?? [];
  }

  /** Returns the number of a source line, or NONE if no origin has it. */
  placeOf(file: string, line: number): number {
    return this.placeIds.get(`${this.fileIds.get(file) ?? NONE}:${line}`) ?? NONE;
  }

  placeAt(place: number): Place | null {
    return this.places[place] ?? null;
  }

  private place(file: number, line: number): number {
    return internIn(this.placeIds, `${file}:${line}`, () => this.places.push({ file, line }));
  }

  private intern(entry: { name: number; frames: number[] }[], phase: string): number {
    const key = entry.map(({ name, frames }) => `${name}|${frames.join()}`).join(";");
    const id = internIn(this.originIds, key, () => {
      this.nameOf.push(entry[0]?.name ?? NONE);
      this.framesOf.push(unique(entry.flatMap(({ frames }) => frames)));
      this.innermostsOf.push(unique(entry.flatMap(({ frames }) => frames.slice(0, 1))));
      this.sitesOf.push(unique(entry.map(({ name, frames }) => this.site(this.names[name] ?? "", frames.slice(0, 1)))));
      this.callsOf.push(unique(entry.map(({ name, frames }) => this.site(this.names[name] ?? "", frames))));
      this.ownsOf.push(unique(entry.flatMap(({ frames }) => this.own(frames))));
      this.index(this.size - 1);
    });
    if (phase) this.phaseOf[id] = phase; // not every document has phases
    return id;
  }

  private index(origin: number): void {
    for (const site of this.sites(origin)) (this.bySite[site] ??= []).push(origin);
    for (const call of this.calls(origin)) (this.byCall[call] ??= []).push(origin);
    for (const place of this.owns(origin)) (this.byOwn[place] ??= []).push(origin);
    for (const place of this.innermosts(origin)) (this.byInnermost[place] ??= []).push(origin);
    for (const place of this.frames(origin)) (this.byFrame[place] ??= []).push(origin);
  }

  /** Interns an operation's own name with source lines. A line that calls itself counts once, as jaxprs show it. */
  private site(name: string, frames: number[]): number {
    const stack = frames.filter((frame, i) => frame !== frames[i - 1]);
    const site = frames.length ? `${ownName(name)}|${stack.join()}` : name;
    return internIn(this.siteIds, site, () => undefined);
  }

  private own(frames: number[]): number[] {
    const own = frames.find((frame) => !this.libraries.has(this.places[frame]!.file)) ?? frames[0];
    return own === undefined ? [] : [own];
  }
}

function unique(numbers: number[]): number[] {
  return numbers.length < 2 ? numbers : [...new Set(numbers)];
}

/**
 * Returns an operation name without the calls around it: `jit(f)/shard_map/psum` in HLO is `psum` in the StableHLO of
 * the same program. Transformations (`jvp`, `transpose`, `vmap`) stay, because they distinguish forward and backward
 * operations of the same line.
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
