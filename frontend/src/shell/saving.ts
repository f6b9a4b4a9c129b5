// Saving the Explorer as one HTML file, which Python creates and the browser downloads.

import { toolButton } from "../lib/controls.ts";
import { h } from "../lib/dom.ts";
import { decodeText } from "../lib/transport.ts";
import { save } from "../lib/download.ts";
import type { Context } from "../panes/pane.ts";

export class Saving {
  readonly button = toolButton("save", "Save as HTML file, which opens without a notebook", () => this.ask());
  private askedId = -1;
  private readonly end: () => void;

  constructor(private readonly context: Context) {
    const { signal } = context.synced;
    const ends = [signal.on(["page"], () => this.receive()), signal.on(["notebook_kernel"], () => this.draw())];
    this.end = () => ends.forEach((end) => end());
    this.draw();
  }

  destroy(): void {
    this.end();
  }

  ask(note = ""): void {
    this.button.classList.add("insp-busy");
    this.askedId = this.context.synced.ask({ type: "page", note });
  }

  /** Asks for a note to readers of the page, and saves it. */
  askForNote(root: HTMLElement): void {
    root.querySelector(".insp-help")?.remove();
    const before = document.activeElement;
    const close = (): void => {
      element.remove();
      if (before instanceof HTMLElement && root.contains(before)) before.focus({ preventScroll: true });
    };
    const save = (): void => {
      close();
      this.ask(text.value.trim());
    };
    const text = h("textarea", { rows: 3, "aria-label": "Note for readers of the page" });
    const button = (name: string, main: string, onclick: () => void): HTMLElement =>
      h("button", { type: "button", class: `insp-button ${main}`, onclick }, name);
    const element = h(
      "div",
      { class: "insp-help insp-note-form", role: "dialog", "aria-label": "Save as HTML file with a note" },
      h("b", {}, "Note for readers of the page"),
      text,
      h("div", {}, button("Save", "insp-button-main", save), button("Cancel", "", close)),
    );
    element.addEventListener("keydown", (e) => {
      if (e.key !== "Escape") return;
      e.stopPropagation();
      close();
    });
    root.append(element);
    text.focus({ preventScroll: true });
  }

  private draw(): void {
    this.button.hidden = this.context.synced.isAlone;
  }

  private receive(): void {
    const { synced } = this.context;
    const reply = synced.reply("page", this.askedId);
    if (!reply) return;
    this.askedId = -1;
    this.button.classList.remove("insp-busy");
    const [page] = synced.parts(reply);
    if (reply.error) synced.notify(reply.error.message);
    else if (page)
      save(`${synced.session?.name ?? "explorer"}.html`, new Blob([decodeText(page)], { type: "text/html" }));
    synced.forget("page");
  }
}
