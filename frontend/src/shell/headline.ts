// The headline of the active variant: memory, time, the most expensive part, unused donations and findings, each a link to its
// pane.

import { fill, h } from "../lib/dom.ts";
import type * as messages from "../messages.ts";
import type { Context } from "../panes/pane.ts";
import type { Message } from "../state/synced.ts";

/** The machine's roofs are measured after the work of the cell, which would make them too low. */
const MEASURE_AFTER_MS = 1000;

export class Headline {
  readonly element = h("div", { class: "insp-headline", role: "group", "aria-label": "Headline" });
  private readonly asked = new Map<number, number>();
  /** Whether this machine could still be measured when a variant's findings were requested. */
  private readonly found = new Map<number, boolean>();
  private readonly ends: (() => void)[];
  private isMeasuring = false;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly context: Context) {
    const { synced, local } = context;
    this.ends = [
      synced.signal.on(["headline"], () => this.receive()),
      synced.signal.on(["variant", "headline", "findings", "notebook_kernel"], () => this.draw()),
      local.signal.on(["active"], () => this.draw()),
    ];
    this.draw();
  }

  destroy(): void {
    clearTimeout(this.timer);
    this.ends.forEach((end) => end());
  }

  private draw(): void {
    const { variant } = this.context.local;
    if (variant?.state !== "done") return fill(this.element, variant ? this.waiting(variant) : null);
    this.request(variant, false);
    const reply = this.reply(variant.variant);
    if (!reply) return fill(this.element, this.dim(this.context.synced.isAlone ? "" : "Estimating times"));
    if (reply.error) return fill(this.element, this.dim(`No headline: ${reply.error.message}`));
    const links = reply.facts.map((fact) => this.link(fact));
    const found = this.context.synced.latest("findings", { variant: variant.variant });
    if (found?.summary) links.push(this.findings(found.summary));
    fill(this.element, ...links.flatMap((link, i) => [i ? this.dim("·") : null, link]));
    if (reply.can_measure) this.measureLater();
  }

  private reply(variant: number): Message<"headline"> | null {
    return this.context.synced.latest("headline", { variant });
  }

  private request(variant: messages.VariantMessage, isMeasured: boolean): void {
    const profile = variant.profile ?? 0;
    if (this.asked.get(variant.variant) === profile && !isMeasured) return;
    if (this.context.synced.isRecorded) return; // it has what was recorded
    this.asked.set(variant.variant, profile);
    this.context.synced.send({ type: "headline", variant: variant.variant, is_measured: isMeasured, profile });
  }

  /** Requests the findings with each headline, whose estimated times they use. */
  private requestFindings(): void {
    const { synced, local } = this.context;
    const reply = local.active === null ? null : this.reply(local.active);
    if (!reply || synced.isAlone || this.found.get(reply.variant) === reply.can_measure) return;
    this.found.set(reply.variant, reply.can_measure);
    synced.send({ type: "findings", variant: reply.variant });
  }

  /** Measures this machine's roofs once no variant is busy. */
  private measureLater(): void {
    if (this.isMeasuring || this.context.synced.isAlone) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const { synced, local } = this.context;
      const isBusy = [...synced.variants.values()].some(
        ({ state }) => !["done", "failed", "cancelled"].includes(state),
      );
      if (isBusy || this.isMeasuring || local.variant?.state !== "done") return;
      this.isMeasuring = true;
      this.request(local.variant, true);
    }, MEASURE_AFTER_MS);
  }

  /** Shows the estimates of all variants once the roofs are measured. */
  private receive(): void {
    const { local, synced } = this.context;
    const variant = local.active;
    this.requestFindings();
    if (!this.isMeasuring || variant === null || this.reply(variant)?.can_measure !== false) return;
    this.isMeasuring = false;
    local.costs.renew();
    for (const other of synced.variants.values())
      if (other.variant !== variant && this.reply(other.variant)?.can_measure) this.asked.delete(other.variant);
  }

  private waiting({ state, error }: messages.VariantMessage): HTMLElement {
    if (state === "cancelled") return this.dim("Compilation canceled");
    if (state !== "failed") return this.dim("Compiling");
    const reason = error?.message ?? "";
    return h(
      "span",
      { class: "insp-headline-failed", title: reason },
      h("b", { class: "insp-bad" }, "Compilation failed"),
      reason && `: ${reason.split("\n", 1)[0]}`,
    );
  }

  private dim(text: string): HTMLElement {
    return h("span", { class: "insp-dim" }, text);
  }

  private link(fact: messages.HeadlineFact): HTMLElement {
    const title = [fact.text, fact.details, HINTS[fact.subject]].filter(Boolean).join("\n"); // a narrow window cuts the text
    return h("button", { type: "button", class: "insp-fact", title, onclick: () => this.open(fact) }, fact.text);
  }

  private findings(text: string): HTMLElement {
    const onclick = (): void => this.context.local.reveal("findings");
    return h(
      "button",
      { type: "button", class: "insp-fact", title: `${text}\nOpens the pane Findings`, onclick },
      text,
    );
  }

  private open({ subject, instruction }: messages.HeadlineFact): void {
    const { local } = this.context;
    if (subject === "place" && local.hasInstruction("optimized", instruction)) {
      const document = this.context.synced.document("optimized", local.active)!;
      return local.goTo(document, document.lineOfInstruction(instruction));
    }
    const pane = subject === "time" && local.variant?.profile ? "profile" : PANES[subject];
    local.reveal(pane, subject === "donations" ? "donations" : subject === "memory" ? "table" : "");
  }
}

const PANES: Record<messages.Subject, messages.Pane> = {
  memory: "memory",
  time: "roofline",
  place: "roofline",
  communication: "collectives",
  donations: "memory",
};
const HINTS: Record<messages.Subject, string> = {
  memory: "Opens the pane Memory",
  time: "Opens the times of the kernels",
  place: "Goes to the slowest kernel there",
  communication: "Opens the pane Collectives",
  donations: "Opens the donated arguments in the pane Memory",
};
