// Pallas kernels: grid and blocks, fast memory and its limit, compiler parameters, and explained compiler errors.

import { toolButton } from "../lib/controls.ts";
import { fill, h } from "../lib/dom.ts";
import { shortSource, grouped } from "../lib/format.ts";
import { programIds } from "../lib/grid.ts";
import type * as messages from "../messages.ts";
import { BlockDrawing } from "./blocks.ts";
import { memoryBudget, troubleBox } from "./kernelmemory.ts";
import { ParamsForm } from "./kernelparams.ts";
import { type Context, Drawing, follow, type Pane } from "./pane.ts";
import { awaited, empty, failure } from "./states.ts";

// Fast enough to watch the whole grid, slow enough to see each step.
const FRAME_MS = 160;
const LONGEST_PLAY_MS = 20_000;

class PallasPane implements Pane {
  readonly element = h("div", { class: "insp-pallas insp-scroll", tabindex: 0, "aria-label": "Pallas" });
  readonly tools = h("div", { class: "insp-tools" });
  private readonly drawing = new Drawing(() => this.draw());
  private readonly choice = h("select", { "aria-label": "Kernel", onchange: () => this.choose() });
  private readonly slider = h("input", {
    type: "range",
    min: 0,
    value: 0,
    "aria-label": "Grid step",
    oninput: () => this.seek(),
  });
  private readonly play = toolButton("play", "Play the grid", () => this.toggle());
  private readonly where = h("span", { class: "insp-dim insp-pallas-step" });
  private readonly form: ParamsForm;
  private readonly ends: (() => void)[];
  private blocks: BlockDrawing[] = [];
  private shown: messages.Kernels | null = null;
  private kernel = 0;
  private step = 0;
  private timer: ReturnType<typeof setInterval> | null = null;

  constructor(private readonly context: Context) {
    const { synced, local } = context;
    this.form = new ParamsForm(context);
    this.tools.append(this.choice, this.play, this.slider, this.where);
    this.ends = [
      follow(context, "pallas", this.drawing),
      synced.signal.on(["tuned"], () => this.form.receive()),
      local.signal.on(["active"], this.drawing.request),
    ];
  }

  setVisible(visible: boolean): void {
    if (!visible) this.pause();
    this.drawing.setVisible(visible);
  }

  destroy(): void {
    this.pause();
    this.ends.forEach((end) => end());
  }

  private draw(): void {
    const { synced, local } = this.context;
    const kernels = synced.latest("kernels", { variant: local.active });
    if (kernels && kernels === this.shown) return;
    this.shown = kernels;
    this.pause();
    const rows = kernels?.rows ?? [];
    this.kernel = kernels?.trouble?.kernel ?? this.kernel;
    this.tools.hidden = !rows.length;
    if (!kernels || !rows.length) return fill(this.element, this.absence(local.variant));
    this.drawKernels(kernels);
  }

  private drawKernels(kernels: messages.Kernels): void {
    const { rows } = kernels;
    this.kernel = Math.min(this.kernel, rows.length - 1);
    this.choice.hidden = rows.length < 2;
    const options = rows.map((row, i) =>
      h("option", { value: i, selected: i === this.kernel }, `${row.name} (${row.number})`),
    );
    fill(this.choice, ...options);
    const error = this.context.synced.variants.get(kernels.variant)?.error ?? null;
    this.drawKernel(rows[this.kernel]!, kernels, error);
  }

  private absence(variant: messages.VariantMessage | null): HTMLElement {
    if (variant?.state === "failed")
      return failure(variant.error, "No kernels: this variant failed before it was lowered");
    if (variant && !this.context.synced.has("kernels"))
      return awaited(this.context.synced, "Reading kernels", "Pallas kernels not received");
    return empty("No Pallas kernels", "The program of this variant does not call any.");
  }

