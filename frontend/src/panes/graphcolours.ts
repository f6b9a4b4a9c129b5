// What the colours of a graph say: what there is to choose from, the numbers behind them, and the legend.

import { fill, h } from "../lib/dom.ts";
import { type GraphCanvas, partyColour } from "../graph/canvas.ts";
import { changeOf, type Colouring, KIND_WORDS, KINDS, textOf } from "../graph/colours.ts";
import { partiesOf } from "../graph/devices.ts";
import type { GraphModel } from "../graph/model.ts";
import type { Message } from "../state/synced.ts";
import type { Context } from "./pane.ts";

const COLOURINGS: readonly { readonly value: Colouring; readonly text: string }[] = [
  { value: "kind", text: "by kind" },
  { value: "bytes", text: "by bytes accessed" },
  { value: "flops", text: "by flops" },
  { value: "seconds", text: "by time bound" },
  { value: "alive", text: "by live range" },
  { value: "devices", text: "by devices" },
];
const CHANGES: readonly { readonly value: Colouring; readonly text: string }[] = [
  { value: "change:bytes", text: "bytes accessed" },
  { value: "change:flops", text: "flops" },
  { value: "change:seconds", text: "time bound" },
];
export class GraphColours {
  readonly colouring = h("select", {
    class: "insp-select",
    "aria-label": "Colour of the nodes",
    onchange: () => this.choose(),
  });
  readonly legend = h("div", { class: "insp-g-legend" });
  private readonly collectives = new WeakMap<GraphModel, Message<"collectives">>();
  private readonly asked = new Set<string>();
  private model: GraphModel | null = null;
  private variant: number | null = null;

  /** @param chosen is told when the reader has chosen another colour. */
  constructor(
    private readonly context: Context,
    private readonly canvas: GraphCanvas,
    private readonly chosen: () => void,
  ) {
    this.offerColours(null);
  }

  /** Takes what is known of a variant's graph, and colours it. */
  show(model: GraphModel, variant: number): void {
    this.model = model;
    this.variant = variant;
    const costs = this.context.synced.latest("graph_costs", { variant });
    const [known, atLeast] = costs && !costs.error ? this.context.synced.parts(costs) : [];
    if (known && atLeast && !model.hasCosts) model.setCosts(new Float32Array(known), new Uint8Array(atLeast));
    this.takeBefore(variant);
    this.takeDevices(variant);
    this.colouring.title = costs?.error ? `No costs: ${costs.error.message}` : "What the colour of a node says";
    this.draw();
  }

  private choose(): void {
    if (!this.model) return;
    if (changeOf(this.colouring.value as Colouring)) this.takeBefore(this.variant!);
    this.draw();
    this.chosen();
  }

  /** Colours what is on screen now. */
  draw(): void {
    if (!this.model) return;
    const colouring = this.colouring.value as Colouring;
    const most = this.canvas.colour(colouring);
    if (colouring === "kind") {
      const keys = KINDS.map((kind) => h("span", { class: `insp-g-key insp-g-of-${kind}` }, KIND_WORDS[kind]));
      return fill(this.legend, ...keys);
    }
    if (colouring === "devices") {
      const { texts } = this.model!.allParties;
      const key = (text: string, i: number): HTMLElement =>
        h("span", { class: "insp-g-key insp-g-together", style: `--party:${partyColour(i)}` }, text);
      return fill(this.legend, ...texts.map(key));
    }
    const costs = this.context.synced.latest("graph_costs", { variant: this.variant });
    const waits = colouring !== "alive" && !costs;
    const missing = waits ? "being counted" : this.missing(colouring, costs?.error?.message ?? "");
    if (changeOf(colouring) && most > 0) {
      const end = (amount: number): HTMLElement => h("span", {}, textOf(amount, colouring));
      return fill(this.legend, end(-most), h("span", { class: "insp-g-scale insp-g-both" }), end(most));
    }
    if (!(most > 0)) return fill(this.legend, h("span", { class: "insp-dim" }, missing));
    fill(this.legend, h("span", {}, "0"), h("span", { class: "insp-g-scale" }), h("span", {}, textOf(most, colouring)));
  }

  private missing(colouring: Colouring, error: string): string {
    const { unscheduled } = this.model!.table;
    if (changeOf(colouring)) return this.withoutChange();
    if (colouring === "alive") return unscheduled || "no live ranges here";
    if (error) return `not known: ${error}`;
    return colouring === "seconds" ? "no published roofs for this chip: see Roofline" : "nothing here has any";
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
    const option = this.colouring.querySelector<HTMLOptionElement>("option[value=devices]")!;
    option.disabled = !found?.rows.length;
    const { text } = COLOURINGS.find(({ value }) => value === "devices")!;
    option.textContent = option.disabled ? `${text}: no collectives here` : text;
    if (option.disabled && this.colouring.value === "devices") this.colouring.value = "kind";
  }

  /** What the same cost in the variant that this one is compared with, once a colour asks for it. */
  private takeBefore(variant: number): void {
    const { synced } = this.context;
    const reference = synced.referenceOf(variant);
    const baseline = reference === variant ? null : reference;
    this.offerColours(baseline);
    if (baseline === null || !changeOf(this.colouring.value as Colouring)) return;
    const before = synced.latest("graph_before", { variant, baseline });
    const [known] = before && !before.error ? synced.parts(before) : [];
    this.model!.setBefore(known ? new Float32Array(known) : null);
    const key = `${variant}/${baseline}/before`;
    if (before || this.asked.has(key) || synced.variants.get(baseline)?.state !== "done") return;
    this.asked.add(key);
    synced.send({ type: "graph_before", variant, baseline });
  }

  private offerColours(baseline: number | null): void {
    const { value } = this.colouring;
    const option = ({ value, text }: (typeof COLOURINGS)[number]): HTMLElement => h("option", { value }, text);
    const label = `change against ${this.context.synced.variants.get(baseline ?? -1)?.label}`;
    const choices = [...COLOURINGS, ...(baseline === null ? [] : CHANGES)];
    if (this.colouring.querySelector("optgroup")?.label === (baseline === null ? undefined : label) && value) return;
    fill(
      this.colouring,
      ...COLOURINGS.map(option),
      baseline !== null && h("optgroup", { label }, ...CHANGES.map(option)),
    );
    this.colouring.value = choices.some((choice) => choice.value === value) ? value : "kind";
  }
}
