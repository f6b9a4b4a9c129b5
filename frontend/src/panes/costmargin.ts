// The costs of the lines of a text: a column beside the text, and above it the total, the cost that belongs to no line,
// and a button for the heaviest lines.

import { textButton, toolButton } from "../lib/controls.ts";
import { setCosts } from "../lib/costgutter.ts";
import { fill, h } from "../lib/dom.ts";
import { estimatedTime, isEstimated, type LineCosts, type Measure, MEASURES, WHY_SHORTER } from "../lib/linecosts.ts";
import { openMenu } from "../lib/menu.ts";
import type { Context } from "./pane.ts";
import { notRunnable, runButton } from "./runbutton.ts";
import type { Shown } from "./shown.ts";

const LISTED = 16;
const LONGEST = 60;

export class CostMargin {
  /** The summary above the text; hidden while no measure is chosen. */
  readonly element = h("div", { class: "insp-cost-words" });
  readonly button = toolButton("costs", "Line costs", () => this.choose());
  private drawn: { view: Shown["view"]; costs: LineCosts | null }[] = [];

  constructor(
    private readonly context: Context,
    private readonly select: (line: number) => void,
  ) {}

  /** @param variant whose costs are shown, for documents that belong to no variant. */
  draw(shown: readonly Shown[], variant: number | null): void {
    const { local } = this.context;
    this.button.setAttribute("aria-pressed", String(local.measure !== null));
    const found = shown.map(({ view, document }) => {
      const of = document.variant ?? variant;
      const costs = local.measure === null || of === null ? null : local.costs.of(document, of, local.measure);
      return { view, costs };
    });
    for (const { view, costs } of found)
      if ((this.drawn.find((each) => each.view === view)?.costs ?? null) !== costs) setCosts(view, costs);
    this.drawn = found;
    const own = shown[shown.length - 1]?.document;
    const of = own?.variant ?? variant;
    this.element.hidden = local.measure === null || !own || of === null;
    if (!this.element.hidden) fill(this.element, ...this.words(found[found.length - 1]!.costs, of!));
  }

  private words(costs: LineCosts | null, variant: number): (HTMLElement | string)[] {
    const { synced, local } = this.context;
    const name = MEASURES.find(({ value }) => value === local.measure)!.text;
    const reply = local.costs.reply(variant);
    const dim = (text: string): HTMLElement => h("span", { class: "insp-dim", title: text }, text);
    if (!reply) {
      const isDone = synced.variants.get(variant)?.state === "done";
      const { isAlone } = synced;
      return [
        dim(isAlone ? `${name}: not received` : isDone ? `${name}: computing …` : `${name}: available once compiled`),
      ];
    }
    if (reply.error) return [dim(`${name}: ${reply.error.message}`)];
    if (local.measure === "measured_s" && local.costs.awaitsTimes(variant)) return [dim(`${name}: computing …`)];
    if (!costs) return this.absence(name, variant, reply.reasons[local.measure!] ?? "unknown");
    const heaviest = textButton("Heaviest lines", "Lines with the highest cost", () =>
      this.openHeaviest(costs, heaviest),
    );
    const lost = costs.lost ? `${costs.share(costs.lost)} belongs to no line of this text` : "";
    const unknown = isEstimated(costs.measure) && reply.unknown;
    const parts = [lost, unknown && `approximate: ${unknown}`].filter(Boolean).join("; ");
    const titles: Partial<Record<Measure, string>> = {
      measured_s: "Mean of one execution on one device",
      least_s: WHY_SHORTER,
    };
    const words = costs.measure === "least_s" ? estimatedTime(reply) : `${name}: ${costs.text(costs.total)}`;
    return [h("b", { title: titles[costs.measure] ?? "" }, words), dim(parts), heaviest];
  }

  private absence(name: string, variant: number, reason: string): HTMLElement[] {
    const { local, synced } = this.context;
    const known = synced.variants.get(variant)!;
    if (local.measure === "measured_s" && !known.profile) {
      const why = notRunnable(this.context, known) || "run the program to measure it";
      const words = h("span", { class: "insp-dim", title: why }, `${name}: ${why}`);
      return notRunnable(this.context, known) ? [words] : [words, runButton(this.context, known)];
    }
    const button =
      local.measure === "peak_bytes"
        ? textButton("Record", "Compile again and record XLA's buffer assignment", () =>
            synced.send({ type: "record", variant, product: "buffers" }),
          )
        : local.measure === "least_s" && local.costs.reply(variant)!.can_measure
          ? textButton(
              "Measure this machine",
              "Times a matrix product and a copy with NumPy, which takes about a second",
              () => local.costs.ask(variant, true),
            )
          : null;
    const words = h("span", { class: "insp-dim", title: reason }, `${name}: ${reason}`);
    return button ? [words, button] : [words];
  }

  private choose(): void {
    const { local } = this.context;
    const root = this.button.closest<HTMLElement>(".insp")!;
    const mark = (isChosen: boolean, text: string): string => (isChosen ? `${text} ✓` : text);
    openMenu(root, this.button, [
      {
        title: "Line costs",
        items: [
          ...MEASURES.map(({ value, text }) => ({
            text: mark(local.measure === value, text),
            run: () => local.setMeasure(value),
          })),
          { text: mark(local.measure === null, "None"), run: () => local.setMeasure(null) },
        ],
      },
    ]);
  }

  private openHeaviest(costs: LineCosts, button: HTMLElement): void {
    const own = this.context.local.measure && this.drawn[this.drawn.length - 1];
    if (!own) return;
    const items = costs.heaviest(LISTED).map((cost) => {
      const text = own.view.state.doc.line(cost.line + 1).text.trim();
      const short = text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
      return { text: `${costs.share(cost.amount)}  ${short}`, run: () => this.select(cost.line) };
    });
    openMenu(button.closest<HTMLElement>(".insp")!, button, [{ title: "Heaviest lines", items }]);
  }
}
