// The costs of the lines of the variants, requested from Python once per variant when they are shown.

import { LineCosts, type Measure, MEASURES } from "../lib/linecosts.ts";
import { decodeJson } from "../lib/transport.ts";
import type { TextDocument } from "../lib/documents.ts";
import type * as messages from "../messages.ts";
import type { Message, Synced } from "./synced.ts";

type Columns = Readonly<Record<string, messages.LineCostColumns>>;

export class Costs {
  /** The number of the profile in the latest request of each variant. */
  private readonly asked = new Map<number, number>();
  private readonly columns = new WeakMap<object, Columns>();
  private readonly scopeColumns = new WeakMap<object, messages.ScopeCostColumns>();
  private readonly made = new WeakMap<object, Map<string, LineCosts>>();

  /** How often this machine's roofs were measured here. */
  measuredRoofs = 0;

  constructor(private readonly synced: Synced) {}

  /**
   * Returns the costs of a variant, requesting them once it is compiled and again once it is profiled. Python sends more
   * after more is recorded.
   */
  reply(variant: number): Message<"line_costs"> | null {
    const known = this.synced.variants.get(variant);
    if (known?.state === "done" && this.asked.get(variant) !== profileOf(known)) this.ask(variant, false);
    return this.synced.latest("line_costs", { variant });
  }

  /** Returns whether the measured times of a profiled variant are on their way. */
  awaitsTimes(variant: number): boolean {
    const known = this.synced.variants.get(variant);
    const reply = this.synced.latest("line_costs", { variant });
    return known !== undefined && reply !== null && profileOf(reply) !== profileOf(known) && !this.synced.isAlone;
  }

  ask(variant: number, isMeasured: boolean): void {
    const profile = profileOf(this.synced.variants.get(variant)!);
    this.asked.set(variant, profile);
    this.synced.send({ type: "line_costs", variant, is_measured: isMeasured, profile });
  }

  /** Requests the costs of the variants without estimated times again, after this machine's roofs were measured. */
  renew(): void {
    this.measuredRoofs++;
    for (const variant of this.asked.keys())
      if (this.synced.latest("line_costs", { variant })?.can_measure) this.ask(variant, false);
  }

  /** Returns the costs of a line in words, a row for each known measure. */
  describe(document: TextDocument, variant: number, line: number): string[] {
    const reply = this.reply(variant);
    return MEASURES.flatMap(({ value, text }) => {
      const costs = reply && this.from(reply, document, value);
      const cost = costs?.of(line);
      return cost ? [`${text}: ${costs!.text(cost.amount)}, ${costs!.share(cost.amount)} of the program`] : [];
    });
  }

  /** Returns the costs of the lines of a text; null if the measure is unknown. */
  of(document: TextDocument, variant: number, measure: Measure): LineCosts | null {
    const reply = this.reply(variant);
    return reply && this.from(reply, document, measure);
  }

  /** Returns the costs of a variant by scope; null before they are known, after errors, and in older recordings. */
  scopes(variant: number): messages.ScopeCostColumns | null {
    const reply = this.reply(variant);
    const buffer = reply && this.synced.parts(reply)[1];
    if (!buffer) return null;
    let scopes = this.scopeColumns.get(reply);
    if (!scopes) this.scopeColumns.set(reply, (scopes = decodeJson<messages.ScopeCostColumns>(buffer)));
    return scopes;
  }

  private from(reply: Message<"line_costs">, document: TextDocument, measure: Measure): LineCosts | null {
    const total = reply.total?.[measure] ?? null;
    if (total === null) return null;
    let columns = this.columns.get(reply);
    if (!columns) this.columns.set(reply, (columns = decodeJson<Columns>(this.synced.parts(reply)[0]!)));
    let made = this.made.get(reply);
    if (!made) this.made.set(reply, (made = new Map()));
    const key = `${document.pane}/${measure}`;
    const known = made.get(key);
    if (known) return known;
    const found = columns[document.pane];
    if (!found) return null;
    const costs = new LineCosts(measure, total, found);
    made.set(key, costs);
    return costs;
  }
}

/** Returns the number of the profile in a message; 0 for none, also in older recordings. */
function profileOf({ profile }: messages.VariantMessage | messages.LineCostsMessage): number {
  return profile ?? 0;
}
