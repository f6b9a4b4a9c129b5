// The change that makes the active variant differ from the baseline, or the part of it that is slow to compile.

import { textButton } from "../lib/controls.ts";
import { copyButton } from "../lib/copying.ts";
import { cellOf, textOf } from "../lib/described.ts";
import { fill, h } from "../lib/dom.ts";
import { plural } from "../lib/format.ts";
import type * as messages from "../messages.ts";
import { goesOn, type Timed } from "../state/synced.ts";
import { textOf as labelOf } from "./labels.ts";
import { type Context, Drawing, follow, type Pane } from "./pane.ts";
import { notRunnable } from "./runbutton.ts";
import { sourceLink } from "./sourcelink.ts";
import { clock, empty, failure, spinner } from "./states.ts";
import "../styles/options.css";
import "../styles/bisect.css";

type Search = messages.BisectRequest["search"];

const SEARCHES: readonly { value: Search; text: string; runs: boolean }[] = [
  { value: "values", text: "Which change alters the results?", runs: true },
  { value: "memory", text: "Which change alters the peak memory?", runs: false },
  { value: "time", text: "Which change alters the time?", runs: false },
  { value: "compile_time", text: "Which change alters the compile time?", runs: false },
  { value: "parts", text: "Which part is slow to compile?", runs: false },
];
const LIMIT_S = 300;
const HOW =
  "Compares this variant with the baseline and finds the smallest set of flags, then the compiler pass, then a small program that shows the difference.";
const HOW_PARTS =
  "Compiles the parts of this variant's program alone, leaves out the slowest, and divides it further: by scope, by line and in loops.";

class BisectPane implements Pane {
  readonly element = h("div", { class: "insp-scan", "data-pane": "bisect" });
  readonly tools = h("div", { class: "insp-tools" });
  private readonly head = h("div", { class: "insp-scan-head" });
  private readonly list = h("div", { class: "insp-bisect insp-scroll", tabindex: 0, "aria-label": "Bisect" });
  private readonly drawing = new Drawing(() => this.draw());
  private readonly search = h(
    "select",
    { class: "insp-select", "aria-label": "Search", onchange: () => this.drawing.request() },
    ...SEARCHES.map(({ value, text }) => h("option", { value }, text)),
  );
  private readonly limit = h("input", {
    type: "number",
    min: 1,
    max: 86_400,
    value: LIMIT_S,
    "aria-label": "Time limit in seconds",
  });
  private readonly start = textButton("Search", "", () => this.press());
  private readonly said = h("span", { class: "insp-scan-said", role: "status" });
  private readonly ends: (() => void)[];
  private drawn: messages.BisectMessage | null = null;
  private drawnSaved: messages.ReproductionSaved | null = null;

  constructor(private readonly context: Context) {
    const title = "Time limit of the whole search; what was found by then stays";
    this.head.append(
      this.search,
      h("label", { class: "insp-field", title }, "Time limit", this.limit, "s"),
      this.start,
      this.said,
    );
    this.element.append(this.head, this.list);
    this.ends = [follow(context, "bisect", this.drawing), context.local.signal.on(["active"], this.drawing.request)];
  }

  setVisible(visible: boolean): void {
    this.drawing.setVisible(visible);
  }

  destroy(): void {
    this.ends.forEach((end) => end());
  }

  private get latest(): Timed<messages.BisectMessage> | null {
    const { synced, local } = this.context;
    return local.active === null ? null : synced.latest("bisect", { variant: local.active });
  }

  private get isRunning(): boolean {
    return this.latest !== null && goesOn(this.latest) && !this.context.synced.isAlone;
  }

  private get chosen(): Search {
    return this.search.value as Search;
  }

  private press(): void {
    const { synced, local } = this.context;
    if (local.active === null) return;
    const time_limit_s = Math.max(1, Number(this.limit.value) || LIMIT_S);
    synced.send({
      type: "bisect",
      variant: local.active,
      do: this.isRunning ? "stop" : "start",
      search: this.chosen,
      time_limit_s,
    });
  }

  private draw(): void {
    const { synced, local } = this.context;
    const { variant } = local;
    const found = this.latest;
    const reason = variant && this.reason(variant);
    this.head.hidden = synced.isRecorded;
    this.start.textContent = this.isRunning ? "Stop" : "Search";
    this.start.title = this.isRunning
      ? "Stop and keep the steps"
      : reason || (this.chosen === "parts" ? HOW_PARTS : HOW);
    this.start.disabled = synced.isAlone || !variant || (!this.isRunning && reason !== "");
    this.search.disabled = this.limit.disabled = this.isRunning || synced.isAlone;
    fill(
      this.said,
      this.isRunning && spinner(),
      this.isRunning && ` ${found!.stage || found!.state} `,
      this.isRunning && clock(found!),
    );
    if (!variant) return fill(this.list, empty("Nothing to bisect yet", "Available once a variant is compiled."));
    if (!found) return this.absent(reason!);
    const saved = synced.latest("reproduction_saved", { variant: variant.variant });
    if (found === this.drawn && saved === this.drawnSaved) return;
    [this.drawn, this.drawnSaved] = [found, saved];
    this.drawFound(found, saved);
  }

