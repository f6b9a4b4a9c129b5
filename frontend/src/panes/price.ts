// The cost of a collective on the links of a slice or a host: the estimate of the roofline, or a textbook algorithm's.

import { fill, h, update } from "../lib/dom.ts";
import { format, formatRate, formatSeconds, grouped, plural } from "../lib/format.ts";
import type * as messages from "../messages.ts";
import { networkDrawing } from "./network.ts";
import type { Context } from "./pane.ts";
import { Replies } from "./replies.ts";
import { awaited, failure } from "./states.ts";
import "../styles/price.css";

const NOTE =
  "A model, not a measurement: all groups run at the same time and messages take the shortest paths. The time is the latency of the hops plus the bytes on the busiest link divided by the link speed (Hockney 1994). The estimate is the time in the roofline and the schedule: it uses the algorithm that libtpu recorded, otherwise a textbook algorithm on all links of the group.";
const BUS =
  "Comparable to the link speed for every operation and group size: the bytes that any algorithm must send from a device, divided by the time. These are 2 (n − 1) / n of the bytes of an all-reduce, and (n − 1) / n of the whole array of a gather or scatter (nccl-tests, PERFORMANCE.md).";
const FIRST = "estimate";
const OTHER = "Other …";
const GIGA = 1e9;
const MICRO = 1e-6;

export class PriceView {
  readonly element = h("section", { class: "insp-price", "aria-label": "Link cost" });
  private readonly replies: Replies<"priced">;
  private readonly network = h("select", { class: "insp-select", "aria-label": "Slice or host" });
  private readonly other = h("input", {
    type: "text",
    class: "insp-price-other",
    placeholder: "tpu:v5e:4x8",
    spellcheck: false,
    hidden: true,
    "aria-label": "Other target",
  });
  private readonly algorithm = h("select", { class: "insp-select", "aria-label": "Algorithm" });
  private readonly speed = h("input", { type: "number", min: 0, step: "any", "aria-label": "Link speed in GB/s" });
  private readonly latency = h("input", {
    type: "number",
    min: 0,
    step: "any",
    "aria-label": "Latency in µs",
  });
  private readonly facts = h("dl", { class: "insp-price-facts" });
  private readonly picture = h("div", { class: "insp-price-picture insp-scroll", tabindex: 0, "aria-label": "Links" });
  private readonly body = h("div", {});
  private row: messages.CollectiveMessage | null = null;
  private stage: messages.Stage = "hlo";
  private networks: readonly string[] = [];
  private shown: messages.Priced | null = null;
  /** The network for which the user entered a speed; "" if the published speed is used. */
  private own = "";
  /** Whether the user entered a latency. */
  private ownLatency = false;

  constructor(private readonly context: Context) {
    this.replies = new Replies(context.synced, "priced");
    this.network.addEventListener("change", () => {
      this.other.hidden = this.network.value !== OTHER;
      if (this.other.hidden) this.draw();
      else this.other.focus();
    });
    this.other.addEventListener("change", () => this.draw());
    this.algorithm.addEventListener("change", () => this.draw());
    this.speed.addEventListener("input", () => {
      this.own = this.shown?.network ?? "";
      this.drawFacts();
    });
    this.latency.addEventListener("input", () => {
      this.ownLatency = true;
      this.drawFacts();
    });
    const head = h(
      "div",
      { class: "insp-price-head" },
      h("strong", {}, "Link cost"),
      h("label", { class: "insp-field" }, "Network", this.network),
      this.other,
      h("label", { class: "insp-field" }, "Algorithm", this.algorithm),
      h("label", { class: "insp-field", title: "Speed of a link in one direction" }, "Link speed", this.speed, "GB/s"),
      h(
        "label",
        { class: "insp-field", title: "Latency of a hop from chip to chip: about 1 µs on a TPU (scaling book)" },
        "Latency",
        this.latency,
        "µs",
      ),
    );
    this.element.append(head, this.body);
  }

