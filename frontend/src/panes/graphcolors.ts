// The colors of a graph: the choices, the values that they show, and the legend.

import { fill, h } from "../lib/dom.ts";
import { type GraphCanvas, partyColor } from "../graph/canvas.ts";
import { changeOf, type Coloring, isParty, KIND_WORDS, KINDS, textOf } from "../graph/colors.ts";
import { partiesOf } from "../graph/parties.ts";
import type { GraphModel, Parties } from "../graph/model.ts";
import type { Message } from "../state/synced.ts";
import type { Context } from "./pane.ts";

const COLORINGS: readonly { readonly value: Coloring; readonly text: string }[] = [
  { value: "kind", text: "By kind" },
  { value: "bytes", text: "By bytes accessed" },
  { value: "flops", text: "By FLOPs" },
  { value: "measured", text: "By measured time" },
  { value: "seconds", text: "By estimated time" },
  { value: "alive", text: "By live range" },
  { value: "devices", text: "By devices" },
];
const CHANGES: readonly { readonly value: Coloring; readonly text: string }[] = [
  { value: "change:bytes", text: "Bytes accessed" },
  { value: "change:flops", text: "FLOPs" },
  { value: "change:seconds", text: "Estimated time" },
];
const OF_PASS: readonly { readonly value: Coloring; readonly text: string }[] = [
  { value: "pass", text: "By effect of the pass" },
  ...COLORINGS.filter(({ value }) => value === "kind" || value === "alive"),
];

/** Names of amounts in the legend. */
const NAMES: Partial<Record<Coloring, string>> = {
  bytes: "Bytes accessed",
  flops: "FLOPs",
  seconds: "Estimated time",
  measured: "Measured time",
  alive: "Live range",
};

export class GraphColors {
  readonly coloring = h("select", {
    class: "insp-select",
    "aria-label": "Node color",
    onchange: () => this.choose(),
  });
  readonly legend = h("div", { class: "insp-g-legend" });
  private readonly collectives = new WeakMap<GraphModel, Message<"collectives">>();
  private readonly asked = new Set<string>();
  private model: GraphModel | null = null;
  private variant: number | null = null;
  /** The chosen colorings for graphs of variants and for graphs between passes. */
  private readonly values: Record<"variant" | "pass", Coloring> = { variant: "kind", pass: "pass" };
  private of: "variant" | "pass" = "variant";
  private waitsForTimes = false;

  /** @param chosen is called when the user has chosen another coloring. */
  constructor(
    private readonly context: Context,
    private readonly canvas: GraphCanvas,
    private readonly chosen: () => void,
  ) {
    this.offerColors(null);
  }

  /** Colors a graph between passes by the effects of the pass. */
  showPass(model: GraphModel, variant: number, done: Parties): void {
    this.model = model;
    this.variant = variant;
    this.of = "pass";
    if (model.allParties !== done) model.setParties(done);
    this.offer(OF_PASS);
    this.coloring.title = "Node color. Costs are available for the compiled program only";
    this.draw();
  }

  /** Adds the known costs and devices to a variant's graph and colors it. */
  show(model: GraphModel, variant: number): void {
    this.model = model;
    this.variant = variant;
    this.of = "variant";
    const costs = this.context.synced.latest("graph_costs", { variant });
    const [known, partial] = costs && !costs.error ? this.context.synced.parts(costs) : [];
    if (known && partial && !model.hasCosts) model.setCosts(new Float32Array(known), new Uint8Array(partial));
    this.takeBefore(variant);
    this.takeTimes(variant);
    this.takeDevices(variant);
    this.coloring.title = costs?.error ? `No costs: ${costs.error.message}` : "Node color";
    this.draw();
  }

  private choose(): void {
    if (!this.model) return;
    this.values[this.of] = this.coloring.value as Coloring;
    if (changeOf(this.coloring.value as Coloring)) this.takeBefore(this.variant!);
    this.draw();
    this.chosen();
  }

