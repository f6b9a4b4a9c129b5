// The request of a form for a new variant. The variant becomes the active one, or the form shows the error.

import { h } from "../lib/dom.ts";
import type { Request } from "../state/synced.ts";
import type { Context } from "./pane.ts";

export class NewVariant {
  /** The error message. */
  readonly said = h("div", { class: "insp-refused", role: "alert" });
  private requestId = -1;

  /**
   * @param form the form, which is dimmed during a request.
   * @param reply the message type of the replies.
   */
  constructor(
    private readonly context: Context,
    private readonly form: HTMLElement,
    private readonly reply: "supposed" | "tuned",
  ) {}

  say(text: string): void {
    this.said.textContent = text;
  }

  ask(request: Request): void {
    this.say("");
    this.form.classList.add("insp-busy");
    this.requestId = this.context.synced.ask(request);
  }

  /** Handles the reply to the last request. */
  receive(): void {
    const reply = this.context.synced.reply(this.reply, this.requestId);
    if (!reply) return;
    this.form.classList.remove("insp-busy");
    this.say(reply.error?.message ?? "");
    if (reply.variant !== null) this.context.local.setActive(reply.variant);
  }
}
