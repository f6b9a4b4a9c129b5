// What explorables compute in the page: the numbers of Python's models, which tests/course/explorable_numbers.py writes.

import assert from "node:assert/strict";
import { test } from "node:test";
import { groupsOver } from "../src/lib/axisenv.ts";
import { iotaText } from "../src/lib/iota.ts";
import { regimesOf, secondsOf } from "../src/lib/linktime.ts";
import { linksOf, loadsOf } from "../src/lib/torusroutes.ts";
import type { AlgorithmCostMessage, MeshMessage } from "../src/messages.ts";
import known from "./explorables.json";

function meshOf(sizes: Record<string, number>): MeshMessage {
  const [axis_names, axis_sizes] = [Object.keys(sizes), Object.values(sizes)];
  return { axis_names, axis_sizes, kind: "replica", device_ids: null, physical_ids: null };
}

test("times of algorithms are those of Python", () => {
  assert.ok(known.times.length > 100);
  for (const { cost, size, seconds, ...links } of known.times) {
    const found = secondsOf(cost, size, links);
    assert.ok(Math.abs(found - seconds) <= 1e-12 * seconds, `${cost.algorithm}: ${found}, expected ${seconds}`);
  }
});

test("groups and their iota notation are those of JAX", () => {
  for (const { sizes, over, iota, groups } of known.groupings) {
    const present = Object.fromEntries(Object.entries(sizes).filter(([, size]) => size !== undefined));
    assert.deepEqual(groupsOver(meshOf(present), over), groups);
    assert.equal(iotaText(meshOf(present), over), iota);
  }
});

test("the loads of links are those of Python", () => {
  for (const { shape, wraps, pairs, loads, hops, links } of known.routes) {
    const found = loadsOf({ shape, wraps }, pairs as [number, number][]);
    assert.equal(found.hops, hops);
    assert.deepEqual(Object.fromEntries([...found.loads].sort(([a], [b]) => (a < b ? -1 : 1))), loads);
    const own = linksOf({ shape, wraps }).sort(([a, b], [c, d]) => a - c || b - d);
    assert.deepEqual(own, links);
  }
});

test("the fastest algorithm changes where times cross", () => {
  const cost = (algorithm: string, hops: number, busiest: number): AlgorithmCostMessage => {
    return { algorithm, steps: 0, hops, busiest, sent: 0 };
  };
  const costs = [cost("slow start", 10, 1), cost("never", 20, 3), cost("quick start", 2, 2), cost("between", 4, 1.5)];
  const links = { bytes_per_s: 1e9, latency_s: 1e-6 };
  const regimes = regimesOf(costs, links, 1, 1e9);
  assert.deepEqual(regimes.map(({ cost }) => cost.algorithm), ["quick start", "between", "slow start"]); // prettier-ignore
  assert.deepEqual(regimes.slice(1).map(({ from }) => Math.round(from)), [4000, 12000]); // prettier-ignore
  for (let size = 1; size < 1e9; size *= 1.7) {
    const least = Math.min(...costs.map((each) => secondsOf(each, size, links)));
    const current = regimes.filter(({ from }) => from <= size).at(-1)!;
    assert.ok(secondsOf(current.cost, size, links) <= least * (1 + 1e-9), `at ${size}`);
  }
  assert.equal(regimesOf(costs, links, 1, 5000).length, 2);
});
