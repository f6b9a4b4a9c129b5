// What Python said, one copy a page: all views of a widget read it. Nothing here is the user's.

import { readDocument, TextDocument } from "../lib/documents.ts";
import { whenIdle } from "../lib/gradual.ts";
import { Origins } from "../lib/origins.ts";
import { Signal } from "../lib/signal.ts";
import { gunzip, type Model } from "../lib/transport.ts";
import { weigh } from "../lib/weights.ts";
import type * as messages from "../messages.ts";
import { KEYS } from "../messages.ts";

/** A message with the moment it came, in milliseconds of `performance.now`. */
export type Timed<T> = T & { receivedAt: number };

type Type = messages.ToBrowser["type"];
export type Message<T extends Type> = Timed<Extract<messages.ToBrowser, { type: T }>>;
/** The fields that tell messages of one type apart. */
type Where = Partial<Record<(typeof KEYS)[number], string | number | null>>;

/** The latest message of one kind; null while its first buffers are unpacked. */
interface Kept {
  readonly arrival: number;
  readonly where: Where;
  message: Timed<messages.ToBrowser> | null;
}

type Numbered = Extract<messages.FromBrowser, { id: number }>;
/** A request to which a message replies, without its number. */
export type Request = Numbered extends infer R ? (R extends Numbered ? Omit<R, "id"> : never) : never;

export type Slot = TextDocument | messages.Unavailable;
export type NotebookKernel = "waiting" | "live" | "gone" | "recorded";

export class Synced {
  readonly signal = new Signal<messages.Topic | "arrangement">();
  readonly origins = new Origins();
  session: messages.Session | null = null;
  notebookKernel: NotebookKernel;
  /** In order of arrival: the first is the baseline. */
  readonly variants = new Map<number, Timed<messages.Variant>>();
  /** Those that were there before this page asked. */
  readonly earlier = new Set<number>();
  /** What is wrong with what was asked for with the controls. */
  said: messages.Error | null = null;
  readonly notices: messages.Notice[] = [];
  /** Where Python wants the reader to look; null where it was followed. */
  focused: messages.Focus | null = null;
  /** The variant that was asked for again, until another becomes the active one. */
  existing: number | null = null;
  private readonly kept = new Map<string, Kept>();
  private readonly unpacked = new WeakMap<object, readonly ArrayBuffer[]>();
  /** What text panes show, by the key of their message. */
  private readonly slots = new Map<string, Slot>();
  private readonly browser = crypto.getRandomValues(new Uint32Array(2)).join("-");
  private arrivalCount = 0;
  // Random start: two browsers on one kernel must not take each other's replies.
  private requestId = Math.floor(Math.random() * 2 ** 30);

  constructor(private readonly model: Model) {
    this.notebookKernel = model.recorded === undefined ? "waiting" : "recorded";
    // ipywidgets tells a model when its comm closed: the kernel restarted or ended.
    model.on("comm_live_update", () => this.setNotebookKernel("gone"));
    model.on("change:arrangement", () => this.signal.emit("arrangement"));
    model.on("msg:custom", (content: unknown, buffers: DataView[]) => this.receive(content, buffers ?? []));
  }

  /** Asks for everything that is known. */
  start(): void {
    this.send({ type: "ready", browser: this.browser });
    if (this.isRecorded) this.endWork();
  }

  /** Whether this is what was recorded, and no notebook kernel's. */
  get isRecorded(): boolean {
    return this.notebookKernel === "recorded";
  }

  /** Whether nothing answers that was not recorded. */
  get isAlone(): boolean {
    return this.isRecorded || this.notebookKernel === "gone";
  }

  /** When and by what it was recorded; "" for a notebook kernel's. */
  get about(): string {
    return this.model.recorded?.about ?? "";
  }

  /** What to do about what is not there; "" while a notebook kernel may bring it. */
  get remedy(): string {
    if (this.isRecorded) return this.model.recorded!.remedy;
    return this.notebookKernel === "gone" ? "The kernel is gone. Run the cell again." : "";
  }

