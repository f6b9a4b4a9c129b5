// The cost of each line of a text by one measure, and its display.

import type * as messages from "../messages.ts";
import { format } from "./format.ts";

export type Measure = keyof messages.LineCostTotals;

/** Times that differ less are shown as one. */
const SAME = 0.005;

export const MEASURES: readonly { readonly value: Measure; readonly text: string }[] = [
  { value: "measured_s", text: "Measured time" },
  { value: "least_s", text: "Estimated time" },
  { value: "flops", text: "FLOPs" },
  { value: "main_memory_bytes", text: "Bytes" },
  { value: "peak_bytes", text: "Peak memory" },
];

/** Returns the time of one execution in words, and the sum of its kernels' times if it differs. */
export function estimatedTime({ total, program_s: program }: messages.LineCostsMessage): string {
  const sum = total!.least_s!;
  if (program == null || Math.abs(sum - program) <= SAME * sum)
    return `Estimated time: ≈ ${amountText(sum, "least_s")}`;
  return `Estimated time: ≈ ${amountText(program, "least_s")}; the kernels add up to ${amountText(sum, "least_s")}`;
}

/** Why an execution can be shorter than the sum of its kernels' times. */
export const WHY_SHORTER = "Kernels overlap, or only one branch of a conditional runs";

/** Returns whether a measure is computed from estimates, which may leave out kernels of unknown cost. */
export function isEstimated(measure: Measure): boolean {
  return measure !== "measured_s" && measure !== "peak_bytes";
}

/** The cost of one line, in total and by phase of a differentiated program. */
export interface LineCost {
  readonly line: number;
  readonly amount: number;
  readonly phases: readonly { readonly phase: string; readonly amount: number }[];
}

/** The costs of the lines of one text by one measure. */
export class LineCosts {
  /** The cost that belongs to no line of the text. */
  readonly lost: number;
  private readonly byLine = new Map<number, LineCost>();
  private readonly most: number;

  constructor(
    readonly measure: Measure,
    /** The cost of the whole program. */
    readonly total: number,
    columns: messages.LineCostColumns,
  ) {
    let lost = 0;
    columns.line.forEach((line, row) => {
      const amount = columns[measure]?.[row] ?? 0; // older recordings lack measured times
      if (!amount) return;
      if (line < 0) return void (lost += amount);
      const known = this.byLine.get(line);
      this.byLine.set(line, {
        line,
        amount: amount + (known?.amount ?? 0),
        phases: [...(known?.phases ?? []), { phase: columns.phase[row]!, amount }],
      });
    });
    this.lost = lost;
    this.most = Math.max(0, ...[...this.byLine.values()].map(({ amount }) => amount));
  }

  of(line: number): LineCost | null {
    return this.byLine.get(line) ?? null;
  }

  /** The lines with a cost. */
  get all(): Iterable<LineCost> {
    return this.byLine.values();
  }

  /** Returns the lines with the highest cost, in descending order. */
  heaviest(count: number): LineCost[] {
    return [...this.byLine.values()].sort((a, b) => b.amount - a.amount || a.line - b.line).slice(0, count);
  }

  /** Returns the length of a line's bar relative to the longest one. */
  length(cost: LineCost): number {
    return this.most ? cost.amount / this.most : 0;
  }

  share(amount: number): string {
    return shareText(this.total ? amount / this.total : 0);
  }

  text(amount: number): string {
    return amountText(amount, this.measure);
  }

  /** Returns a line's cost in words. */
  describe(cost: LineCost): string {
    const of = (amount: number): string => `${this.text(amount)}, ${this.share(amount)} of the program`;
    const parts = cost.phases.map(({ phase, amount }) => `${phase || "unknown phase"}: ${of(amount)}`);
    return parts.length > 1 ? [of(cost.amount), ...parts].join("\n") : parts.join("\n");
  }
}

const UNITS = {
  measured_s: "seconds",
  least_s: "seconds",
  flops: "count",
  main_memory_bytes: "bytes",
  peak_bytes: "bytes",
} as const;

/** Returns an amount with its unit, such as `12 µs`. */
export function amountText(amount: number, measure: Measure): string {
  return format(amount, UNITS[measure]);
}

/** `0.123` -> `12 %`. Small shares are shown as `<0.1 %`, not 0. */
export function shareText(share: number): string {
  const percent = 100 * share;
  if (percent > 0 && percent < 0.1) return "<0.1 %";
  return `${percent.toFixed(percent < 9.95 && percent > 0 ? 1 : 0)} %`;
}
