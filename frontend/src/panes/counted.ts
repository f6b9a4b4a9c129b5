// A pane of what Python counts when somebody looks: what is wanted now is asked for once, and shown when it comes.

import { fill } from "../lib/dom.ts";
import type * as messages from "../messages.ts";
import type { Request } from "../state/synced.ts";
import { LinkedPane } from "./linked.ts";
import { awaited, failure, unfinished } from "./states.ts";

interface Replies {
  roofline: messages.Roofline;
  instruction_table: messages.InstructionTable;
}

export abstract class CountedPane<T extends keyof Replies> extends LinkedPane {
  protected shown: Replies[T] | null = null;
  /** The type of the replies. */
  protected abstract readonly reply: T;
  /** What is counted, in words. */
  protected abstract readonly what: string;
  private id = -1;
  private asked = "";

  protected abstract wanted(variant: number): Request;
  protected abstract show(reply: Replies[T]): void;

  protected draw(): void {
    const { synced, local } = this.context;
    const { variant } = local;
    this.tools.hidden = variant?.state !== "done";
    const reason = unfinished(variant, this.what);
    if (reason || !variant) return this.say(reason!);
    const reply = this.ask(this.wanted(variant.variant));
    if (reply && reply === this.shown) return;
    const isOld = !reply && this.shown?.variant === variant.variant && !synced.isAlone;
    this.element.classList.toggle("insp-counting", isOld);
    if (isOld) return;
    if (!reply) return this.say(awaited(synced, "Counting flops and bytes", `Not received: ${this.what}`));
    if (reply.error) return this.say(failure(reply.error, `Cannot be counted: ${this.what}`));
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
