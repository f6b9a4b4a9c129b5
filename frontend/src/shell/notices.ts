// What must be said above all panes: notices of Python, and a kernel that is gone or silent.

import { toolButton } from "../lib/controls.ts";
import { fill, h } from "../lib/dom.ts";
import type { Context } from "../panes/pane.ts";

const SILENCE_MS = 10_000;

export class Notices {
  readonly element = h("div", { class: "insp-notices" });
  private isSilent = false;
  private readonly timer: ReturnType<typeof setTimeout>;
  private readonly end: () => void;

  constructor(private readonly context: Context) {
    this.end = context.synced.signal.on(["notices", "kernel"], () => this.draw());
    this.timer = setTimeout(() => {
      this.isSilent = true;
      this.draw();
    }, SILENCE_MS);
    this.draw();
  }

  destroy(): void {
    clearTimeout(this.timer);
    this.end();
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
    if (synced.kernel === "gone")
      bars.unshift(
        bar("The kernel is gone. What is shown stays; to compile, run or draw again, run the cell once more."),
      );
    else if (synced.kernel === "waiting" && this.isSilent)
      bars.unshift(bar("The kernel does not answer. It may be busy or gone: wait for it, or run the cell again."));
    fill(this.element, ...bars);
  }
}

function bar(text: string): HTMLDivElement {
  return h("div", { class: "insp-notice insp-notice-error", role: "alert" }, h("span", {}, text));
}