  /** How the panes are arranged, as the notebook keeps it; null where nothing was arranged. */
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

  /** Sends a request; gives its number, for `reply`. */
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

  /** What was under way will not end any more. */
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

  /** Work under way taken as failed, at the time it has come to. */
  private ended<T extends Work>(work: T): T {
    const error: messages.Error = this.isRecorded
      ? { kind: "This was not done when it was recorded.", message: this.remedy }
      : { kind: "The kernel is gone.", message: "Run the cell again." };
    return { ...work, elapsed_s: elapsedNow(work), state: "failed", stage: "", error };
  }

  /** The latest message of a type, of those with several kinds the one that `where` names. */
  latest<T extends Type>(type: T, where: Where = {}): Message<T> | null {
    return (this.kept.get(keyOf(type, where))?.message as Message<T> | null | undefined) ?? null;
  }

  /** Whether a message of a type has come. */
  has(type: Type): boolean {
    return [...this.kept.values()].some(({ message }) => message?.type === type);
  }

  /** The latest reply of a type, where it answers request number `id`. */
  reply<T extends Type>(type: T, id: number): Message<T> | null {
    const message = this.kept.get(type)?.message;
    return message && "id" in message && message.id === id ? (message as Message<T>) : null;
  }

  /** The buffers that came with a message, unpacked. */
  parts(message: object): readonly ArrayBuffer[] {
    return this.unpacked.get(message) ?? [];
  }

  /** What a text pane shows for a variant: its own document, else the one that all share. */
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

  /** The variants as they are shown: the baseline, those that are pinned, the others. */
  get ordered(): number[] {
    const rank = (number: number): number => (number === this.baseline ? 0 : this.variants.get(number)!.pinned ? 1 : 2);
    return [...this.variants.keys()].sort((a, b) => rank(a) - rank(b));
  }

  /** What a variant is compared with: the first one for its own target, once it is known, else the baseline. */
  referenceOf(variant: number): number | null {
    const { target } = this.variants.get(variant) ?? {};
    const isReference = (other: messages.Variant): boolean =>
      other.target === target && this.latest("diff", { baseline: other.variant, variant }) !== null;
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
    this.signal.emit("notice");
  }

  /** Says something that belongs to no pane. */
  notify(message: string): void {
    this.notices.push({ type: "notice", level: "error", message });
    this.signal.emit("notice");
  }

  /** Lets go of the latest message of a type, which nobody needs again. */
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

  /** Keeps a message of a pane, in place of the one before it of its kind. */
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

  private async keepText(message: messages.Document | messages.Unavailable, buffers: DataView[]): Promise<void> {
    const key = keyOf("document", message);
    const { arrival } = this.arrive(key, message);
    const parts = message.type === "document" ? await Promise.all(buffers.map(gunzip)) : [];
    if (this.kept.get(key)?.arrival !== arrival) return;
    const slot = message.type === "document" ? readDocument(message, parts, this.origins) : message;
    this.slots.set(key, slot);
    this.signal.emit("document");
    if (slot instanceof TextDocument) whenIdle(prepare(slot));
  }

  /** Numbers what is on its way: unpacking may finish in another order. */
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

/** What a click looks up, made before there is one. */
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

/** Seconds since a message's work began, now; the final time once the work has ended. */
export function elapsedNow(message: Timed<{ state: messages.State; elapsed_s: number }>): number {
  return message.elapsed_s + (goesOn(message) ? (performance.now() - message.receivedAt) / 1000 : 0);
}

type Work = Timed<Pick<messages.Run, "state" | "elapsed_s" | "stage" | "error">>;

/** Whether work is under way. */
export function goesOn({ state }: { state: messages.State }): boolean {
  return state === "queued" || state === "running";
}

function timed<T extends object>(message: T): Timed<T> {
  return { ...message, receivedAt: performance.now() };
}
