// A cache of replies to requests that may repeat, for example while stepping back and forth.

import type * as messages from "../messages.ts";
import type { Message, Request, Synced } from "../state/synced.ts";

const MOST_KEPT = 16;

type Numbered = Extract<messages.ToBrowser, { id: number; error: messages.Error | null }>["type"];

export class Replies<T extends Numbered> {
  private readonly known = new Map<string, Message<T>>();
  private asked = { id: -1, key: "" };

  constructor(
    private readonly synced: Synced,
    private readonly type: T,
  ) {}

  /** Returns the reply, or null until it arrives. Only the reply to the last request is awaited. */
  of(request: Request): Message<T> | null {
    const key = JSON.stringify(request);
    const known = this.known.get(key);
    if (known) return known;
    if (this.asked.key !== key) this.asked = { id: this.synced.ask(request), key };
    const reply = this.synced.reply(this.type, this.asked.id);
    if (!reply) return null;
    if (this.known.size >= MOST_KEPT) this.known.delete(this.known.keys().next().value!);
    if (!("error" in reply && reply.error)) this.known.set(key, reply);
    return reply;
  }

  clear(): void {
    this.known.clear();
  }
}
