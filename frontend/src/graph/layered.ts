// The layout of the nodes on screen. Each open box is laid out separately, in layers from top to bottom, and is then
// one node of the box around it. Opening or closing a box therefore moves only the nodes that must make room for it.

import { graphlib, layout } from "@dagrejs/dagre";
import { isEntry, isExit, order, rank } from "./layers.ts";
import { endOf, type Level, type Scene, type Stretch } from "./levels.ts";

export interface Point {
  readonly x: number;
  readonly y: number;
}

export interface Size {
  readonly width: number;
  readonly height: number;
}

export interface Place extends Point, Size {}

/** A drawn stretch of links. */
interface Line {
  readonly stretch: Stretch;
  readonly points: readonly Point[];
}

export interface Layout {
  /** The place of each node on screen; x and y are those of its upper left corner. */
  readonly places: ReadonlyMap<number, Place>;
  readonly lines: readonly Line[];
  readonly size: Size;
}

/** Space above the contents of an open box for its title, and around them. */
const HEADER = 22;
const MARGIN = 12;
const NODE_GAP = 14;
const LAYER_GAP = 30;
const LINE_GAP = 8;
/** From this number on, unconnected nodes are arranged in rows. */
const FEWEST_LOOSE = 4;
const BLOCK = "b";
/** Smallest distance between the end of a line and the corner of a node. */
const TOUCH = 10;
/** Aspect ratio of rows: a square would be too high for a screen. */
const ASPECT = 2;

/** The layout of one open box, with places relative to its upper left corner. */
interface Inner {
  readonly key: string;
  readonly size: Size;
  readonly places: ReadonlyMap<string, Place>;
  readonly lines: readonly Line[];
}

/** Lays out scenes of one module. Unchanged boxes are not laid out again. */
export class Layouts {
  private readonly known = new Map<number, Inner>();

  constructor(private readonly sizeOf: (node: number) => Size) {}

  of(scene: Scene): Layout {
    const inner = new Map<number, Inner>();
    for (const level of [...scene.levels.values()].reverse()) inner.set(level.box, this.inner(level, inner));
    const places = new Map<number, Place>();
    const lines: Line[] = [];
    const spread = (box: number, at: Point): void => {
      const { places: inside, lines: drawn } = inner.get(box)!;
      for (const node of scene.levels.get(box)!.nodes) {
        const place = moved(inside.get(endOf(node))!, at);
        places.set(node, place);
        if (inner.has(node)) spread(node, place);
      }
      for (const { stretch, points } of drawn) lines.push({ stretch, points: points.map((point) => moved(point, at)) });
    };
    spread(scene.top, { x: 0, y: 0 });
    return { places, lines, size: inner.get(scene.top)!.size };
  }

  private inner(level: Level, open: ReadonlyMap<number, Inner>): Inner {
    const key = keyOf(level, open);
    const known = this.known.get(level.box);
    if (known?.key === key) return { ...known, lines: renewed(known.lines, level) };
    const inner = { key, ...arranged(level, (node) => open.get(node)?.size ?? this.sizeOf(node), open) };
    this.known.set(level.box, inner);
    return inner;
  }
}

/** Returns a key of everything that the layout of a box depends on. */
function keyOf({ nodes, ports, stretches }: Level, open: ReadonlyMap<number, Inner>): string {
  const inside = nodes.map((node) => (open.has(node) ? `${node}(${open.get(node)!.key})` : node));
  return [inside.join(), ports.join(), [...stretches.keys()].join()].join("|");
}

/** Returns the same lines for the new stretches. */
function renewed(lines: readonly Line[], { stretches }: Level): Line[] {
  return lines.map(({ stretch, points }) => ({ stretch: stretches.get(`${stretch.from}>${stretch.to}`)!, points }));
}

/** Arranges unconnected parts of a box in rows, because side by side in layers they would form a long strip. */
function arranged(level: Level, sizeOf: (node: number) => Size, open: ReadonlyMap<number, Inner>): Omit<Inner, "key"> {
  const parts = level.ports.length ? [level] : partsOf(level);
  if (parts.length < 2) return layered(level, sizeOf, open);
  const inner = parts.map((part) => layered(part, sizeOf, open));
  const frame = { width: 2 * MARGIN, height: 2 * MARGIN + HEADER };
  const inside = inner.map(({ size }) => ({ width: size.width - frame.width, height: size.height - frame.height }));
  const rows = rowsOf([...parts.keys()], (part) => inside[part]!);
  const places = new Map<string, Place>();
  const lines = inner.flatMap((part, i) => {
    for (const [end, place] of part.places) places.set(end, moved(place, rows.places.get(i)!));
    return part.lines.map(({ stretch, points }) => ({
      stretch,
      points: points.map((point) => moved(point, rows.places.get(i)!)),
    }));
  });
  return { size: { width: rows.size.width + frame.width, height: rows.size.height + frame.height }, places, lines };
}

/** Returns the connected parts as separate levels, and one with all unconnected nodes, in the order of the nodes. */
function partsOf(level: Level): Level[] {
  const near = new Map<string, string[]>(level.nodes.map((node) => [endOf(node), []]));
  for (const { from, to } of level.stretches.values()) {
    near.get(from)!.push(to);
    near.get(to)!.push(from);
  }
  const parts = new Map<string, { nodes: number[]; key: string }>();
  const alone = { nodes: [] as number[], key: "" };
  for (const node of level.nodes) {
    const end = endOf(node);
    if (parts.has(end)) parts.get(end)!.nodes.push(node);
    else if (!near.get(end)!.length) alone.nodes.push(node);
    else {
      const part = { nodes: [node], key: end };
      for (const waiting = [end]; waiting.length;) {
        const next = waiting.pop()!;
        if (parts.has(next)) continue;
        parts.set(next, part);
        waiting.push(...near.get(next)!);
      }
    }
  }
  const all = [...new Set(parts.values()), ...(alone.nodes.length ? [alone] : [])];
  return all.map(({ nodes, key }) => {
    const own = [...level.stretches].filter(([, { from }]) => key && parts.get(from)?.key === key);
    return { box: level.box, nodes, ports: [], stretches: new Map(own) };
  });
}

