// Flags with an effect on the active variant's program, and a form for a variant with other build options and flags.

import { Switcher, type Choice } from "../lib/controls.ts";
import { fill, h, update } from "../lib/dom.ts";
import { grouped, plural } from "../lib/format.ts";
import type * as messages from "../messages.ts";
import type { Timed } from "../state/synced.ts";
import { type BuildForm, buildForm } from "./buildform.ts";
import { flagTable } from "./flagtable.ts";
import { type Context, Drawing, follow, type Pane } from "./pane.ts";
import { nameOf, textOf } from "./labels.ts";
import { notRunnable } from "./runbutton.ts";
import { clock, empty, failure, spinner } from "./states.ts";
import "../styles/options.css";

type View = "scan" | "build";

const VIEWS: Choice<View>[] = [
  { value: "scan", text: "Which flags matter?", title: "Try flags and list those that change this program" },
  {
    value: "build",
    text: "Build options",
    title: "Add a variant with other replicas, partitions, devices, effort or flags",
  },
];
const LIMIT_S = 120;

class OptionsPane implements Pane {
  readonly element = h("div", { class: "insp-options", "data-pane": "options" });
  readonly tools = h("div", { class: "insp-tools" });
  private readonly drawing = new Drawing(() => this.draw());
  private readonly view = new Switcher<View>("View", VIEWS, "scan", this.drawing.request);
  private readonly limit = h("input", {
    type: "number",
    min: 1,
    max: 86_400,
    value: LIMIT_S,
    "aria-label": "Time limit in seconds",
  });
  private readonly code = h("input", { type: "checkbox" });
  private readonly measure = h("input", { type: "checkbox" });
  private readonly measuring = h("label", { class: "insp-field" }, this.measure, "Measure");
  private readonly start = h("button", { type: "button", class: "insp-button insp-button-main" });
  private readonly again = h(
    "button",
    { type: "button", class: "insp-button", onclick: () => this.ask("start") },
    "Try all again",
  );
  /** The name of the scanned variant, which is the active one. */
  private readonly of = h("span", { class: "insp-scan-of" });
  private readonly said = h("div", { class: "insp-scan-said", role: "status" });
  private readonly bar = h("progress", { class: "insp-scan-bar", max: 1, value: 0 });
  private readonly list = h("div", { class: "insp-scroll", tabindex: 0, "aria-label": "Tried flags" });
  private readonly scan: HTMLElement;
  private readonly form: BuildForm;
  private drawn: messages.Scan | null = null;
  private readonly ends: (() => void)[];

  constructor(private readonly context: Context) {
    this.form = buildForm(context);
    this.start.addEventListener("click", () => this.press());
    this.tools.append(this.view.element);
    const title = "Time limit for all flags together. The remaining flags can be tried later";
    const codeTitle =
      "Compiles to machine code, which takes longer. Finds flags that change only machine code, such as fast math";
    this.scan = h(
      "div",
      { class: "insp-scan" },
      h(
        "div",
        { class: "insp-scan-head" },
        this.start,
        this.of,
        this.again,
        h("label", { class: "insp-field", title }, "Time limit", this.limit, "s"),
        h("label", { class: "insp-field", title: codeTitle }, this.code, "Include machine code"),
        this.measuring,
        this.said,
      ),
      this.bar,
      this.list,
    );
    this.ends = [follow(context, "options", this.drawing), context.local.signal.on(["active"], this.drawing.request)];
  }

  setVisible(visible: boolean): void {
    this.drawing.setVisible(visible);
  }

  destroy(): void {
    this.ends.forEach((end) => end());
  }

  private draw(): void {
    const { variant } = this.context.local;
    if (!variant) return fill(this.element, empty("No options yet", "Available with the first variant."));
    const wanted = this.view.value === "build" ? this.form.element : this.scan;
    if (this.element.firstChild !== wanted) fill(this.element, wanted);
    if (this.view.value === "build") return this.form.draw(variant);
    this.drawScan(variant);
  }

