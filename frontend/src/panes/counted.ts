// A pane of what Python counts when somebody looks: what is wanted now is asked for once, and shown when it comes.

import { fill } from "../lib/dom.ts";
import type * as messages from "../messages.ts";
import { LinkedPane } from "./linked.ts";
import { awaited, failure, unfinished } from "./states.ts";

interface Counted {
  roofline: { request: messages.RooflineRequest; reply: messages.Roofline };
  instruction_table: { request: messages.InstructionsRequest; reply: messages.InstructionTable };
}

export type Wanted<T extends keyof Counted> = Omit<Counted[T]["request"], "id">;

export abstract class CountedPane<T extends keyof Counted> extends LinkedPane {
  protected shown: Counted[T]["reply"] | null = null;
  /** The type of the replies. */
  protected abstract readonly reply: T;
  /** What is counted, in words. */
  protected abstract readonly what: string;
  // Random start: two browsers on one kernel must not take each other's replies.
  private id = Math.floor(Math.random() * 2 ** 30);
  private asked = "";

  protected abstract wanted(variant: number): Wanted<T>;
  protected abstract show(reply: Counted[T]["reply"]): void;

  protected draw(): void {
    const { synced, local } = this.context;
    const variant = synced.variants.get(local.active ?? -1) ?? null;
    this.tools.hidden = variant?.state !== "done";
    const reason = unfinished(variant, this.what);
    if (reason || !variant) return this.say(reason!);
    const reply = this.ask(this.wanted(variant.variant));
    if (reply && reply === this.shown) return;
    const isOld = !reply && this.shown?.variant === variant.variant && synced.notebookKernel !== "gone";
    this.element.classList.toggle("insp-counting", isOld);
    if (isOld) return;
    if (!reply) return this.say(awaited(synced, "Counting flops and bytes", `Not received: ${this.what}`));
    if (reply.error) return this.say(failure(reply.error, `Cannot be counted: ${this.what}`));
    this.shown = reply;
    this.show(reply);
    this.mark();
  }

  private ask(wanted: Wanted<T>): Counted[T]["reply"] | null {
    const key = JSON.stringify(wanted);
    if (key !== this.asked) {
      this.asked = key;
      this.context.synced.send({ ...wanted, id: ++this.id } as Counted[T]["request"]);
    }
    return this.context.synced.reply(this.reply, this.id) as Counted[T]["reply"] | null;
  }

  private say(state: HTMLElement): void {
    this.shown = null;
    this.element.classList.remove("insp-counting");
    fill(this.element, state);
  }
}
