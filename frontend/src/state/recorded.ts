// What was recorded of variants on demand: compiler passes, and the back-end's code.

import { TextDocument } from "../lib/documents.ts";
import { NONE, type Origins } from "../lib/origins.ts";
import { decodeInt32, decodeJson, decodeText, gunzip } from "../lib/transport.ts";
import type * as messages from "../messages.ts";
import { endAll, type Timed } from "./synced.ts";

export type RecordedTopic = "recordings" | "passes" | "code" | "passChange" | "codeText";

/** A reply to a pass's request: the module before and after it, or an error. */
export interface Change {
  readonly message: messages.PassChange;
  readonly texts: { readonly before: TextDocument; readonly after: TextDocument } | null;
}

/** A reply to a request for code: the text, or why there is none. */
export interface Code {
  readonly message: messages.CodeText;
  readonly text: string | null;
}

/** The code of a variant, by kernel and by instruction. */
export class CodeIndex {
  readonly stages: readonly string[];
  /** Kernels in order, "" first where something belongs to the whole program. */
  readonly kernels: readonly string[];
  private readonly places = new Map<string, number>();
  private readonly kernelOf = new Map<string, string>();

  constructor(
    readonly note: string,
    readonly table: messages.CodeTable,
  ) {
    const { entries, instructions } = table;
    this.stages = [...new Set(entries.map((entry) => entry.stage))];
    const names = new Set(entries.map((entry) => entry.kernel));
    const hasProgram = names.delete("");
    this.kernels = [...(hasProgram ? [""] : []), ...[...names].sort(NATURAL.compare)];
    entries.forEach((entry, i) => this.places.set(key(entry.stage, entry.kernel), i));
    // A kernel's own instruction before those inside of another one.
    for (const inner of [false, true])
      for (const [kernel, all] of Object.entries(instructions))
        for (const name of inner ? all.slice(1) : all.slice(0, 1))
          if (!this.kernelOf.has(name)) this.kernelOf.set(name, kernel);
  }

  /** The entry of a kernel at a stage, or null. */
  place(stage: string, kernel: string): number | null {
    return this.places.get(key(stage, kernel)) ?? null;
  }

  stagesOf(kernel: string): string[] {
    return this.stages.filter((stage) => this.place(stage, kernel) !== null);
  }

  /** The kernel that computes an instruction, or null. */
  kernel(instruction: string): string | null {
    return this.kernelOf.get(instruction) ?? null;
  }

  /** The instruction that a kernel has its name from, or null. */
  instruction(kernel: string): string | null {
    return this.table.instructions[kernel]?.[0] ?? null;
  }
}

export class Recorded {
  /** The latest replies; views take them if they answer their own request. */
  change: Change | null = null;
  code: Code | null = null;
  private readonly recordings = new Map<string, Timed<messages.Recording>>();
  private readonly passLists = new Map<number, messages.PassList>();
  private readonly codeIndices = new Map<number, CodeIndex>();

  constructor(
    private readonly emit: (topic: RecordedTopic) => void,
    private readonly origins: Origins,
  ) {}

  recording(variant: number, product: messages.Product): Timed<messages.Recording> | null {
    return this.recordings.get(`${variant}/${product}`) ?? null;
  }

  /** The kernel is gone. */
  endWork(): void {
    endAll(this.recordings);
  }

  passes(variant: number): messages.PassList | null {
    return this.passLists.get(variant) ?? null;
  }

  codes(variant: number): CodeIndex | null {
    return this.codeIndices.get(variant) ?? null;
  }

  receiveRecording(message: Timed<messages.Recording>): void {
    this.recordings.set(`${message.variant}/${message.product}`, message);
    this.emit("recordings");
  }

  receivePasses(message: messages.PassList): void {
    this.passLists.set(message.variant, message);
    this.emit("passes");
  }

  async receiveCode(message: messages.CodeList, buffers: DataView[]): Promise<void> {
    const table = decodeJson<messages.CodeTable>(await gunzip(buffers[0]!));
    this.codeIndices.set(message.variant, new CodeIndex(message.note, table));
    this.emit("code");
  }

  async receiveChange(message: messages.PassChange, buffers: DataView[]): Promise<void> {
    this.change = { message, texts: message.error ? null : await this.texts(message, buffers) };
    this.emit("passChange");
  }

  async receiveText(message: messages.CodeText, buffers: DataView[]): Promise<void> {
    this.code = { message, text: buffers.length ? decodeText(await gunzip(buffers[0]!)) : null };
    this.emit("codeText");
  }

  private async texts(message: messages.PassChange, buffers: DataView[]): Promise<Change["texts"]> {
    const [text, lineOrigins, origins, lines, removed] = await Promise.all(buffers.map(gunzip));
    if (!text || !lineOrigins || !origins || !lines || !removed) throw new Error("a pass's change has five buffers");
    const after = decodeText(text);
    const before = linesBefore(after.split("\n"), message.hunks, decodeText(removed).split("\n")).join("\n");
    const ids = this.origins.add(decodeJson<messages.OriginTable>(origins));
    const interned = decodeInt32(lineOrigins).map((origin) => ids[origin] ?? NONE);
    const about = { pane: "passes", variant: message.variant, language: "hlo", title: "" } as const;
    return {
      before: plainText(about, before),
      after: new TextDocument(about, after, interned, decodeJson<messages.LineTable>(lines)),
    };
  }

  remove(variant: number): void {
    for (const product of ["passes", "code"]) this.recordings.delete(`${variant}/${product}`);
    this.passLists.delete(variant);
    this.codeIndices.delete(variant);
  }
}

/** The lines that hunks were taken from: those after, with the removed ones back in their places. */
export function linesBefore(
  after: readonly string[],
  hunks: messages.PassChange["hunks"],
  removed: readonly string[],
): string[] {
  const lines: string[] = [];
  const add = (from: readonly string[], start: number, end: number): void => {
    for (let i = start; i < end; i++) lines.push(from[i]!);
  };
  let kept = 0;
  let taken = 0;
  for (const [a0, a1, b0, b1] of hunks) {
    add(after, kept, b0);
    add(removed, taken, taken + a1 - a0);
    taken += a1 - a0;
    kept = b1;
  }
  add(after, kept, after.length);
  return lines;
}

/** A text of which nothing is known. */
export function plainText(about: ConstructorParameters<typeof TextDocument>[0], text: string): TextDocument {
  const count = text.split("\n").length;
  const table = { labels: null, instructions: new Array<null>(count).fill(null) };
  return new TextDocument(about, text, new Int32Array(count).fill(NONE), table);
}

/** `fusion.2` before `fusion.10`. */
const NATURAL = new Intl.Collator("en", { numeric: true });

const key = (stage: string, kernel: string): string => `${stage}\n${kernel}`;