  private drawScan(variant: Timed<messages.VariantMessage>): void {
    const { synced } = this.context;
    const scan = synced.latest("scan", { variant: variant.variant });
    const isRunning = scan?.state === "running";
    const { isAlone } = synced;
    const canGoOn = !isRunning && (scan?.left ?? 0) > 0;
    fill(this.of, "of ", ...nameOf(variant));
    this.start.textContent = isRunning
      ? "Stop"
      : canGoOn
        ? `Try ${plural(scan!.left, "more flag")}`
        : "Which flags matter?";
    this.start.title = isRunning
      ? "Stop and keep the results"
      : `Try flags on ${textOf(variant)}, beginning with flags for its collectives and its target`;
    this.start.disabled = isAlone || (!isRunning && !canGoOn && variant.state === "failed" && !variant.platform);
    this.again.hidden = isRunning || !scan;
    this.again.disabled = this.limit.disabled = this.code.disabled = isRunning || isAlone;
    if (isAlone) this.limit.disabled = this.code.disabled = true;
    const reason = notRunnable(this.context, variant);
    this.measure.disabled = this.code.disabled || reason !== "";
    this.measuring.title = reason
      ? `Cannot be measured: ${reason}`
      : "Also runs the programs that differ, in turns, after all compiles. Includes machine code";
    this.bar.hidden = !isRunning;
    update(this.bar, { max: String(scan?.total || 1), value: String(scan?.done ?? 0) });
    fill(this.said, ...this.status(variant, scan));
    if (scan && scan === this.drawn) return;
    this.drawn = scan;
    fill(this.list, ...this.found(variant, scan));
  }

  private status(
    variant: messages.VariantMessage,
    scan: Timed<messages.Scan> | null,
  ): (HTMLElement | string | false)[] {
    if (!scan || scan.error) return [];
    const tried = `${grouped(scan.done)} of ${plural(scan.total, "flag")} tried on ${textOf(variant)}`;
    if (scan.state === "running") return [spinner(), h("span", {}, `${tried}, ${scan.stage}`), clock(scan)];
    const left = scan.left
      ? `, ${grouped(scan.left)} not tried ${scan.state === "cancelled" ? "(stopped)" : "(time limit)"}`
      : "";
    return [h("span", {}, `${tried}${left}`)];
  }

  private found(variant: messages.VariantMessage, scan: messages.Scan | null): (HTMLElement | false)[] {
    if (!scan)
      return [
        empty(
          `Which flags change ${textOf(variant)}?`,
          "Compiles the program with each flag up to the optimized HLO, in separate processes, beginning with flags for" +
            " its collectives and its target. Crashes and hangs are listed as rows.",
        ),
      ];
    if (scan.error) return [failure(scan.error, "Flags could not be tried")];
    const add = (row: messages.FlagRow): void =>
      this.context.synced.send({ type: "scan_add", variant: variant.variant, flag: row.flag, value: row.value });
    return [
      scan.rows.length > 0 && flagTable(scan, add),
      !scan.rows.length &&
        scan.state !== "running" &&
        empty(
          `No tried flag changes ${scan.unknown.length > 0 ? "the optimized HLO, memory or cost of " : ""}${textOf(variant)}`,
        ),
      scan.count > scan.rows.length &&
        h("p", { class: "insp-note" }, `First ${grouped(scan.rows.length)} of ${grouped(scan.count)} flags.`),
      scan.same.length > 0 && unchanged(scan.same, "without effect"),
      scan.unknown.length > 0 &&
        unchanged(scan.unknown, "without effect on optimized HLO, memory and cost; machine code not compared"),
      scan.left_out !== "" && h("p", { class: "insp-note" }, `Not tried: ${scan.left_out}. Add them above by hand.`),
    ];
  }

  private press(): void {
    const scan = this.context.synced.latest("scan", { variant: this.context.local.active });
    this.ask(scan?.state === "running" ? "stop" : scan?.left ? "resume" : "start");
  }

  private ask(action: messages.ScanRequest["do"]): void {
    const { synced, local } = this.context;
    if (local.active === null) return;
    const time_limit_s = Math.max(1, Number(this.limit.value) || LIMIT_S);
    this.limit.value = String(time_limit_s);
    const measure = this.measure.checked && !this.measure.disabled;
    const machine_code = this.code.checked;
    synced.send({ type: "scan", variant: local.active, do: action, time_limit_s, machine_code, measure });
  }
}

/** A folded list of the flags without a known effect, which are the majority. */
function unchanged(flags: readonly string[], words: string): HTMLElement {
  return h(
    "details",
    { class: "insp-scan-same" },
    h("summary", {}, `${plural(flags.length, "flag")} ${words}`),
    h("ul", {}, ...flags.map((each) => h("li", {}, h("code", {}, each)))),
  );
}

export const pane = (context: Context): Pane => new OptionsPane(context);
