// What must be said above all panes: notices of Python, and a kernel that is gone or silent.

import { toolButton } from "../lib/controls.ts";
import { fill, h } from "../lib/dom.ts";
import type { Context } from "../panes/pane.ts";

const SILENCE_MS = 10_000;
/** A question may be lost, as while the kernel makes the widget; later ones are rarer, as each is answered. */
const FIRST_WAIT_MS = 1500;

export class Notices {
  readonly element = h("div", { class: "insp-notices" });
  private isSilent = false;
  private timer: ReturnType<typeof setTimeout> | null = null;
  private readonly end: () => void;

  constructor(private readonly context: Context) {
    this.end = context.synced.signal.on(["notice", "notebook_kernel"], () => this.draw());
    this.wait(FIRST_WAIT_MS, FIRST_WAIT_MS);
    this.draw();
  }

  destroy(): void {
    if (this.timer !== null) clearTimeout(this.timer);
    this.end();
  }

  /** Asks a kernel that has not answered again, after `pause`; `total` is how long it will have been silent then. */
  private wait(pause: number, total: number): void {
    this.timer = setTimeout(() => {
      if (this.context.synced.notebookKernel !== "waiting") return;
      this.isSilent = total >= SILENCE_MS;
      this.context.synced.start();
      this.draw();
      this.wait(2 * pause, total + 2 * pause);
    }, pause);
  }

  private draw(): void {
    const { synced } = this.context;
    const bars = synced.notices.map((notice) =>
      h(
        "div",
        { class: `insp-notice insp-notice-${notice.level}`, role: "alert" },
        h("pre", {}, notice.message),
        toolButton("close", "Dismiss", () => synced.dismiss(notice)),
      ),
    );
    if (synced.notebookKernel === "gone")
      bars.unshift(
        bar("The kernel is gone. What is shown stays; to compile, run or draw again, run the cell once more."),
      );
    else if (synced.notebookKernel === "waiting" && this.isSilent)
      bars.unshift(bar("The kernel does not answer. It may be busy or gone: wait for it, or run the cell again."));
    fill(this.element, ...bars);
  }
}

function bar(text: string): HTMLDivElement {
  return h("div", { class: "insp-notice insp-notice-error", role: "alert" }, h("span", {}, text));
}
