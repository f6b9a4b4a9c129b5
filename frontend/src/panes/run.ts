// Runs of the variants: durations, inputs and outputs.

import { fill, h } from "../lib/dom.ts";
import { formatPercent, formatSeconds, grouped, plural } from "../lib/format.ts";
import { strip, stripDomain } from "../lib/strip.ts";
import type * as messages from "../messages.ts";
import { goesOn, type Timed } from "../state/synced.ts";
import { nameOf } from "./labels.ts";
import { type Context, Drawing, follow, type Pane } from "./pane.ts";
import { clock, empty, failure, loading, spinner } from "./states.ts";

const MAX_REPEAT = 10_000;

class RunPane implements Pane {
  readonly element = h("div", { class: "insp-run insp-scroll", tabindex: 0, "aria-label": "Run" });
  readonly tools = h("div", { class: "insp-tools" });
  private readonly drawing = new Drawing(() => this.draw());
  private readonly repeat = h("input", {
    type: "number",
    min: 1,
    max: MAX_REPEAT,
    value: 20,
    "aria-label": "Number of executions",
  });
  private readonly runAll = h(
    "button",
    { type: "button", class: "insp-button", onclick: () => this.runEvery() },
    "Run all",
  );
  private readonly accuracy = h(
    "button",
    { type: "button", class: "insp-button", onclick: () => this.context.synced.send({ type: "measure_accuracy" }) },
    "Accuracy",
  );
  private readonly ends: (() => void)[];

  constructor(private readonly context: Context) {
    this.tools.append(h("label", { class: "insp-field" }, "Executions", this.repeat), this.runAll, this.accuracy);
    this.runAll.title = "Run all variants in turns, so that other work on the machine affects all of them alike";
    this.accuracy.title = "Compare the results of all variants with the same function in 64 bits";
    this.ends = [follow(context, "run", this.drawing), context.local.signal.on(["active"], this.drawing.request)];
  }

  setVisible(visible: boolean): void {
    this.drawing.setVisible(visible);
  }

  destroy(): void {
    this.ends.forEach((end) => end());
  }

  private draw(): void {
    const { synced } = this.context;
    const variants = [...synced.variants.values()];
    this.runAll.disabled = !variants.some(canRun) || this.context.synced.isAlone;
    this.accuracy.disabled = !variants[0] || !canRun(variants[0]) || this.context.synced.isAlone;
    if (!variants.length)
      return fill(this.element, empty("Nothing to run yet", "Available once a variant is compiled."));
    const results = variants.map((v) => synced.latest("run", { variant: v.variant })?.result ?? null);
    const domain = stripDomain(results.map((r) => r?.durations_s ?? []));
    const base = results[0]?.median_s ?? null;
    const rows = variants.map((v, i) =>
      this.row(v, synced.latest("run", { variant: v.variant }), domain, i === 0 ? null : base),
    );
    const titles = [
      "",
      "variant",
      "median",
      "vs. baseline",
      "outputs",
      "accuracy",
      "min",
      "spread (IQR)",
      "durations",
      "device",
    ];
    const head = h("tr", {}, ...titles.map((t) => h("th", { scope: "col" }, t)));
    const table = h("table", { class: "insp-table insp-runs" }, h("thead", {}, head), h("tbody", {}, ...rows));
    fill(this.element, table, this.detail());
  }

  private row(
    variant: Timed<messages.VariantMessage>,
    run: Timed<messages.RunMessage> | null,
    domain: [number, number],
    base: number | null,
  ): HTMLElement {
    const isActive = variant.variant === this.context.local.active;
    const result = run?.state === "done" ? run.result : null;
    const cells = result
      ? this.measured(result, domain, base, variant.variant)
      : [h("td", { colspan: 3 }, ...this.status(variant, run)), this.verdict(variant.variant), h("td", { colspan: 4 })];
    return h(
      "tr",
      { class: isActive ? "insp-row-active" : "", onclick: () => this.context.local.setActive(variant.variant) },
      h("td", {}, this.button(variant, run)),
      h("th", { scope: "row" }, ...nameOf(variant)),
      ...cells,
    );
  }

  /** Returns the comparison of a variant's run with the baseline's, if both have run. */
  private comparison(variant: number | null): messages.RunComparison | null {
    return variant === null ? null : this.context.synced.latest("run_comparison", { variant });
  }

  private measured(
    result: messages.RunResult,
    domain: [number, number],
    base: number | null,
    variant: number,
  ): HTMLElement[] {
    const comparison = this.comparison(variant);
    const against = base === null ? "" : formatPercent(result.median_s, base);
    const faster = comparison?.is_faster ?? null;
    const verdict = faster === null ? "insp-dim" : faster ? "insp-better" : "insp-worse";
    const word = !comparison || base === null ? "" : faster === null ? " (noise)" : faster ? " faster" : " slower";
    const same = comparison?.is_same ?? null;
    return [
      h("td", { class: "insp-number insp-value" }, formatSeconds(result.median_s)),
      h("td", { class: `insp-number ${verdict}`, title: comparison?.speed ?? "" }, against + word),
      h(
        "td",
        { class: same === false ? "insp-run-differs" : "insp-dim", title: comparison?.outputs ?? "" },
        comparison?.verdict ?? "",
      ),
      this.verdict(variant),
      h("td", { class: "insp-number" }, formatSeconds(result.min_s)),
      h("td", { class: "insp-number" }, formatSeconds(result.iqr_s)),
      h(
        "td",
        { title: plural(result.durations_s.length, "execution") },
        strip(result.durations_s, result.median_s, domain),
      ),
      h("td", { class: "insp-dim" }, result.device_kind),
    ];
  }

