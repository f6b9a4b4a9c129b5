// Estimated times of algorithms on links: the model of Python's `AlgorithmCost.seconds`, for sizes, speeds and latencies that
// the reader chooses.

import type { AlgorithmCostMessage } from "../messages.ts";

interface LinkSpeed {
  readonly bytes_per_s: number;
  readonly latency_s: number;
}

/** Returns the latency of the hops in sequence plus the bytes on the busiest link over its speed, in seconds. */
export function secondsOf(cost: AlgorithmCostMessage, size: number, { bytes_per_s, latency_s }: LinkSpeed): number {
  const busiest = cost.busiest * size;
  return busiest ? cost.hops * latency_s + busiest / bytes_per_s : 0;
}

/** The fastest algorithm of a range of sizes, which begins at `from` bytes. */
interface Regime {
  readonly cost: AlgorithmCostMessage;
  readonly from: number;
}

/** Returns the fastest algorithm for each size between two sizes, in order. Times are linear in the size. */
export function regimesOf(
  costs: readonly AlgorithmCostMessage[],
  links: LinkSpeed,
  smallest: number,
  largest: number,
): Regime[] {
  const fixed = (cost: AlgorithmCostMessage): number => (cost.busiest ? cost.hops * links.latency_s : 0);
  const isFaster = (a: AlgorithmCostMessage, b: AlgorithmCostMessage): boolean => {
    const difference = secondsOf(a, smallest, links) - secondsOf(b, smallest, links);
    return difference < 0 || (difference === 0 && a.busiest < b.busiest);
  };
  let cost = costs.reduce((best, each) => (isFaster(each, best) ? each : best));
  const regimes: Regime[] = [{ cost, from: smallest }];
  for (;;) {
    const current = cost;
    const next = costs
      .filter(({ busiest }) => busiest < current.busiest)
      .map((other) => ({
        cost: other,
        from: ((fixed(other) - fixed(current)) * links.bytes_per_s) / (current.busiest - other.busiest),
      }))
      .sort((a, b) => a.from - b.from || a.cost.busiest - b.cost.busiest)[0];
    if (!next || next.from > largest) return regimes;
    regimes.push(next);
    cost = next.cost;
  }
}