  /** Colors the nodes on screen and draws the legend. */
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
      const none = h("span", { class: "insp-dim" }, "This pass changed no instruction");
      return fill(this.legend, ...(present.size ? texts.map(key) : [none]));
    }
    const costs = this.context.synced.latest("graph_costs", { variant: this.variant });
    const waits = coloring === "measured" ? this.waitsForTimes : coloring !== "alive" && !costs;
    const missing = waits ? "computing …" : this.missing(coloring, costs?.error?.message ?? "");
    if (changeOf(coloring) && most > 0) {
      const end = (amount: number): HTMLElement => h("span", {}, textOf(amount, coloring));
      return fill(this.legend, end(-most), h("span", { class: "insp-g-scale insp-g-both" }), end(most));
    }
    if (!(most > 0)) return fill(this.legend, h("span", { class: "insp-dim" }, missing));
    const end = h("span", {}, textOf(most, coloring));
    fill(this.legend, h("span", {}, `${NAMES[coloring] ?? ""} 0`), h("span", { class: "insp-g-scale" }), end);
  }

  private missing(coloring: Coloring, error: string): string {
    const { unscheduled } = this.model!.table;
    if (changeOf(coloring)) return this.withoutChange();
    if (coloring === "alive") return unscheduled || "no live ranges";
    if (coloring === "measured") return this.withoutTimes();
    if (error) return `unknown: ${error}`;
    return coloring === "seconds" ? "No published roofs for this chip; see Roofline" : "None in this graph";
  }

  private withoutTimes(): string {
    const error = this.context.synced.latest("graph_times", { variant: this.variant })?.error;
    return error ? `unknown: ${error.message}` : "The profile shows no time of these nodes";
  }

  private withoutChange(): string {
    const { synced, local } = this.context;
    const variant = this.variant!;
    const before = synced.latest("graph_before", { variant, baseline: local.referenceOf(variant) });
    if (!before) return "comparing …";
    return before.error ? `unknown: ${before.error.message}` : "no changes";
  }

  /** Requests and adds the measured times of a profiled variant. Without a profile, the choice is disabled. */
  private takeTimes(variant: number): void {
    const { synced } = this.context;
    const profile = synced.variants.get(variant)?.profile ?? 0;
    const found = synced.latest("graph_times", { variant });
    const [times] = found && !found.error ? synced.parts(found) : [];
    this.model!.setTimes(profile > 0 && times ? new Float32Array(times) : null);
    this.waitsForTimes = profile > 0 && found?.profile !== profile && !synced.isAlone;
    this.enable("measured", profile > 0, "not run");
    const key = `${variant}/${profile}/times`;
    if (profile === 0 || found?.profile === profile || this.asked.has(key)) return;
    this.asked.add(key);
    synced.send({ type: "graph_times", variant, profile });
  }

  /** Enables or disables a choice. A disabled one shows the reason, and the kinds are chosen instead of it. */
  private enable(value: Coloring, isEnabled: boolean, reason: string): void {
    const option = this.coloring.querySelector<HTMLOptionElement>(`option[value=${value}]`)!;
    const { text } = COLORINGS.find((each) => each.value === value)!;
    option.disabled = !isEnabled;
    option.textContent = isEnabled ? text : `${text} (${reason})`;
    if (!isEnabled && this.coloring.value === value) this.coloring.value = this.values.variant = "kind";
  }

  /** Adds the device groups of the collectives. Without collectives, the choice is disabled and gives the reason. */
  private takeDevices(variant: number): void {
    const found = this.context.synced.latest("collectives", { variant, program: "optimized" });
    const model = this.model!;
    if (found && found !== this.collectives.get(model)) {
      this.collectives.set(model, found);
      model.setParties(partiesOf(model, found.rows));
    }
    this.enable("devices", Boolean(found?.rows.length), "no collectives");
  }

  /** Requests the costs in the reference variant once a coloring needs them. */
  private takeBefore(variant: number): void {
    const { synced, local } = this.context;
    const reference = local.referenceOf(variant);
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
    const label = `Change from ${this.context.synced.variants.get(baseline ?? -1)?.label}`;
    this.offer(COLORINGS, baseline === null ? null : label);
  }

  /** @param changes the label of the colorings that compare with another variant; null to leave them out. */
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
