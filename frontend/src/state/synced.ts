// The state received from Python, which all views of a widget share. It contains no state of the user.

import { readDocument, TextDocument } from "../lib/documents.ts";
import { whenIdle } from "../lib/gradual.ts";
import { Origins } from "../lib/origins.ts";
import { Signal } from "../lib/signal.ts";
import { gunzip, type Model } from "../lib/transport.ts";
import { weigh } from "../lib/weights.ts";
import type * as messages from "../messages.ts";
import { KEYS } from "../messages.ts";

/** A message with its time of arrival, in milliseconds of `performance.now`. */
export type Timed<T> = T & { receivedAt: number };

/** The origin of the variant that is the program before its cell ran again (`inspector/widgets/variants.py`). */
export const PREVIOUS = "previous version";

type Type = messages.ToBrowser["type"];
export type Message<T extends Type> = Timed<Extract<messages.ToBrowser, { type: T }>>;
/** The fields that distinguish messages of one type. */
type Where = Partial<Record<(typeof KEYS)[number], string | number | null>>;

/** The latest message of one kind. `message` is null while its first buffers are unpacked. */
interface Kept {
  readonly arrival: number;
  readonly where: Where;
  message: Timed<messages.ToBrowser> | null;
}

type Numbered = Extract<messages.FromBrowser, { id: number }>;
/** A request with a numbered reply, without the number. */
export type Request = Numbered extends infer R ? (R extends Numbered ? Omit<R, "id"> : never) : never;

type Slot = TextDocument | messages.UnavailableMessage;
type NotebookKernel = "waiting" | "live" | "gone" | "recorded";

export class Synced {
  readonly signal = new Signal<messages.Topic | "arrangement">();
  readonly origins = new Origins();
  session: messages.Session | null = null;
  notebookKernel: NotebookKernel;
  /** In order of arrival: the first is the baseline. */
  readonly variants = new Map<number, Timed<messages.VariantMessage>>();
  /** Variants that existed before this page connected. */
  readonly earlier = new Set<number>();
  /** The error of the last request from the controls. */
  said: messages.Error | null = null;
  readonly notices: messages.Notice[] = [];
  /** The place that Python wants to show; null once the app has gone there. */
  focused: messages.Focus | null = null;
  /** The existing variant that was requested again, until another one becomes active. */
  existing: number | null = null;
  private readonly kept = new Map<string, Kept>();
  private readonly unpacked = new WeakMap<object, readonly ArrayBuffer[]>();
  /** The contents of text panes, by the key of their message. */
  private readonly slots = new Map<string, Slot>();
  private readonly browser = crypto.getRandomValues(new Uint32Array(2)).join("-");
  private arrivalCount = 0;
  // A random start, so that two browsers on one kernel do not take each other's replies.
  private requestId = Math.floor(Math.random() * 2 ** 30);

  constructor(private readonly model: Model) {
    this.notebookKernel = model.recorded === undefined ? "waiting" : "recorded";
    // ipywidgets emits this event when the comm closes, because the kernel restarted or ended.
    model.on("comm_live_update", () => this.setNotebookKernel("gone"));
    model.on("change:arrangement", () => this.signal.emit("arrangement"));
    model.on("msg:custom", (content: unknown, buffers: DataView[]) => this.receive(content, buffers ?? []));
  }

  /** Requests all existing messages. */
  start(): void {
    this.send({ type: "ready", browser: this.browser });
    if (this.isRecorded) this.endWork();
  }

  /** Whether this is a recording without a notebook kernel. */
  get isRecorded(): boolean {
    return this.notebookKernel === "recorded";
  }

  /** Whether there is no notebook kernel to reply to new requests. */
  get isAlone(): boolean {
    return this.isRecorded || this.notebookKernel === "gone";
  }

  /** The date and version of the recording; "" with a notebook kernel. */
  get about(): string {
    return this.model.recorded?.about ?? "";
  }

  /** The number of the exploration on a saved page; null in a notebook. */
  get pageNumber(): number | null {
    return this.model.recorded?.number ?? null;
  }

  /** The advice on how to get missing data; "" with a notebook kernel. */
  get remedy(): string {
    if (this.isRecorded) return this.model.recorded!.remedy;
    return this.notebookKernel === "gone" ? "The notebook kernel is gone. Run the cell again." : "";
  }