  private drawKernel(row: messages.KernelMessage, kernels: messages.Kernels, error: messages.Error | null): void {
    this.blocks = row.operands.map((operand) => new BlockDrawing(operand));
    const remarks = row.operands.flatMap((o) => o.remarks);
    this.slider.max = String(Math.max(0, row.steps_shown - 1));
    this.slider.disabled = this.play.disabled = row.steps_shown < 2;
    this.form.show(row, kernels.variant);
    fill(
      this.element,
      kernels.trouble && troubleBox(kernels.trouble, error),
      heading(row),
      remarks.length > 0 && h("ul", { class: "insp-remarks" }, ...remarks.map((r) => h("li", {}, r))),
      h("div", { class: "insp-blocks-row" }, ...this.blocks.map((b) => b.element)),
      legend(row),
      h("div", { class: "insp-pallas-columns" }, memoryBudget(row), this.form.element),
    );
    this.show(Math.min(this.step, Math.max(0, row.steps_shown - 1)));
  }

  private show(step: number): void {
    const row = this.shown?.rows[this.kernel];
    if (!row) return;
    this.step = step;
    this.slider.value = String(step);
    this.blocks.forEach((b) => b.show(step));
    const total = row.step_count === null ? "?" : grouped(row.step_count);
    const ids = row.grid.length ? ` (${programIds(step, row.grid).join(", ")})` : "";
    this.where.textContent = row.steps_shown ? `step ${grouped(step)} of ${total}${ids}` : "Steps unknown";
  }

  private seek(): void {
    this.pause();
    this.show(Number(this.slider.value));
  }

  private choose(): void {
    const { shown } = this;
    if (!shown) return;
    this.pause();
    this.kernel = Number(this.choice.value);
    this.step = 0;
    this.drawKernels(shown);
  }

  private toggle(): void {
    if (this.timer) return this.pause();
    const count = Number(this.slider.max) + 1;
    if (this.step >= count - 1) this.show(0);
    // A long grid is played with larger strides, so that it ends in time.
    const stride = Math.max(1, Math.ceil((count * FRAME_MS) / LONGEST_PLAY_MS));
    this.timer = setInterval(() => {
      this.show(Math.min(count - 1, this.step + stride));
      if (this.step >= count - 1) this.pause();
    }, FRAME_MS);
    this.play.setAttribute("aria-pressed", "true");
  }

  private pause(): void {
    if (this.timer) clearInterval(this.timer);
    this.timer = null;
    this.play.setAttribute("aria-pressed", "false");
  }
}

function heading(row: messages.KernelMessage): HTMLElement {
  const grid = row.grid.length ? row.grid.map((size) => size ?? "?").join(" × ") : "none";
  const semantics = row.grid.length ? ` (${row.semantics.join(", ")})` : "";
  const facts: [string, string][] = [["grid", grid + semantics], ...row.facts];
  const place = row.source && shortSource(row.source);
  return h(
    "div",
    { class: "insp-pallas-head" },
    h("strong", {}, row.name),
    row.interpret && h("span", { class: "insp-tag" }, "interpreted"),
    place && h("span", { class: "insp-dim", title: `${row.source!.file}\nkernel: ${row.function}` }, place),
    ...facts.map(([name, text]) => h("span", {}, h("span", { class: "insp-dim" }, `${name} `), text)),
  );
}

function legend(row: messages.KernelMessage): HTMLElement | null {
  const has = (mark: "revisited" | "overlapping"): boolean => row.operands.some((o) => o[mark].length > 0);
  const key = (name: string, text: string): HTMLElement =>
    h("span", {}, h("i", { class: `insp-key insp-key-${name}`, "aria-hidden": "true" }), text);
  return h(
    "div",
    { class: "insp-legend insp-dim" },
    key("current", "current step"),
    key("seen", "visited before"),
    has("revisited") && key("revisited", "revisited later"),
    has("overlapping") && key("overlapping", "overlaps another"),
  );
}

export const pane = (context: Context): Pane => new PallasPane(context);
