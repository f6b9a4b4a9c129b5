// A form that asks for a new variant: the variant comes to the front, or what is wrong with it is said there.

import { h } from "../lib/dom.ts";
import type { Request } from "../state/synced.ts";
import type { Context } from "./pane.ts";

export class NewVariant {
  /** What is wrong. */
  readonly said = h("div", { class: "insp-refused", role: "alert" });
  private requestId = -1;

  /**
   * @param form is dimmed while its request is under way.
   * @param reply the type of the replies.
   */
  constructor(
    private readonly context: Context,
    private readonly form: HTMLElement,
    private readonly reply: "supposed" | "tuned",
  ) {}

  say(what: string): void {
    this.said.textContent = what;
  }

  ask(request: Request): void {
    this.say("");
    this.form.classList.add("insp-busy");
    this.requestId = this.context.synced.ask(request);
  }

  /** Takes what came of the last request. */
  receive(): void {
    const reply = this.context.synced.reply(this.reply, this.requestId);
    if (!reply) return;
    this.form.classList.remove("insp-busy");
    this.say(reply.error?.message ?? "");
    if (reply.variant !== null) this.context.local.setActive(reply.variant);
  }
}
