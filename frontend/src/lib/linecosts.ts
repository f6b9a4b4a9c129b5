// What each line of a text costs, by one measure, and how that is shown beside it.

import type * as messages from "../messages.ts";
import { format } from "./format.ts";

export type Measure = keyof messages.LineCostTotals;

export const MEASURES: readonly { readonly value: Measure; readonly text: string }[] = [
  { value: "least_s", text: "Least time" },
  { value: "flops", text: "Flops" },
  { value: "main_memory_bytes", text: "Bytes" },
  { value: "peak_bytes", text: "Memory at the peak" },
];

/** An amount of one line, and of each part of a differentiated program that it belongs to. */
export interface LineCost {
  readonly line: number;
  readonly amount: number;
  readonly phases: readonly { readonly phase: string; readonly amount: number }[];
}

/** The lines of one text by one measure. */
export class LineCosts {
  /** What no line of the text stands for. */
  readonly lost: number;
  private readonly byLine = new Map<number, LineCost>();
  private readonly most: number;

  constructor(
    readonly measure: Measure,
    /** Of the whole program. */
    readonly total: number,
    columns: messages.LineCostColumns,
  ) {
    let lost = 0;
    columns.line.forEach((line, row) => {
      const amount = columns[measure][row]!;
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

  /** The lines that cost something. */
  get all(): Iterable<LineCost> {
    return this.byLine.values();
  }

  /** The lines that cost most, the costliest first. */
  heaviest(count: number): LineCost[] {
    return [...this.byLine.values()].sort((a, b) => b.amount - a.amount || a.line - b.line).slice(0, count);
  }

  /** How long the bar of a line is, of the longest one's length. */
  length(cost: LineCost): number {
    return this.most ? cost.amount / this.most : 0;
  }

  share(amount: number): string {
    return shareText(this.total ? amount / this.total : 0);
  }

  text(amount: number): string {
    return format(amount, UNITS[this.measure]);
  }

  /** A line's cost in words. */
  describe(cost: LineCost): string {
    const of = (amount: number): string => `${this.text(amount)}, ${this.share(amount)} of the program`;
    const parts = cost.phases.map(({ phase, amount }) => `${phase || "no phase known"}: ${of(amount)}`);
    return parts.length > 1 ? [of(cost.amount), ...parts].join("\n") : parts.join("\n");
  }
}

const UNITS = { least_s: "seconds", flops: "count", main_memory_bytes: "bytes", peak_bytes: "bytes" } as const;

/** `0.123` -> `12 %`; what is little is not nothing. */
export function shareText(share: number): string {
  const percent = 100 * share;
  if (percent > 0 && percent < 0.1) return "<0.1 %";
  return `${percent.toFixed(percent < 9.95 && percent > 0 ? 1 : 0)} %`;
}