  /** The layout of the panes in the notebook; null if it was never changed. */
  readonly arrangement = {
    get: (): Record<string, unknown> | null => {
      const value = this.model.get("arrangement");
      return isObject(value) && Object.keys(value).length ? value : null;
    },
    set: (value: object): void => {
      this.model.set("arrangement", value);
      this.model.save_changes();
    },
  };

  send(message: messages.FromBrowser): void {
    try {
      this.model.send(message);
    } catch {
      this.setNotebookKernel("gone");
    }
  }

  /** Sends a request and returns its number, for `reply`. */
  ask(request: Request): number {
    const id = ++this.requestId;
    this.send({ ...request, id } as Numbered);
    return id;
  }

  setNotebookKernel(state: NotebookKernel): void {
    if (this.notebookKernel === state) return;
    this.notebookKernel = state;
    if (state === "gone") this.endWork();
    this.signal.emit("notebook_kernel");
  }

  /** Marks all running work as failed, because nothing will finish it. */
  private endWork(): void {
    const changed = new Set<messages.Topic>();
    for (const [number, variant] of this.variants) {
      if (goesOn(variant)) this.variants.set(number, this.ended(variant));
      changed.add("variant");
    }
    for (const kept of this.kept.values()) {
      const { message } = kept;
      if (!message || !("state" in message) || !goesOn(message)) continue;
      kept.message = this.ended(message);
      changed.add(message.type);
    }
    for (const topic of changed) this.signal.emit(topic);
  }

  /** Returns running work as failed, with the time elapsed so far. */
  private ended<T extends Work>(work: T): T {
    const error: messages.Error = this.isRecorded
      ? { kind: "Not finished when the recording was made.", message: this.remedy }
      : { kind: "The notebook kernel is gone.", message: "Run the cell again." };
    return { ...work, elapsed_s: elapsedNow(work), state: "failed", stage: "", error };
  }

  /** Returns the latest message of a type. For types with several kinds, `where` names the kind. */
  latest<T extends Type>(type: T, where: Where = {}): Message<T> | null {
    return (this.kept.get(keyOf(type, where))?.message as Message<T> | null | undefined) ?? null;
  }

  /** Returns whether a message of a type has arrived. */
  has(type: Type): boolean {
    return [...this.kept.values()].some(({ message }) => message?.type === type);
  }

  /** Returns the latest reply of a type if it answers request number `id`. */
  reply<T extends Type>(type: T, id: number): Message<T> | null {
    const message = this.kept.get(type)?.message;
    return message && "id" in message && message.id === id ? (message as Message<T>) : null;
  }

  /** Returns the unpacked buffers of a message. */
  parts(message: object): readonly ArrayBuffer[] {
    return this.unpacked.get(message) ?? [];
  }

  /** Returns the content of a text pane for a variant: its own document, or else the shared one. */
  slot(pane: messages.TextPane, variant: number | null): Slot | null {
    const slot = (of: number | null): Slot | undefined => this.slots.get(keyOf("document", { pane, variant: of }));
    return slot(variant) ?? slot(null) ?? null;
  }

  document(pane: messages.TextPane, variant: number | null): TextDocument | null {
    const slot = this.slot(pane, variant);
    return slot instanceof TextDocument ? slot : null;
  }

  get baseline(): number | null {
    return this.variants.keys().next().value ?? null;
  }

  /** The variants in display order: the baseline, pinned variants, the others. */
  get ordered(): number[] {
    const rank = (number: number): number => (number === this.baseline ? 0 : this.variants.get(number)!.pinned ? 1 : 2);
    return [...this.variants.keys()].sort((a, b) => rank(a) - rank(b));
  }

  /**
   * Returns the default reference of a variant: the first one for its target if their difference is known, else the baseline.
   * That of the baseline is the previous version of the program, which has none itself.
   */
  defaultReferenceOf(variant: number): number | null {
    const { target, origin } = this.variants.get(variant) ?? {};
    if (origin === PREVIOUS) return variant;
    if (variant === this.baseline) {
      const previous = [...this.variants.values()].find((other) => other.origin === PREVIOUS)?.variant;
      const isKnown = previous !== undefined && this.latest("diff", { baseline: previous, variant });
      return isKnown ? previous : variant;
    }
    const isReference = (other: messages.VariantMessage): boolean =>
      other.target === target && this.latest("diff", { baseline: other.variant, variant }) !== null;
    return [...this.variants.values()].find(isReference)?.variant ?? this.baseline;
  }

