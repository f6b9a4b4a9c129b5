// The edges on screen, lifted to what stands for their ends, and cut where they pass the border of an open box.

import type { Folding } from "./folding.ts";
import { type GraphModel, NOWHERE } from "./model.ts";

/** An edge between two nodes on screen, for all those that lead from one to the other. */
export interface Link {
  readonly id: number;
  readonly from: number;
  readonly to: number;
  bytes: number;
  count: number;
}

/** A stretch of links in one open box, between nodes of it, or its ports. */
export interface Stretch {
  readonly from: string;
  readonly to: string;
  /** The ports of the open boxes at its ends, "" where there is none. */
  readonly leaves: string;
  readonly enters: string;
  /** Whether it leads upwards, as between scopes that feed each other. */
  isBack: boolean;
  readonly links: Link[];
}

/** An open box with what is drawn in it; ends are "n" and a node, or a port: "i" or "o" and the node at the other side. */
export interface Level {
  readonly box: number;
  readonly nodes: readonly number[];
  /** Where links come in at the top, and go out at the bottom. */
  readonly ports: string[];
  readonly stretches: Map<string, Stretch>;
}

export const endOf = (node: number): string => `n${node}`;

/** Nodes with more neighbors than that on one side have no edges of their own there. */
const MOST_NEIGHBORS = 12;
/** Ports on one side of a box; the rest share one. */
const MOST_PORTS = 3;

export interface Scene {
  readonly top: number;
  readonly shown: readonly number[];
  readonly links: readonly Link[];
  /** Links that are shown only for the node that is pointed at: those of what is connected to everything. */
  readonly hidden: readonly Link[];
  readonly levels: ReadonlyMap<number, Level>;
}

/** All that is to be laid out. */
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

/** The same order for what has the same name, whatever numbers the compiler gave it. */
function byTitle(model: GraphModel, a: number, b: number): number {
  if (model.isBox(a) !== model.isBox(b)) return model.isBox(a) ? -1 : 1;
  if (model.isBox(a)) return collate(model.title(a), model.title(b)) || a - b;
  return collate(model.opcode(a), model.opcode(b)) || a - b;
}

const { compare: collate } = new Intl.Collator("en", { numeric: true });

/** Of each node what stands for it on screen, or NOWHERE. */
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

/** The edges between what is on screen, summed. */
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

/** Whether a link belongs to inputs or an instruction that nearly everything is connected to. */
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

/** Cuts a link into stretches: out of the boxes around its start, across, and into those around its end. */
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

/** Has as little as possible lead upwards: nodes take the place in the schedule's order at which least does. */
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

/** Moves a node to the best place of a sequence: behind what pulls it there, before what it pulls. */
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
