// What Python said, one copy a page: all views of a widget read it. Nothing here is the user's.

import { TextDocument } from "../lib/documents.ts";
import { Origins } from "../lib/origins.ts";
import { Signal } from "../lib/signal.ts";
import { decodeInt32, decodeJson, decodeText, gunzip, type Model } from "../lib/transport.ts";
import type * as messages from "../messages.ts";
import { Recorded, type RecordedTopic } from "./recorded.ts";

export type Topic =
  | "session"
  | "variants"
  | "documents"
  | "stats"
  | "diffs"
  | "collectives"
  | "graph"
  | "runs"
  | "kernels"
  | "tuned"
  | "controls"
  | "flags"
  | "said"
  | "notices"
  | "kernel"
  | RecordedTopic;

/** A message with the moment it came, in milliseconds of `performance.now`. */
export type Timed<T> = T & { receivedAt: number };

export type Slot = TextDocument | messages.Unavailable;
export type Kernel = "waiting" | "live" | "gone";

export class Synced {
  readonly signal = new Signal<Topic>();
  readonly origins = new Origins();
  session: messages.Session | null = null;
  kernel: Kernel = "waiting";
  /** In order of arrival: the first is the baseline. */
  readonly variants = new Map<number, Timed<messages.Variant>>();
  /** Those that were there before this page asked. */
  readonly earlier = new Set<number>();
  readonly stats = new Map<number, messages.Stats>();
  readonly runs = new Map<number, Timed<messages.Run>>();
  /** The Pallas kernels of a variant's program. */
  readonly kernels = new Map<number, messages.Kernels>();
  /** The latest reply to a request for other compiler parameters; views take it if it answers their own. */
  tuned: messages.Tuned | null = null;
  controls: messages.Controls | null = null;
  /** The latest flags that were found; views take them if they answer their own search. */
  flags: messages.Flags | null = null;
  /** What is wrong with what was asked for with the controls. */
  said: messages.Error | null = null;
  readonly notices: messages.Notice[] = [];
  readonly recorded = new Recorded((topic) => this.signal.emit(topic), this.origins);
  /** The latest graph that came; views take it if it answers their own request. */
  graph: messages.Graph | null = null;
  private readonly slots = new Map<string, Slot>();
  private readonly arrivals = new Map<string, number>();
  private readonly diffs = new Map<string, messages.Diff>();
  private readonly collectives = new Map<string, messages.Collectives>();
  private readonly client = crypto.getRandomValues(new Uint32Array(2)).join("-");
  private arrivalCount = 0;

  constructor(private readonly model: Model) {
    // ipywidgets tells a model when its comm closed: the kernel restarted or ended.
    model.on("comm_live_update", () => this.setKernel("gone"));
    model.on("msg:custom", (content: unknown, buffers: DataView[]) => this.receive(content, buffers ?? []));
  }

  /** Asks for everything that is known. */
  start(): void {
    this.send({ type: "ready", client: this.client });
  }

  send(message: messages.FromBrowser): void {
    try {
      this.model.send(message);
    } catch {
      this.setKernel("gone");
    }
  }

  setKernel(kernel: Kernel): void {
    if (this.kernel === kernel) return;
    this.kernel = kernel;
    if (kernel === "gone") this.endWork();
    this.signal.emit("kernel");
  }

  /** What was under way will not end any more. */
  private endWork(): void {
    endAll(this.variants);
    endAll(this.runs);
    this.recorded.endWork();
    for (const topic of ENDED) this.signal.emit(topic);
  }

  /** What a text pane shows for a variant: its own document, else the one that all share. */
  slot(pane: messages.TextPane, variant: number | null): Slot | null {
    return this.slots.get(`${pane}/${variant}`) ?? this.slots.get(`${pane}/null`) ?? null;
  }

  document(pane: messages.TextPane, variant: number | null): TextDocument | null {
    const slot = this.slot(pane, variant);
    return slot instanceof TextDocument ? slot : null;
  }

  diff(baseline: number, variant: number): messages.Diff | null {
    return this.diffs.get(`${baseline}/${variant}`) ?? null;
  }

  collectivesOf(variant: number, stage: messages.Stage): messages.Collectives | null {
    return this.collectives.get(`${variant}/${stage}`) ?? null;
  }

  get baseline(): number | null {
    return this.variants.keys().next().value ?? null;
  }

  /** What a variant is compared with: the first one for its own target, once it is known, else the baseline. */
  referenceOf(variant: number): number | null {
    const { target } = this.variants.get(variant) ?? {};
    const isReference = (other: messages.Variant): boolean =>
      other.target === target && this.diffs.has(`${other.variant}/${variant}`);
    return [...this.variants.values()].find(isReference)?.variant ?? this.baseline;
  }

  /** The same where it is for the same target, so that numbers compare too; null for what comes first for its target. */
  sameTargetReferenceOf(variant: number): number | null {
    const reference = this.referenceOf(variant);
    if (reference === null || reference === variant) return null;
    return this.variants.get(reference)?.target === this.variants.get(variant)?.target ? reference : null;
  }

  dismiss(notice: messages.Notice): void {
    this.notices.splice(this.notices.indexOf(notice), 1);
    this.signal.emit("notices");
  }

  say(error: messages.Error | null): void {
    this.said = error;
    this.signal.emit("said");
  }

