// A model without a notebook kernel: it says again what was said when the exploration was recorded.

import { type Packing, unpack } from "../lib/packing.ts";
import { decodeJson, type Model, unpacked } from "../lib/transport.ts";
import type * as messages from "../messages.ts";

interface Entry {
  readonly message: messages.ToBrowser;
  /** Lengths of its buffers, which follow each other behind all entries. */
  readonly buffers: readonly number[];
  readonly packings: readonly Packing[];
}

interface Reply extends Entry {
  readonly request: object;
}

/** What `inspector/widgets/transcript.py` writes. */
interface Transcript {
  readonly about: string;
  readonly arrangement: object;
  readonly kept: readonly Entry[];
  readonly replies: readonly Reply[];
}

interface Said {
  readonly message: messages.ToBrowser;
  readonly buffers: DataView[];
}

type Listener = (content: unknown, buffers: DataView[]) => void;

/** What is sent without anybody having asked for something, and what a pane itself says when there is no reply. */
const QUIET: readonly messages.FromBrowser["type"][] = ["select", "line_costs", "graph", "graph_before"];

export class RecordedModel implements Model {
  private readonly listeners = new Set<Listener>();
  private readonly replies = new Map<string, Said>();
  private readonly kept: readonly Said[];
  private readonly traits: Record<string, unknown>;
  readonly recorded: { readonly about: string; readonly remedy: string };

  private constructor(transcript: Transcript, remedy: string, said: (entry: Entry) => Said) {
    this.recorded = { about: transcript.about, remedy };
    this.traits = { arrangement: transcript.arrangement };
    this.kept = transcript.kept.map(said);
    for (const reply of transcript.replies) this.replies.set(JSON.stringify(reply.request), said(reply));
  }

  /** Reads a transcript: the length of its table as four bytes, the table, and the buffers. */
  static async read(bytes: Uint8Array, remedy: string): Promise<RecordedModel> {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const end = 4 + view.getUint32(0, true);
    const table = decodeJson<Transcript>(await unpack(bytes.subarray(4, end), "lines"));
    const buffers = new Map<Entry, DataView[]>();
    let at = end;
    for (const entry of [...table.kept, ...table.replies]) {
      const own = entry.buffers.map((length, i) => unpack(bytes.subarray(at, (at += length)), entry.packings[i]!));
      const views = (await Promise.all(own)).map((buffer) => new DataView(buffer));
      views.forEach((view) => unpacked.add(view));
      buffers.set(entry, views);
    }
    return new RecordedModel(table, remedy, (entry) => ({ message: entry.message, buffers: buffers.get(entry)! }));
  }

  on(name: string, callback: (...values: never[]) => void): void {
    if (name === "msg:custom") this.listeners.add(callback as Listener);
  }

  off(_name: string, callback?: ((...values: never[]) => void) | null): void {
    this.listeners.delete(callback as Listener);
  }

  get(name: string): unknown {
    return this.traits[name];
  }

  set(name: string, value: unknown): void {
    this.traits[name] = value;
  }

  save_changes(): void {}

  send(content: unknown): void {
    const request = content as messages.FromBrowser;
    if (request.type === "ready") return this.kept.forEach((said) => this.say(said));
    const { id, ...wanted } = { id: undefined, ...request };
    const reply = this.replies.get(canonical(wanted));
    if (reply) queueMicrotask(() => this.say({ ...reply, message: { ...reply.message, id } as messages.ToBrowser }));
    else if (id === undefined && !QUIET.includes(request.type)) this.refuse();
  }

  private refuse(): void {
    const message = `That was not recorded. ${this.recorded.remedy}`;
    this.say({ message: { type: "notice", level: "info", message }, buffers: [] });
  }

  private say({ message, buffers }: Said): void {
    this.listeners.forEach((listener) => listener(message, buffers));
  }
}

/** A request as text: its fields by name, as Python writes them too. */
function canonical(request: object): string {
  return JSON.stringify(Object.fromEntries(Object.entries(request).sort(([a], [b]) => (a < b ? -1 : 1))));
}