  /** Returns the cell with a variant's verdict against 64-bit values. */
  private verdict(variant: number): HTMLElement {
    const found = this.context.synced.latest("accuracy", { variant });
    if (!found) return h("td", {});
    const { result, error, state } = found;
    if (!result && goesOn(found)) return h("td", {}, spinner(), clock(found));
    if (!result)
      return h("td", { class: "insp-dim", title: error?.message ?? "" }, state === "failed" ? "failed" : "canceled");
    const look = { wrong: "insp-bad", "less accurate": "insp-worse", "more accurate": "insp-better" };
    const color = look[result.verdict as keyof typeof look] ?? "insp-dim";
    return h("td", { class: color, title: result.words }, result.verdict || "not measured");
  }

  private status(
    variant: Timed<messages.VariantMessage>,
    run: Timed<messages.RunMessage> | null,
  ): (HTMLElement | string | false)[] {
    if (!run && variant.no_run) return [h("span", { class: "insp-dim" }, variant.no_run)];
    if (!run)
      return [
        h("span", { class: "insp-dim" }, variant.state === "done" ? "not run yet" : `not compiled (${variant.state})`),
      ];
    if (run.state === "failed")
      return [h("span", { class: "insp-bad" }, "✗ "), h("span", {}, run.error?.kind ?? "failed")];
    if (run.state === "cancelled") return [h("span", { class: "insp-dim" }, "canceled")];
    return [spinner(), h("span", {}, run.stage || run.state), clock(run)];
  }

  private button(variant: Timed<messages.VariantMessage>, run: Timed<messages.RunMessage> | null): HTMLElement {
    const isRunning = run !== null && goesOn(run);
    const onclick = (e: Event): void => {
      e.stopPropagation();
      if (isRunning) this.context.synced.send({ type: "cancel", variant: variant.variant });
      else this.run(variant.variant);
    };
    const text = isRunning ? "Cancel" : "Run";
    return h(
      "button",
      {
        type: "button",
        class: "insp-button",
        disabled: !canRun(variant) || (this.context.synced.isAlone && !isRunning),
        title: this.context.synced.remedy || variant.no_run,
        "aria-label": `${text} ${variant.label}`,
        onclick,
      },
      text,
    );
  }

  private run(variant: number): void {
    this.context.local.setActive(variant);
    this.context.synced.send({ type: "run", variant, repeat: this.count() });
  }

  private runEvery(): void {
    this.context.synced.send({ type: "run_all", repeat: this.count() });
  }

  private count(): number {
    const count = Math.max(1, Math.min(MAX_REPEAT, Math.round(Number(this.repeat.value)) || 1));
    this.repeat.value = String(count);
    return count;
  }

  /** Returns the state of measuring the time of each kernel, which follows a run. */
  private profiling(): HTMLElement | null {
    const profiling = this.context.synced.latest("profiling", { variant: this.context.local.active });
    if (!profiling) return null;
    if (goesOn(profiling))
      return h("p", { class: "insp-note" }, spinner(), " Measuring the time of each kernel ", clock(profiling));
    if (profiling.state === "failed")
      return h(
        "p",
        { class: "insp-note" },
        `The time of each kernel is unknown: ${profiling.error?.message ?? "failed"}`,
      );
    return profiling.state === "done"
      ? h("p", { class: "insp-note" }, "The pane Profile shows the measured time of each kernel.")
      : null;
  }

  /** Returns the errors, and the inputs and outputs of the active variant's run. */
  private detail(): HTMLElement {
    const { synced, local } = this.context;
    const found = synced.latest("accuracy", { variant: local.active });
    return h("div", {}, found && errors(found), this.arrays());
  }

  private arrays(): HTMLElement | null {
    const { synced, local } = this.context;
    const run = synced.latest("run", { variant: local.active });
    if (!run) return null;
    if (run.state === "failed") return failure(run.error, "The run failed");
    if (run.state !== "done" || !run.result) return run.state === "cancelled" ? null : loading("Running", run);
    const { inputs, outputs, note } = run.result;
    const parts = calls(run.result);
    const comparison = this.comparison(local.active);
    return h(
      "div",
      { class: "insp-run-detail" },
      note && h("p", { class: "insp-note" }, note),
      parts && h("p", { class: "insp-note" }, parts),
      this.profiling(),
      comparison && differences(comparison),
      printed(run.result),
      h("div", { class: "insp-run-arrays" }, arrays("Inputs", inputs), arrays("Outputs", outputs)),
    );
  }
}