  private absent(reason: string): void {
    this.drawn = null;
    const how = this.chosen === "parts" ? HOW_PARTS : HOW;
    fill(this.list, empty("Not searched yet", this.context.synced.remedy || reason || how));
  }

  /** Returns why the chosen search is not possible for a variant; "" if it is. */
  private reason(variant: Timed<messages.VariantMessage>): string {
    if (variant.state !== "done" && variant.state !== "failed") return "This variant is not compiled yet.";
    if (this.chosen === "parts") return "";
    if (variant.variant === 0) return "The baseline is the good side. Choose a variant that differs from it.";
    const runs = SEARCHES.find(({ value }) => value === this.chosen)!.runs;
    return runs && variant.state === "done" ? notRunnable(this.context, variant) : "";
  }

  private drawFound(found: messages.BisectMessage, saved: messages.ReproductionSaved | null): void {
    const { result } = found;
    const question = SEARCHES.find(({ value }) => value === found.search)!.text;
    fill(
      this.list,
      h("h4", {}, question, h("span", { class: "insp-dim insp-bisect-of" }, labelOf(this.context.local.variant!))),
      found.state === "failed" && failure(found.error, "The search failed"),
      found.state === "cancelled" && h("p", { class: "insp-note" }, "Stopped. The steps so far stay."),
      result && this.facts(result),
      result && this.table(result),
      result?.stablehlo ? this.reproduction(result.stablehlo, saved) : null,
      this.steps(found),
    );
  }

  private facts({ facts, is_found }: messages.BisectResult): HTMLElement {
    const rows = facts.flatMap(([name, text], i) => [
      h("dt", {}, `${name[0]!.toUpperCase()}${name.slice(1)}`),
      h("dd", { class: name === "note" ? "insp-dim" : "" }, i === 0 && is_found ? h("b", {}, text) : text),
    ]);
    return h("dl", { class: "insp-bisect-facts" }, ...rows);
  }

  private table({ title, columns, rows, left_out }: messages.BisectResult): HTMLElement | null {
    if (!rows.length) return null;
    const line = columns.findIndex(({ name }) => name === "source" || name === "lines");
    const text = (): string =>
      [columns.map((c) => c.title), ...rows.map(({ cells }) => cells.map(textOf))]
        .map((row) => row.join("\t"))
        .join("\n");
    const code = `explorer.variants[${String(this.place)}].${title === "Parts" ? "compile_time.table()" : "bisection.changes_table()"}`;
    const body = rows.map(({ cells, source }) =>
      h(
        "tr",
        {},
        ...cells.map((cell, i) =>
          i === line && source ? h("td", {}, sourceLink(this.context, source)) : cellOf(columns[i]!, cell),
        ),
      ),
    );
    return h(
      "section",
      { class: "insp-bisect-table" },
      h("h4", {}, title, " ", copyButton(text, code)),
      h("table", { class: "insp-table" }, heads(columns), h("tbody", {}, ...body)),
      left_out > 0 && h("p", { class: "insp-note" }, `${plural(left_out, "row")} not shown.`),
    );
  }

  private get place(): number {
    return Math.max(0, [...this.context.synced.variants.keys()].indexOf(this.context.local.active ?? 0));
  }

  private reproduction(text: string, saved: messages.ReproductionSaved | null): HTMLElement {
    const { synced, local } = this.context;
    const save = textButton(
      "Save files",
      "Write the StableHLO, its inputs and a script that needs only JAX to a new folder",
      () => synced.send({ type: "save_reproduction", variant: local.active! }),
    );
    save.disabled = synced.isAlone;
    save.hidden = synced.isRecorded;
    return h(
      "section",
      { class: "insp-bisect-reproduction" },
      h(
        "h4",
        {},
        "Reproduction ",
        copyButton(() => text, `explorer.variants[${String(this.place)}].bisection.reproduction`),
        " ",
        save,
      ),
      saved?.folder ? h("p", { class: "insp-note", role: "status" }, `Saved to ${saved.folder}`) : null,
      saved?.error ? h("p", { class: "insp-bad", role: "alert" }, saved.error.message) : null,
      h("details", {}, h("summary", {}, "StableHLO"), h("pre", { class: "insp-bisect-code", tabindex: 0 }, text)),
    );
  }

  private steps({ columns, steps }: messages.BisectMessage): HTMLElement | null {
    if (!steps.length) return null;
    const look: Record<string, string> = { bad: "insp-bisect-bad", failed: "insp-dim" };
    const rows = steps.map(({ outcome, cells }) =>
      h("tr", { class: look[outcome] ?? "" }, ...cells.map((cell, i) => cellOf(columns[i]!, cell))),
    );
    return h(
      "section",
      {},
      h("h4", {}, "Steps"),
      h("table", { class: "insp-table insp-bisect-steps" }, heads(columns), h("tbody", {}, ...rows)),
    );
  }
}

function heads(columns: readonly messages.TableHead[]): HTMLElement {
  const cells = columns.map(({ title, tooltip, is_number }) =>
    h("th", { scope: "col", class: is_number ? "insp-number" : "", title: tooltip }, title),
  );
  return h("thead", {}, h("tr", {}, ...cells));
}

export const pane = (context: Context): Pane => new BisectPane(context);
