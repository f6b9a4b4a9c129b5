// Saving the Explorer as one HTML file, which Python creates and the browser downloads.

import { toolButton } from "../lib/controls.ts";
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

  ask(): void {
    this.button.classList.add("insp-busy");
    this.askedId = this.context.synced.ask({ type: "page" });
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
