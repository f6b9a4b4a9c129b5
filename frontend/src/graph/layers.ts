// The layers of a box and the order in each layer, for dagre, which then computes the coordinates. Its own algorithms
// are slower, do not place ports at the border, and depend on the order in which the graph was built.

import { graphlib } from "@dagrejs/dagre";

/** Tests for ports: where links enter a box ("i"), and where they leave it ("o"). */
export const isEntry = (end: string): boolean => end[0] === "i";
export const isExit = (end: string): boolean => end[0] === "o";

const SWEEPS = 8;

/**
 * Assigns layers by the longest path from the top. Nodes with more outputs than inputs move down to their users. Ports
 * are at the border, above or below everything else.
 */
export function rank(graph: graphlib.Graph): void {
  const order = graphlib.alg.topsort(graph);
  const length = (edge: { v: string; w: string }): number => graph.edge(edge).minlen as number;
  const rankOf = (end: string): number => graph.node(end).rank as number;
  for (const end of order) {
    const above = graph.inEdges(end) ?? [];
    graph.node(end).rank = Math.max(0, ...above.map((edge) => rankOf(edge.v) + length(edge)));
  }
  for (const end of order.reverse()) {
    const [above, below] = [graph.inEdges(end) ?? [], graph.outEdges(end) ?? []];
    if (!below.length || above.length > below.length || isEntry(end)) continue;
    graph.node(end).rank = Math.min(...below.map((edge) => rankOf(edge.w) - length(edge)));
  }
  const last = Math.max(...order.map(rankOf));
  for (const end of order) if (isExit(end)) graph.node(end).rank = last;
}

/** Orders each layer with few crossings: repeatedly sorts by the mean position of neighbors above, then below. */
export function order(graph: graphlib.Graph): void {
  const layers = layersOf(graph);
  const ends = layers.flat();
  const places = new Map(ends.map((end, i) => [end, i]));
  const near = (edges: (end: string) => string[]): number[][] =>
    ends.map((end) => edges(end).map((other) => places.get(other)!));
  const above = near((end) => (graph.inEdges(end) ?? []).map(({ v }) => v));
  const below = near((end) => (graph.outEdges(end) ?? []).map(({ w }) => w));
  let current = layers.map((layer) => layer.map((end) => places.get(end)!));
  const at = new Float64Array(ends.length);
  const number = (layer: readonly number[]): void => layer.forEach((node, i) => (at[node] = i));
  current.forEach(number);
  let [best, fewest] = [current, Infinity];
  for (let sweep = 0; sweep <= SWEEPS && fewest > 0; sweep++) {
    const isDown = sweep % 2 === 0;
    current = swept(current, isDown ? above : below, isDown, at, number);
    const crossings = current.reduce((sum, layer) => sum + crossingsBelow(layer, below, at), 0);
    if (crossings < fewest) [best, fewest] = [current, crossings];
  }
  for (const layer of best) layer.forEach((node, i) => (graph.node(ends[node]!).order = i));
}

function layersOf(graph: graphlib.Graph): string[][] {
  const layers: string[][] = [];
  for (const end of graph.nodes()) (layers[graph.node(end).rank as number] ??= []).push(end);
  return Array.from(layers, (layer) => layer ?? []);
}

function swept(
  layers: readonly number[][],
  near: readonly number[][],
  isDown: boolean,
  at: Float64Array,
  number: (layer: readonly number[]) => void,
): number[][] {
  const found = [...layers];
  const turn = layers.map((_, i) => (isDown ? i : layers.length - 1 - i));
  for (const i of turn) {
    const middle = new Map(layers[i]!.map((node) => [node, middleOf(near[node]!, at) ?? at[node]!]));
    found[i] = [...layers[i]!].sort((a, b) => middle.get(a)! - middle.get(b)! || at[a]! - at[b]!);
    number(found[i]!);
  }
  return found;
}

function middleOf(near: readonly number[], at: Float64Array): number | null {
  if (!near.length) return null;
  return near.reduce((sum, node) => sum + at[node]!, 0) / near.length;
}

/** Counts the crossings of the edges between a layer and the next one, which are the inversions of their ends. */
function crossingsBelow(layer: readonly number[], below: readonly number[][], at: Float64Array): number {
  const ends = layer.flatMap((node) => below[node]!.map((other) => at[other]!).sort((a, b) => a - b));
  const size = ends.reduce((most, end) => Math.max(most, end), 0) + 1;
  const counts = new Int32Array(size + 1);
  let crossings = 0;
  for (let i = ends.length - 1; i >= 0; i--) {
    for (let place = ends[i]!; place > 0; place -= place & -place) crossings += counts[place]!;
    for (let place = ends[i]! + 1; place <= size; place += place & -place) counts[place]! += 1;
  }
  return crossings;
}