  private receive(content: unknown, buffers: DataView[]): void {
    const message = content as messages.ToBrowser & { to?: string };
    if (message.to !== undefined && message.to !== this.client) return;
    this.setKernel("live");
    switch (message.type) {
      case "session":
        this.session = message;
        return this.signal.emit("session");
      case "document":
        return void this.receiveDocument(message, buffers);
      case "unavailable":
        return this.put(message, this.arrive(message));
      case "variant":
        if (message.to !== undefined && !this.variants.has(message.variant)) this.earlier.add(message.variant);
        this.variants.set(message.variant, timed(message));
        return this.signal.emit("variants");
      case "variant_removed":
        return this.remove(message.variant);
      case "stats":
        this.stats.set(message.variant, message);
        return this.signal.emit("stats");
      case "diff":
        this.diffs.set(`${message.baseline}/${message.variant}`, message);
        return this.signal.emit("diffs");
      case "collectives":
        this.collectives.set(`${message.variant}/${message.stage}`, message);
        return this.signal.emit("collectives");
      case "graph":
        this.graph = message;
        return this.signal.emit("graph");
      case "run":
        this.runs.set(message.variant, timed(message));
        return this.signal.emit("runs");
      case "kernels":
        this.kernels.set(message.variant, message);
        return this.signal.emit("kernels");
      case "tuned":
        this.tuned = message;
        return this.signal.emit("tuned");
      case "controls":
        this.controls = message;
        return this.signal.emit("controls");
      case "flags":
        this.flags = message;
        return this.signal.emit("flags");
      case "said":
        return this.say(message.error);
      case "recording":
        return this.recorded.receiveRecording(timed(message));
      case "passes":
        return this.recorded.receivePasses(message);
      case "pass_change":
        return void this.recorded.receiveChange(message, buffers);
      case "code":
        return void this.recorded.receiveCode(message, buffers);
      case "code_text":
        return void this.recorded.receiveText(message, buffers);
      case "notice":
        this.notices.push(message);
        return this.signal.emit("notices");
    }
  }

  private async receiveDocument(message: messages.Document, buffers: DataView[]): Promise<void> {
    const arrival = this.arrive(message);
    const [text, lineOrigins, origins, lines] = await Promise.all(buffers.map(gunzip));
    if (!text || !lineOrigins || !origins || !lines) throw new Error("a document has four buffers");
    if (!this.isLatest(message, arrival)) return;
    const ids = this.origins.add(decodeJson<messages.OriginTable>(origins));
    const interned = decodeInt32(lineOrigins).map((origin) => ids[origin] ?? -1);
    const table = decodeJson<messages.LineTable>(lines);
    this.put(new TextDocument(message, decodeText(text), interned, table), arrival);
  }

  /** Numbers what is on its way to a slot: unpacking may finish in another order. */
  private arrive(message: messages.Document | messages.Unavailable): number {
    const arrival = ++this.arrivalCount;
    this.arrivals.set(`${message.pane}/${message.variant}`, arrival);
    return arrival;
  }

  private isLatest(slot: { pane: string; variant: number | null }, arrival: number): boolean {
    return this.arrivals.get(`${slot.pane}/${slot.variant}`) === arrival;
  }

  private put(slot: Slot, arrival: number): void {
    if (!this.isLatest(slot, arrival)) return;
    this.slots.set(`${slot.pane}/${slot.variant}`, slot);
    this.signal.emit("documents");
  }

  private remove(variant: number): void {
    this.variants.delete(variant);
    this.stats.delete(variant);
    this.runs.delete(variant);
    this.recorded.remove(variant);
    this.kernels.delete(variant);
    for (const map of [this.slots, this.arrivals]) deleteWhere(map, (key) => key.endsWith(`/${variant}`));
    deleteWhere(this.diffs, (key) => key.split("/").includes(String(variant)));
    deleteWhere(this.collectives, (key) => key.startsWith(`${variant}/`));
    this.signal.emit("documents");
    this.signal.emit("variants");
  }
}

/** Seconds since a message's work began, now; the final time once the work has ended. */
export function elapsedNow(message: Timed<{ state: messages.State; elapsed_s: number }>): number {
  const goesOn = message.state === "queued" || message.state === "running";
  return message.elapsed_s + (goesOn ? (performance.now() - message.receivedAt) / 1000 : 0);
}

/** The topics of whatever shows work that may be under way. */
const ENDED = [
  "variants",
  "runs",
  "recordings",
  "passChange",
  "codeText",
  "diffs",
  "collectives",
  "stats",
  "kernels",
] as const;

const GONE: messages.Error = { kind: "The kernel is gone.", message: "Run the cell again." };

/** Takes work that is under way as failed, at the time it has come to. */
export function endAll<K, T extends Timed<Pick<messages.Run, "state" | "elapsed_s" | "stage" | "error">>>(
  works: Map<K, T>,
): void {
  for (const [key, work] of works)
    if (work.state === "queued" || work.state === "running")
      works.set(key, { ...work, elapsed_s: elapsedNow(work), state: "failed", stage: "", error: GONE });
}

function timed<T extends object>(message: T): Timed<T> {
  return { ...message, receivedAt: performance.now() };
}

function deleteWhere(map: Map<string, unknown>, test: (key: string) => boolean): void {
  for (const key of [...map.keys()]) if (test(key)) map.delete(key);
}
