// The edges on screen, moved to the nodes that stand for their ends, and cut at the borders of open boxes.

import type { Folding } from "./folding.ts";
import { type GraphModel, NOWHERE } from "./model.ts";

/** An edge between two nodes on screen, which combines all edges from one to the other. */
export interface Link {
  readonly id: number;
  readonly from: number;
  readonly to: number;
  bytes: number;
  count: number;
}

/** A stretch of links in one open box, between its nodes or ports. */
export interface Stretch {
  readonly from: string;
  readonly to: string;
  /** The ports of open boxes at its ends; "" for none. */
  readonly leaves: string;
  readonly enters: string;
  /** Whether it leads upward, as between scopes that feed each other. */
  isBack: boolean;
  readonly links: Link[];
}

/** An open box with its contents. Ends are "n" and a node, or a port: "i" or "o" and the node on the other side. */
export interface Level {
  readonly box: number;
  readonly nodes: readonly number[];
  /** The ports: links enter at the top and leave at the bottom. */
  readonly ports: string[];
  readonly stretches: Map<string, Stretch>;
}

export const endOf = (node: number): string => `n${node}`;

/** Edges on one side of a node are hidden if it has more neighbors there. */
const MOST_NEIGHBORS = 12;
/** Largest number of separate ports on one side of a box. The other links share one port. */
const MOST_PORTS = 3;

export interface Scene {
  readonly top: number;
  readonly shown: readonly number[];
  readonly links: readonly Link[];
  /** Links of nodes with too many neighbors. They are shown only while the pointer is on one of their ends. */
  readonly hidden: readonly Link[];
  readonly levels: ReadonlyMap<number, Level>;
}

/** Returns everything that must be laid out. */
export function sceneOf(folding: Folding): Scene {
  const { model, top } = folding;
  const shown = folding.shown();
  const all = linksOf(model, standIns(folding));
  const crowded = crowdedOf(model, all);
  const links = all.filter((link) => !crowded(link));
  const levels = new Map<number, Level>();
  const level = (box: number): Level => {
    const found = { box, nodes: [], ports: [], stretches: new Map() };
    levels.set(box, found);
    return found;
  };
  level(top);
  for (const node of shown) if (folding.isOpen(node)) level(node);
  for (const node of shown) (levels.get(model.parents[node]!)!.nodes as number[]).push(node);
  for (const { nodes } of levels.values()) (nodes as number[]).sort((a, b) => byTitle(model, a, b));
  for (const link of links) cut(model, link, levels);
  for (const level of levels.values()) orient(model, level);
  return { top, shown, links, hidden: all.filter(crowded), levels };
}

/** Compares nodes by title or opcode, so that the order does not depend on the compiler's numbering. */
function byTitle(model: GraphModel, a: number, b: number): number {
  if (model.isBox(a) !== model.isBox(b)) return model.isBox(a) ? -1 : 1;
  if (model.isBox(a)) return collate(model.title(a), model.title(b)) || a - b;
  return collate(model.opcode(a), model.opcode(b)) || a - b;
}

const { compare: collate } = new Intl.Collator("en", { numeric: true });

/** Returns for each node the node on screen that stands for it, or NOWHERE. */
function standIns(folding: Folding): Int32Array {
  const { model, top } = folding;
  const found = new Int32Array(model.nodeCount).fill(NOWHERE);
  const isOpen = new Uint8Array(model.nodeCount);
  isOpen[top] = 1;
  for (const node of folding.shown()) if (folding.isOpen(node)) isOpen[node] = 1;
  for (const node of model.outerFirst) {
    const parent = model.parents[node]!;
    if (parent !== NOWHERE) found[node] = isOpen[parent] ? node : found[parent]!;
  }
  return found;
}

/** Returns the edges between nodes on screen, combined. */
function linksOf(model: GraphModel, standIn: Int32Array): Link[] {
  const found = new Map<number, Link>();
  const { sources, targets, nodeCount } = model;
  for (let edge = 0; edge < sources.length; edge++) {
    const [from, to] = [standIn[sources[edge]!]!, standIn[targets[edge]!]!];
    if (from === to || from === NOWHERE || to === NOWHERE) continue;
    const key = from * nodeCount + to;
    let link = found.get(key);
    if (!link) found.set(key, (link = { id: found.size, from, to, bytes: 0, count: 0 }));
    link.bytes += model.bytesOfEdge(edge);
    link.count += 1;
  }
  return [...found.values()];
}

