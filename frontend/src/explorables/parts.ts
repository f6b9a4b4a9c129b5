// Parts that explorables share: a title with a remark, a section with a heading, and a button that asks the notebook kernel.

import { textButton } from "../lib/controls.ts";
import { h } from "../lib/dom.ts";
import type * as messages from "../messages.ts";
import { failure, spinner } from "../panes/states.ts";
import type { Message, Request, Synced } from "../state/synced.ts";

export function titleOf(title: string, remark: string): HTMLElement {
  return h("div", { class: "insp-explorable-title" }, h("strong", {}, title), h("span", { class: "insp-dim" }, remark));
}

export function sectionOf(title: string, ...content: (HTMLElement | SVGElement | null | false)[]): HTMLElement {
  return h("section", { "aria-label": title }, h("h3", {}, title), ...content);
}

/** A recorded reply arrives within this time. */
const RECORDED_MS = 300;

type Replying = "player_run" | "mesh_run" | "judged";

/** A button that asks the notebook kernel, and what became of it: waiting, an error, or the reply. */
export class Asking<T extends Replying> {
  readonly button: HTMLButtonElement;
  readonly status = h("div", { role: "status", class: "insp-explorable-status" });
  private askedId = -1;
  private isWaiting = false;

  constructor(
    private readonly synced: Synced,
    private readonly type: T,
    text: string,
    title: string,
    private readonly request: () => Request,
    private readonly onReply: (reply: Message<T>) => void,
    private readonly onMissing: () => void = () => {},
  ) {
    this.button = textButton(text, title, () => this.ask());
  }

  ask(): void {
    this.isWaiting = true;
    this.status.replaceChildren(spinner(), " Running");
    this.askedId = this.synced.ask(this.request());
    if (this.synced.isAlone) setTimeout(() => this.isWaiting && this.miss(), RECORDED_MS);
  }

  /** Shows the reply, if it has arrived. */
  receive(): void {
    const reply = this.synced.reply(this.type, this.askedId);
    if (!reply || !this.isWaiting) return;
    this.isWaiting = false;
    const { error } = reply as { error: messages.Error | null };
    if (error) return this.status.replaceChildren(failure(error, "The run failed"));
    this.status.replaceChildren();
    this.onReply(reply);
  }

  /** There is no notebook kernel, and no recorded reply. */
  private miss(): void {
    this.isWaiting = false;
    this.status.textContent = `Not recorded. ${this.synced.remedy}`;
    this.onMissing();
  }
}