  dismiss(notice: messages.Notice): void {
    this.notices.splice(this.notices.indexOf(notice), 1);
    this.signal.emit("notice");
  }

  /** Shows an error that belongs to no pane. */
  notify(message: string): void {
    this.notices.push({ type: "notice", level: "error", message });
    this.signal.emit("notice");
  }

  /** Deletes the latest message of a type, which is not needed again. */
  forget(type: Type): void {
    this.kept.delete(type);
  }

  say(error: messages.Error | null): void {
    this.said = error;
    this.signal.emit("said");
  }

  private receive(content: unknown, buffers: DataView[]): void {
    const message = content as messages.ToBrowser & { to?: string };
    if (message.to !== undefined && message.to !== this.browser) return;
    if (!this.isRecorded) this.setNotebookKernel("live");
    switch (message.type) {
      case "session":
        this.session = message;
        return this.signal.emit("session");
      case "document":
      case "unavailable":
        return void this.keepText(message, buffers);
      case "variant":
        if (message.to !== undefined && !this.variants.has(message.variant)) this.earlier.add(message.variant);
        this.variants.set(message.variant, timed(message));
        return this.signal.emit("variant");
      case "variant_removed":
        return this.remove(message.variant);
      case "said":
        return this.say(message.error);
      case "focus":
        this.focused = message;
        return this.signal.emit("focus");
      case "existing":
        this.existing = message.variant;
        return this.signal.emit("existing");
      case "notice":
        this.notices.push(message);
        return this.signal.emit("notice");
      default:
        return void this.keep(message, buffers);
    }
  }

  /** Stores a message of a pane, replacing the one of its kind. */
  private async keep(message: messages.ToBrowser, buffers: DataView[]): Promise<void> {
    const key = "id" in message ? message.type : keyOf(message.type, message as Where);
    const { arrival } = this.arrive(key, message as Where);
    const received = timed(message);
    if (buffers.length) this.unpacked.set(received, await Promise.all(buffers.map(gunzip)));
    const kept = this.kept.get(key);
    if (kept?.arrival !== arrival) return;
    kept.message = received;
    this.signal.emit(message.type);
  }

  private async keepText(message: messages.Document | messages.UnavailableMessage, buffers: DataView[]): Promise<void> {
    const key = keyOf("document", message);
    const { arrival } = this.arrive(key, message);
    const parts = message.type === "document" ? await Promise.all(buffers.map(gunzip)) : [];
    if (this.kept.get(key)?.arrival !== arrival) return;
    const slot = message.type === "document" ? readDocument(message, parts, this.origins) : message;
    this.slots.set(key, slot);
    this.signal.emit("document");
    if (slot instanceof TextDocument) whenIdle(prepare(slot));
  }

  /** Numbers messages in order of arrival, because unpacking may finish in another order. */
  private arrive(key: string, where: Where): Kept {
    const kept = { arrival: ++this.arrivalCount, where, message: this.kept.get(key)?.message ?? null };
    this.kept.set(key, kept);
    return kept;
  }

  private remove(variant: number): void {
    this.variants.delete(variant);
    for (const [key, { where }] of this.kept) {
      if (where.variant !== variant && where.baseline !== variant) continue;
      this.kept.delete(key);
      this.slots.delete(key);
    }
    this.signal.emit("document");
    this.signal.emit("variant");
  }
}

/** Builds the indices that a click needs in advance. */
function* prepare(document: TextDocument): Generator<void> {
  yield* document.prepare();
  yield* weigh(document);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

function keyOf(type: Type, where: Where): string {
  return [type, ...KEYS.map((name) => where[name] ?? "")].join("/");
}

/** Returns the seconds since a message's work began, or its final duration. */
export function elapsedNow(message: Timed<{ state: messages.State; elapsed_s: number }>): number {
  return message.elapsed_s + (goesOn(message) ? (performance.now() - message.receivedAt) / 1000 : 0);
}

type Work = Timed<Pick<messages.RunMessage, "state" | "elapsed_s" | "stage" | "error">>;

/** Returns whether work is queued or running. */
export function goesOn({ state }: { state: messages.State }): boolean {
  return state === "queued" || state === "running";
}

function timed<T extends object>(message: T): Timed<T> {
  return { ...message, receivedAt: performance.now() };
}