  /** Shows a collective. Redraws only if it or its cost has changed. */
  show(row: messages.CollectiveMessage, stage: messages.Stage, networks: readonly string[]): void {
    const isOther = row !== this.row || stage !== this.stage;
    [this.row, this.stage] = [row, stage];
    if (networks !== this.networks) {
      const chosen = this.network.value;
      this.networks = networks;
      const choices = this.context.synced.isRecorded ? networks : [...networks, OTHER];
      fill(this.network, ...choices.map((value) => h("option", { value, selected: value === chosen }, value)));
    }
    if (isOther || !this.shown) this.draw();
  }

  private draw(): void {
    const { synced, local } = this.context;
    const network = this.network.value === OTHER ? this.other.value.trim() : this.network.value;
    if (!this.row || local.active === null || !network) return;
    const algorithm = this.algorithm.value || FIRST;
    const { name } = this.row;
    const reply = this.replies.of({
      type: "price",
      variant: local.active,
      program: this.stage,
      name,
      network,
      algorithm,
    });
    this.shown = null;
    if (!reply) return fill(this.body, awaited(synced, "Computing the cost", "Cost not recorded"));
    if (reply.error) return fill(this.body, failure(reply.error, "Cost unavailable for this network"));
    this.shown = reply;
    this.choose(reply.algorithms, reply.algorithm);
    if (this.own !== reply.network) {
      this.own = "";
      this.speed.value = reply.bytes_per_s === null ? "" : String(reply.bytes_per_s / GIGA);
    }
    if (!this.ownLatency) this.latency.value = String(reply.latency_s / MICRO);
    fill(this.body, this.facts, this.picture, h("div", { class: "insp-dim" }, NOTE));
    fill(this.picture, ...networkDrawing(reply));
    this.drawFacts();
  }

  private choose(algorithms: readonly string[], chosen: string): void {
    const options = algorithms.map((value) => h("option", { value, selected: value === chosen }, value));
    fill(this.algorithm, ...options);
  }

  private drawFacts(): void {
    const priced = this.shown;
    if (!priced) return;
    const speed = Number(this.speed.value) * GIGA;
    const latency = Math.max(0, Number(this.latency.value) || 0) * MICRO;
    const isKnown = speed > 0;
    const seconds = priced.hops * latency + priced.busiest_bytes / speed;
    update(this.speed, { "aria-invalid": String(this.speed.value !== "" && !isKnown) });
    const bytes = (count: number): string => format(count, "bytes");
    const formula = `${plural(priced.hops, "hop")} × ${formatSeconds(latency)} + ${bytes(priced.busiest_bytes)} / ${isKnown ? formatRate(speed, "B/s") : "an unknown speed"}`;
    const whose = this.own ? "entered by you" : priced.bytes_per_s === null ? priced.source : "published";
    const facts: [string, string, string][] = [
      ["algorithm", priced.algorithm_text, NOTE],
      ["time", isKnown ? `${formatSeconds(seconds)} = ${formula}` : `unknown: ${formula}`, NOTE],
      ["sent per device", bytes(priced.sent_bytes), "Total of all steps, for the device that sends most"],
      ["received per device", bytes(priced.received_bytes), "Total of all steps, for the device that receives most"],
      ["busiest link", bytes(priced.most_bytes), "Total of all steps, in one direction"],
      [
        "idle links",
        `${grouped(priced.idle_links)} of ${grouped(priced.link_count)}`,
        "Each direction counts as one link",
      ],
      ["bus bandwidth", this.bus(seconds, isKnown), BUS],
      ["link speed", whose, priced.source],
    ];
    const runs = this.row?.executions ?? 1;
    if (runs > 1 && isKnown)
      facts.splice(1, 0, ["all runs", `${formatSeconds(seconds * runs)}: ${grouped(runs)} runs`, ""]);
    fill(this.facts, ...facts.map(([name, text, title]) => h("div", { title }, h("dt", {}, name), h("dd", {}, text))));
  }

  private bus(seconds: number, isKnown: boolean): string {
    const { bus_bytes: counted } = this.shown!;
    return counted === null || !isKnown || !seconds ? "unknown" : formatRate(counted / seconds, "B/s");
  }
}