function layered(level: Level, sizeOf: (node: number) => Size, open: ReadonlyMap<number, Inner>): Omit<Inner, "key"> {
  const loose = looseIn(level);
  const block = rowsOf([...loose], sizeOf);
  const graph = new graphlib.Graph();
  graph.setGraph({
    nodesep: NODE_GAP,
    edgesep: LINE_GAP,
    ranksep: LAYER_GAP,
    ranker: rank as never /* missing in its types */,
  });
  for (const node of level.nodes) if (!loose.has(node)) graph.setNode(endOf(node), { ...sizeOf(node) });
  for (const port of level.ports) graph.setNode(port, { width: 2, height: 1 });
  const standIn = (end: string): string => (end[0] === "n" && loose.has(Number(end.slice(1))) ? BLOCK : end);
  const stretches = [...level.stretches.values()];
  if (loose.size) graph.setNode(BLOCK, { ...block.size });
  const endsOf = ({ from, to, isBack }: Stretch): { v: string; w: string } =>
    isBack ? { v: standIn(to), w: standIn(from) } : { v: standIn(from), w: standIn(to) };
  for (const stretch of stretches) {
    const { v, w } = endsOf(stretch);
    if (v !== w) graph.setEdge(v, w, {});
  }
  layout(graph, { customOrder: order });
  const { width = 0, height = 0 } = graph.graph();
  const size = { width: width + 2 * MARGIN, height: height + 2 * MARGIN + HEADER };
  const places = new Map<string, Place>();
  const shift = { x: MARGIN, y: MARGIN + HEADER };
  for (const end of graph.nodes()) places.set(end, moved(cornered(graph.node(end)), shift));
  for (const [node, place] of block.places) places.set(endOf(node), moved(place, places.get(BLOCK)!));
  const lines = stretches.map((stretch) => {
    const points = (graph.edge(endsOf(stretch)).points as Point[]).map((point) => moved(point, shift));
    if (stretch.isBack) points.reverse();
    return { stretch, points: attached(stretch, points, places, open, size.height) };
  });
  return { size, places, lines };
}

/** Returns the nodes of a box without connections, if there are at least `FEWEST_LOOSE`. */
function looseIn({ nodes, stretches }: Level): ReadonlySet<number> {
  const tied = new Set<string>();
  for (const { from, to } of stretches.values()) {
    if (from[0] === "n" && to[0] === "n") tied.add(from).add(to);
  }
  const loose = nodes.filter((node) => !tied.has(endOf(node)));
  return new Set(loose.length < FEWEST_LOOSE ? [] : loose);
}

/** Arranges nodes in rows with about the aspect ratio of a screen. */
function rowsOf(nodes: readonly number[], sizeOf: (node: number) => Size): { size: Size; places: Map<number, Place> } {
  const area = nodes.reduce((sum, node) => sum + (sizeOf(node).width + NODE_GAP) * (sizeOf(node).height + NODE_GAP), 0);
  const limit = Math.sqrt(area * ASPECT);
  const places = new Map<number, Place>();
  let [x, y, right, bottom] = [0, 0, 0, 0];
  for (const node of nodes) {
    const size = sizeOf(node);
    if (x > 0 && x + size.width > limit) [x, y] = [0, bottom + NODE_GAP];
    places.set(node, { x, y, ...size });
    x += size.width + NODE_GAP;
    [right, bottom] = [Math.max(right, x - NODE_GAP), Math.max(bottom, y + size.height)];
  }
  return { size: { width: right, height: bottom }, places };
}

/**
 * Returns the points of a line with its ends attached: below the first node and above the last one, or at the port of
 * an open box.
 */
function attached(
  { from, to, leaves, enters, isBack }: Stretch,
  points: readonly Point[],
  places: ReadonlyMap<string, Place>,
  open: ReadonlyMap<number, Inner>,
  bottom: number,
): Point[] {
  const touch = (end: string, port: string, next: Point, isBelow: boolean): Point => {
    const place = places.get(end)!;
    const inner = port && open.get(Number(end.slice(1)))?.places.get(port);
    const edge = Math.min(TOUCH, place.width / 2);
    const x = inner ? place.x + inner.x : Math.max(place.x + edge, Math.min(place.x + place.width - edge, next.x));
    return { x, y: isBelow ? bottomOf(place) : place.y };
  };
  const between = points.slice(1, -1);
  const [first, last] = [between[0]!, between[between.length - 1]!];
  const start = isEntry(from) ? { x: places.get(from)!.x, y: 0 } : touch(from, leaves, first, !isBack);
  const end = isExit(to) ? { x: places.get(to)!.x, y: bottom } : touch(to, enters, last, isBack);
  return between.length > 1 ? [start, ...between, end] : [start, end];
}

const bottomOf = ({ y, height }: Place): number => y + height;

/** Converts dagre's position of a node, which is its center. */
function cornered({ x, y, width, height }: Place): Place {
  return { x: x - width / 2, y: y - height / 2, width, height };
}

function moved<T extends Point>(point: T, by: Point): T {
  return { ...point, x: point.x + by.x, y: point.y + by.y };
}
