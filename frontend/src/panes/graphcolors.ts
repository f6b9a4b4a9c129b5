// What the colors of a graph say: what there is to choose from, the numbers behind them, and the legend.

import { fill, h } from "../lib/dom.ts";
import { type GraphCanvas, partyColor } from "../graph/canvas.ts";
import { changeOf, type Coloring, isParty, KIND_WORDS, KINDS, textOf } from "../graph/colors.ts";
import { type Parties, partiesOf } from "../graph/parties.ts";
import type { GraphModel } from "../graph/model.ts";
import type { Message } from "../state/synced.ts";
import type { Context } from "./pane.ts";

const COLORINGS: readonly { readonly value: Coloring; readonly text: string }[] = [
  { value: "kind", text: "by kind" },
  { value: "bytes", text: "by bytes accessed" },
  { value: "flops", text: "by flops" },
  { value: "seconds", text: "by time bound" },
  { value: "alive", text: "by live range" },
  { value: "devices", text: "by devices" },
];
const CHANGES: readonly { readonly value: Coloring; readonly text: string }[] = [
  { value: "change:bytes", text: "bytes accessed" },
  { value: "change:flops", text: "flops" },
  { value: "change:seconds", text: "time bound" },
];
const OF_PASS: readonly { readonly value: Coloring; readonly text: string }[] = [
  { value: "pass", text: "by what the pass did" },
  ...COLORINGS.filter(({ value }) => value === "kind" || value === "alive"),
];

export class GraphColors {
  readonly coloring = h("select", {
    class: "insp-select",
    "aria-label": "Color of the nodes",
    onchange: () => this.choose(),
  });
  readonly legend = h("div", { class: "insp-g-legend" });
  private readonly collectives = new WeakMap<GraphModel, Message<"collectives">>();
  private readonly asked = new Set<string>();
  private model: GraphModel | null = null;
  private variant: number | null = null;
  /** What is chosen for graphs of variants, and for those between passes. */
  private readonly values: Record<"variant" | "pass", Coloring> = { variant: "kind", pass: "pass" };
  private of: "variant" | "pass" = "variant";

  /** @param chosen is told when the reader has chosen another color. */
  constructor(
    private readonly context: Context,
    private readonly canvas: GraphCanvas,
    private readonly chosen: () => void,
  ) {
    this.offerColors(null);
  }

  /** Takes a graph between passes, with what the pass did, and colors it. */
  showPass(model: GraphModel, variant: number, done: Parties): void {
    this.model = model;
    this.variant = variant;
    this.of = "pass";
    if (model.allParties !== done) model.setParties(done);
    this.offer(OF_PASS);
    this.coloring.title = "What the color of a node says. Costs are known of the compiled program only";
    this.draw();
  }

  /** Takes what is known of a variant's graph, and colors it. */
  show(model: GraphModel, variant: number): void {
    this.model = model;
    this.variant = variant;
    this.of = "variant";
    const costs = this.context.synced.latest("graph_costs", { variant });
    const [known, atLeast] = costs && !costs.error ? this.context.synced.parts(costs) : [];
    if (known && atLeast && !model.hasCosts) model.setCosts(new Float32Array(known), new Uint8Array(atLeast));
    this.takeBefore(variant);
    this.takeDevices(variant);
    this.coloring.title = costs?.error ? `No costs: ${costs.error.message}` : "What the color of a node says";
    this.draw();
  }

  private choose(): void {
    if (!this.model) return;
    this.values[this.of] = this.coloring.value as Coloring;
    if (changeOf(this.coloring.value as Coloring)) this.takeBefore(this.variant!);
    this.draw();
    this.chosen();
  }

