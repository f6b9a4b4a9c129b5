// A model without a notebook kernel, which replays the messages of a recorded exploration.

import { type Packing, unpack } from "../lib/packing.ts";
import type { Place } from "../lib/place.ts";
import { decodeJson, type Model, type Recorded, unpacked } from "../lib/transport.ts";
import type * as messages from "../messages.ts";

interface Entry {
  readonly message: messages.ToBrowser;
  /** Lengths of the buffers in bytes. The buffers of all entries follow the table, in order. */
  readonly buffers: readonly number[];
  readonly packings: readonly Packing[];
}

interface Reply extends Entry {
  readonly request: object;
}

/** The format that `inspector/widgets/saving/transcript.py` writes. */
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

/**
 * Requests without a notice if there is no reply: the user did not ask for them, or the pane shows a message itself.
 */
const QUIET: readonly messages.FromBrowser["type"][] = ["select", "line_costs", "graph", "graph_times", "graph_before"];

export class RecordedModel implements Model {
  private readonly listeners = new Set<Listener>();
  /** Replies by request. They are unpacked on demand, because most are never requested. */
  private readonly replies: ReadonlyMap<string, () => Promise<Said>>;
  private readonly kept: readonly Said[];
  private readonly traits: Record<string, unknown>;
  readonly recorded: Recorded;

  private constructor(
    { about, arrangement }: Transcript,
    remedy: string,
    kept: readonly Said[],
    replies: ReadonlyMap<string, () => Promise<Said>>,
    number: number | null,
  ) {
    this.recorded = { about, remedy, number };
    this.traits = { arrangement };
    this.kept = kept;
    this.replies = replies;
  }

  /** Reads a transcript: the length of its table as four bytes, the table, and the buffers. */
  static async read(bytes: Uint8Array, remedy: string, number: number | null): Promise<RecordedModel> {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const end = 4 + view.getUint32(0, true);
    const table = decodeJson<Transcript>(await unpack(bytes.subarray(4, end), "lines"));
    let at = end;
    const next = (entry: Entry): Uint8Array[] => entry.buffers.map((length) => bytes.subarray(at, (at += length)));
    const kept = await Promise.all(table.kept.map((entry) => unpackedEntry(entry, next(entry))));
    const replies = new Map(
      table.replies.map((reply) => {
        const own = next(reply);
        return [JSON.stringify(reply.request), () => unpackedEntry(reply, own)];
      }),
    );
    return new RecordedModel(table, remedy, kept, replies, number);
  }

  /** Brings a place to the front, as Python does in a notebook. */
  goTo({ pane, variant, line, instruction }: Place): void {
    const message: messages.Focus = { type: "focus", pane: pane as messages.Pane, variant, line, instruction };
    this.say({ message, buffers: [] });
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
    if (reply)
      void reply().then(({ message, buffers }) => {
        this.say({ message: { ...message, id } as messages.ToBrowser, buffers });
      });
    else if (id === undefined && !QUIET.includes(request.type)) this.refuse();
  }

  private refuse(): void {
    const message = `Not recorded. ${this.recorded.remedy}`;
    this.say({ message: { type: "notice", level: "info", message }, buffers: [] });
  }

  private say({ message, buffers }: Said): void {
    this.listeners.forEach((listener) => listener(message, buffers));
  }
}

async function unpackedEntry({ message, packings }: Entry, packed: readonly Uint8Array[]): Promise<Said> {
  const contents = await Promise.all(packed.map((bytes, i) => unpack(bytes, packings[i]!)));
  const buffers = contents.map((content) => new DataView(content));
  buffers.forEach((buffer) => unpacked.add(buffer));
  return { message, buffers };
}

/** Returns a request as JSON with sorted fields, as Python writes it. */
function canonical(request: object): string {
  return JSON.stringify(Object.fromEntries(Object.entries(request).sort(([a], [b]) => (a < b ? -1 : 1))));
}