/** Returns a test for links of inputs or instructions that are connected to nearly everything. */
function crowdedOf(model: GraphModel, links: readonly Link[]): (link: Link) => boolean {
  const [out, into] = [new Map<number, number>(), new Map<number, number>()];
  const add = (counts: Map<number, number>, node: number): void => void counts.set(node, (counts.get(node) ?? 0) + 1);
  const inputsOf = (node: number): number => {
    for (let at = node; at !== NOWHERE; at = model.parents[at]!) if (model.kind(at) === "inputs") node = at;
    return node;
  };
  const isScope = (node: number): boolean => model.isBox(node) && model.kind(node) !== "inputs";
  for (const { from, to } of links) {
    add(out, inputsOf(from));
    add(into, to);
  }
  return ({ from, to }) =>
    (!isScope(from) && out.get(inputsOf(from))! > MOST_NEIGHBORS) || (!isScope(to) && into.get(to)! > MOST_NEIGHBORS);
}

/** Cuts a link into stretches: out of the boxes around its start, across, and into the boxes around its end. */
function cut(model: GraphModel, link: Link, levels: ReadonlyMap<number, Level>): void {
  let [from, to] = [link.from, link.to];
  const [starts, ends]: [number[], number[]] = [[], []];
  while (model.parents[from] !== model.parents[to]) {
    const isFromDeeper = model.depths[from]! >= model.depths[to]!;
    const isToDeeper = model.depths[to]! >= model.depths[from]!;
    if (isFromDeeper) starts.push((from = model.parents[from]!));
    if (isToDeeper) ends.push((to = model.parents[to]!));
  }
  let [at, leaves] = [endOf(link.from), ""];
  for (const box of starts) {
    const port = portOf(levels.get(box)!, "o", to);
    add(levels.get(box)!, { from: at, to: port, leaves, enters: "" }, link);
    [at, leaves] = [endOf(box), port];
  }
  let [end, enters] = [endOf(link.to), ""];
  for (const box of ends) {
    const port = portOf(levels.get(box)!, "i", from);
    add(levels.get(box)!, { from: port, to: end, leaves: "", enters }, link);
    [end, enters] = [endOf(box), port];
  }
  add(levels.get(model.parents[from]!)!, { from: at, to: end, leaves, enters }, link);
}

function portOf({ ports }: Level, side: "i" | "o", other: number): string {
  const port = `${side}${other}`;
  if (ports.includes(port)) return port;
  const shared = `${side}*`;
  const isFull = ports.filter((each) => each[0] === side).length >= MOST_PORTS;
  if (isFull && ports.includes(shared)) return shared;
  ports.push(isFull ? shared : port);
  return isFull ? shared : port;
}

function add({ stretches }: Level, ends: Omit<Stretch, "links" | "isBack">, link: Link): void {
  const key = `${ends.from}>${ends.to}`;
  const known = stretches.get(key);
  if (known) known.links.push(link);
  else stretches.set(key, { ...ends, isBack: false, links: [link] });
}

/** Orients stretches with few of them upward: starts with the schedule order and moves each node to its best place. */
function orient(model: GraphModel, { nodes, stretches }: Level): void {
  const within = [...stretches.values()].filter(({ from, to }) => from[0] === "n" && to[0] === "n");
  const pulls = new Map<number, Map<number, number>>(nodes.map((node) => [node, new Map()]));
  const pull = (node: number, other: number, weight: number): void =>
    void pulls.get(node)!.set(other, (pulls.get(node)!.get(other) ?? 0) + weight);
  for (const { from, to, links } of within) {
    const [a, b] = [Number(from.slice(1)), Number(to.slice(1))];
    const weight = links.reduce((sum, { count }) => sum + count, 0);
    pull(a, b, weight);
    pull(b, a, -weight);
  }
  const sequence = [...nodes].sort((a, b) => model.order[a]! - model.order[b]!);
  for (const node of [...sequence]) sift(sequence, node, pulls.get(node)!);
  const places = new Map(sequence.map((node, i) => [endOf(node), i]));
  for (const stretch of within) stretch.isBack = places.get(stretch.from)! > places.get(stretch.to)!;
}

/** Moves a node to its best place in a sequence: after its producers and before its users. */
function sift(sequence: number[], node: number, pulls: ReadonlyMap<number, number>): void {
  const now = sequence.indexOf(node);
  let [best, least] = [now, 0];
  for (const direction of [1, -1]) {
    let cost = 0;
    for (let i = now + direction; i >= 0 && i < sequence.length; i += direction) {
      cost += direction * (pulls.get(sequence[i]!) ?? 0);
      if (cost < least) [best, least] = [i, cost];
    }
  }
  if (best !== now) sequence.splice(best, 0, ...sequence.splice(now, 1));
}
