// A base class for panes with results that Python computes on demand. Each request is sent once, and its reply is shown
// when it arrives.

import { fill } from "../lib/dom.ts";
import type * as messages from "../messages.ts";
import type { Request, Timed } from "../state/synced.ts";
import { LinkedPane } from "./linked.ts";
import { awaited, failure, unfinished } from "./states.ts";

interface Replies {
  roofline: messages.RooflineMessage;
  instruction_table: messages.InstructionTable;
  profile_table: messages.ProfileTable;
}

export abstract class CountedPane<T extends keyof Replies> extends LinkedPane {
  protected shown: Replies[T] | null = null;
  /** The message type of the replies. */
  protected abstract readonly reply: T;
  /** The name of the result in messages, such as "roofline". */
  protected abstract readonly what: string;
  protected readonly doing: string = "Computing FLOPs and bytes";
  private id = -1;
  private asked = "";

  protected abstract wanted(variant: number): Request;
  protected abstract show(reply: Replies[T]): void;
  /** Returns what a compiled variant shows instead of a result, or null. */
  protected missing(_variant: Timed<messages.VariantMessage>): HTMLElement | null {
    return null;
  }

  protected draw(): void {
    const { synced, local } = this.context;
    const { variant } = local;
    this.tools.hidden = variant?.state !== "done";
    const reason = unfinished(variant, this.what) ?? (variant && this.missing(variant));
    if (reason || !variant) return this.say(reason!);
    const reply = this.ask(this.wanted(variant.variant));
    if (reply && reply === this.shown) return;
    const isOld = !reply && this.shown?.variant === variant.variant && !synced.isAlone;
    this.element.classList.toggle("insp-counting", isOld);
    if (isOld) return;
    if (!reply) return this.say(awaited(synced, this.doing, `Not received: ${this.what}`));
    const error: messages.Error | null = reply.error;
    if (error) return this.say(failure(error, `Failed to compute: ${this.what}`));
    this.shown = reply;
    this.show(reply);
    this.mark();
  }

  private ask(wanted: Request): Replies[T] | null {
    const key = JSON.stringify(wanted);
    if (key !== this.asked) {
      this.asked = key;
      this.id = this.context.synced.ask(wanted);
    }
    return this.context.synced.reply(this.reply, this.id) as Replies[T] | null;
  }

  private say(state: HTMLElement): void {
    this.shown = null;
    this.element.classList.remove("insp-counting");
    fill(this.element, state);
  }
}
