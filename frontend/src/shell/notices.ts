// Notices above all panes: messages from Python, and a notebook kernel that is gone or does not respond.

import { toolButton } from "../lib/controls.ts";
import { fill, h } from "../lib/dom.ts";
import type { Context } from "../panes/pane.ts";

const SILENCE_MS = 10_000;
/** Pause before the first repeated request. A request may be lost while the kernel creates the widget. */
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

  /**
   * Repeats the request to a notebook kernel that has not responded.
   *
   * @param pause milliseconds until then.
   * @param total milliseconds since the first request, at that time.
   */
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
        bar("The notebook kernel is gone. The results stay visible. To compile or run again, run the cell again."),
      );
    else if (synced.notebookKernel === "waiting" && this.isSilent)
      bars.unshift(bar("The notebook kernel does not respond. It may be busy or gone. Wait, or run the cell again."));
    fill(this.element, ...bars);
  }
}

function bar(text: string): HTMLDivElement {
  return h("div", { class: "insp-notice insp-notice-error", role: "alert" }, h("span", {}, text));
}