  /** Colors what is on screen now. */
  draw(): void {
    if (!this.model) return;
    const coloring = this.coloring.value as Coloring;
    const most = this.canvas.color(coloring);
    if (coloring === "kind") {
      const keys = KINDS.map((kind) => h("span", { class: `insp-g-key insp-g-of-${kind}` }, KIND_WORDS[kind]));
      return fill(this.legend, ...keys);
    }
    if (isParty(coloring)) {
      const { texts, of } = this.model.allParties;
      const present = new Set([...of.values()].flat());
      const key = (text: string, i: number): HTMLElement | false =>
        present.has(i) && h("span", { class: "insp-g-key insp-g-together", style: `--party:${partyColor(i)}` }, text);
      const none = h("span", { class: "insp-dim" }, "nothing here was done to instructions");
      return fill(this.legend, ...(present.size ? texts.map(key) : [none]));
    }
    const costs = this.context.synced.latest("graph_costs", { variant: this.variant });
    const waits = coloring !== "alive" && !costs;
    const missing = waits ? "being counted" : this.missing(coloring, costs?.error?.message ?? "");
    if (changeOf(coloring) && most > 0) {
      const end = (amount: number): HTMLElement => h("span", {}, textOf(amount, coloring));
      return fill(this.legend, end(-most), h("span", { class: "insp-g-scale insp-g-both" }), end(most));
    }
    if (!(most > 0)) return fill(this.legend, h("span", { class: "insp-dim" }, missing));
    fill(this.legend, h("span", {}, "0"), h("span", { class: "insp-g-scale" }), h("span", {}, textOf(most, coloring)));
  }

  private missing(coloring: Coloring, error: string): string {
    const { unscheduled } = this.model!.table;
    if (changeOf(coloring)) return this.withoutChange();
    if (coloring === "alive") return unscheduled || "no live ranges here";
    if (error) return `not known: ${error}`;
    return coloring === "seconds" ? "no published roofs for this chip: see Roofline" : "nothing here has any";
  }

  private withoutChange(): string {
    const { synced } = this.context;
    const variant = this.variant!;
    const before = synced.latest("graph_before", { variant, baseline: synced.referenceOf(variant) });
    if (!before) return "being compared";
    return before.error ? `not known: ${before.error.message}` : "nothing here has changed";
  }

  /** Which devices work together is known of collectives; without any the choice says why it is none. */
  private takeDevices(variant: number): void {
    const found = this.context.synced.latest("collectives", { variant, program: "optimized" });
    const model = this.model!;
    if (found && found !== this.collectives.get(model)) {
      this.collectives.set(model, found);
      model.setParties(partiesOf(model, found.rows));
    }
    const option = this.coloring.querySelector<HTMLOptionElement>("option[value=devices]")!;
    option.disabled = !found?.rows.length;
    const { text } = COLORINGS.find(({ value }) => value === "devices")!;
    option.textContent = option.disabled ? `${text}: no collectives here` : text;
    if (option.disabled && this.coloring.value === "devices") this.coloring.value = this.values.variant = "kind";
  }

  /** What the same cost in the variant that this one is compared with, once a color asks for it. */
  private takeBefore(variant: number): void {
    const { synced } = this.context;
    const reference = synced.referenceOf(variant);
    const baseline = reference === variant ? null : reference;
    this.offerColors(baseline);
    if (baseline === null || !changeOf(this.coloring.value as Coloring)) return;
    const before = synced.latest("graph_before", { variant, baseline });
    const [known] = before && !before.error ? synced.parts(before) : [];
    this.model!.setBefore(known ? new Float32Array(known) : null);
    const key = `${variant}/${baseline}/before`;
    if (before || this.asked.has(key) || synced.variants.get(baseline)?.state !== "done") return;
    this.asked.add(key);
    synced.send({ type: "graph_before", variant, baseline });
  }

  private offerColors(baseline: number | null): void {
    const label = `change against ${this.context.synced.variants.get(baseline ?? -1)?.label}`;
    this.offer(COLORINGS, baseline === null ? null : label);
  }

  /** @param changes the label of those that compare with another variant, null for none. */
  private offer(choices: readonly { value: Coloring; text: string }[], changes: string | null = null): void {
    const option = ({ value, text }: (typeof choices)[number]): HTMLElement => h("option", { value }, text);
    const all = [...choices, ...(changes === null ? [] : CHANGES)].map(({ value }) => value);
    const key = `${changes} ${all.join()}`;
    if (this.coloring.dataset.choices !== key) {
      this.coloring.dataset.choices = key;
      const group = changes !== null && h("optgroup", { label: changes }, ...CHANGES.map(option));
      fill(this.coloring, ...choices.map(option), group);
    }
    const wanted = this.values[this.of];
    this.coloring.value = all.includes(wanted) ? wanted : choices[0]!.value;
  }
}