/** Returns the times of the first execution and of the dispatch in a sentence; "" if unknown, as in older recordings. */
function calls({ first_s, dispatch_s, median_s }: messages.RunResult): string {
  const first = typeof first_s === "number" ? [`the first execution took ${formatSeconds(first_s)}`] : [];
  const dispatch =
    typeof dispatch_s === "number"
      ? [`the call returns after ${formatSeconds(dispatch_s)} of ${formatSeconds(median_s)}`]
      : [];
  const text = [...first, ...dispatch].join("; ");
  return text && `${text[0]!.toUpperCase()}${text.slice(1)}.`;
}

/** Returns what callbacks printed, such as `jax.debug.print`; null if nothing, as in older recordings. */
function printed({ printed: text }: messages.RunResult): HTMLElement | null {
  return text
    ? h(
        "section",
        {},
        h("h4", {}, "Printed by callbacks, in all executions"),
        h("pre", { class: "insp-run-printed" }, text),
      )
    : null;
}

function canRun(variant: messages.VariantMessage): boolean {
  return variant.state === "done" && !variant.no_run;
}

function differences({ outputs, speed, rows, is_same }: messages.RunComparison): HTMLElement {
  const titles = [
    "output",
    "differing",
    "max. ULPs",
    "max. error",
    "relative to max. value",
    "max. relative error",
    "first difference",
    "NaN",
    "infinite",
  ];
  const number = (value: number | null, why: string): HTMLElement =>
    h(
      "td",
      { class: "insp-number", title: value === null ? why : String(value) },
      value === null ? "–" : Number.isInteger(value) ? grouped(value) : value.toPrecision(3),
    );
  const pair = ([ours, theirs]: readonly number[]): HTMLElement =>
    h(
      "td",
      { class: ours || theirs ? "insp-number" : "insp-number insp-dim" },
      ours === theirs ? grouped(ours!) : `${grouped(ours!)}, baseline ${grouped(theirs!)}`,
    );
  const lines = rows.map((row) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, h("code", {}, row.path)),
      h("td", { class: "insp-number" }, `${grouped(row.differing)} of ${grouped(row.count)}`),
      number(row.ulps, row.unknown),
      number(row.largest, row.unknown),
      number(row.scaled, row.unknown || "All baseline values are 0"),
      number(row.relative, row.unknown || "All baseline values are 0"),
      h("td", {}, h("code", {}, row.first || "–")),
      pair(row.nans),
      pair(row.infinities),
    ),
  );
  return h(
    "section",
    { class: "insp-run-comparison" },
    h("h4", {}, "Comparison with baseline"),
    h("p", {}, `${outputs[0]?.toUpperCase()}${outputs.slice(1)}; ${speed}.`),
    rows.length > 0 &&
      is_same === false &&
      h(
        "table",
        { class: "insp-table" },
        h("thead", {}, h("tr", {}, ...titles.map((title) => h("th", { scope: "col" }, title)))),
        h("tbody", {}, ...lines),
      ),
  );
}

function errors(accuracy: Timed<messages.AccuracyMessage>): HTMLElement | null {
  const { result, error, state } = accuracy;
  if (state === "failed") return failure(error, "The accuracy was not measured");
  if (!result) return null;
  const { words, departure, rows, titles, notes } = result;
  return h(
    "section",
    { class: "insp-run-detail insp-run-accuracy" },
    h("h4", {}, "Accuracy against 64-bit values"),
    h("p", {}, departure || words),
    goesOn(accuracy) && h("p", { class: "insp-note" }, spinner(), " Searching the lines of errors ", clock(accuracy)),
    rows.length > 0 &&
      h(
        "table",
        { class: "insp-table" },
        h("thead", {}, h("tr", {}, ...titles.map((title) => h("th", { scope: "col" }, title)))),
        h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((cell) => h("td", {}, cell))))),
      ),
    notes.length > 0 && h("p", { class: "insp-note" }, `Note: ${notes.join("; ")}.`),
  );
}

function arrays(title: string, values: readonly messages.RunArray[]): HTMLElement {
  const rows = values.map((v) => {
    const tags = [v.generated && "generated", v.per_replica && "per replica"].filter(Boolean).join(", ");
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, h("code", {}, v.path || "output"), tags && h("span", { class: "insp-tag" }, tags)),
      h("td", { class: "insp-dim" }, `${v.dtype}[${v.shape}]`),
      h("td", {}, preview(v)),
    );
  });
  return h(
    "section",
    {},
    h("h4", {}, title),
    values.length
      ? h("table", { class: "insp-table" }, h("tbody", {}, ...rows))
      : h("p", { class: "insp-dim" }, "None"),
  );
}

function preview(value: messages.RunArray): HTMLElement {
  const isSplit = value.preview.length > 1;
  const lines = value.preview.map((text, i) =>
    h(
      "tr",
      {},
      isSplit && h("td", { class: "insp-dim insp-replica" }, `replica ${i}`),
      h("td", {}, h("code", {}, text)),
    ),
  );
  return h("table", { class: "insp-preview" }, h("tbody", {}, ...lines));
}

export const pane = (context: Context): Pane => new RunPane(context);
