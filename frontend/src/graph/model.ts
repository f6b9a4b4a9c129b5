// The nodes and edges of a variant's module as columns: its instructions, then the boxes that contain them.

import { Gradual, PIECE } from "../lib/gradual.ts";
import { decodeJson, decodeText } from "../lib/transport.ts";
import type { GraphTable } from "../messages.ts";

export const NOWHERE = -1;

export type Metric = "flops" | "bytes" | "seconds";

const PLACES: Readonly<Record<Metric, number>> = { flops: 0, bytes: 1, seconds: 2 };

/** The cost of a node: NaN if unknown. `isPartial` is set if a part of it is unknown. */
interface Cost {
  readonly value: number;
  readonly isPartial: boolean;
}

/** The categories, and those of each node. A box has the categories of its instructions. */
export interface Parties {
  /** Names such as `data, model: 8 devices` or `fused`. */
  readonly texts: readonly string[];
  readonly of: ReadonlyMap<number, readonly number[]>;
}

export class GraphModel {
  /** The parent of each node. */
  readonly parents: Int32Array;
  /** The number of boxes around each node. */
  readonly depths: Int32Array;
  readonly sources: Int32Array;
  readonly targets: Int32Array;
  /** The node of the whole module. */
  readonly root: number;
  private readonly opcodes: Int32Array;
  private readonly operations: Int32Array;
  private readonly shapes: Int32Array;
  private readonly spans: readonly [Int32Array, Int32Array] | null;
  private readonly edgeBytes: Int32Array;
  private readonly starts: Int32Array;
  private readonly inside: Int32Array;
  private readonly lineStarts: Int32Array;
  private readonly counts: Int32Array;
  /** The position of each node in the schedule; for a box, the mean of its instructions. */
  readonly order: Float64Array;
  private readonly rows: Gradual<ReadonlyMap<string, number>>;
  /** All nodes, each after its parent. */
  readonly outerFirst: Int32Array;
  private before: Float32Array | null = null;
  private times: Float32Array | null = null;
  private together: Parties = { texts: [], of: new Map() };
  private costs: { readonly known: Float32Array; readonly partial: Uint8Array } | null = null;

  constructor(
    /** The number of instructions. Nodes from this number on are boxes. */
    readonly rowCount: number,
    readonly table: GraphTable,
    private readonly names: string,
    nodes: Int32Array,
    edges: Int32Array,
  ) {
    const count = rowCount + table.titles.length;
    const column = (index: number): Int32Array =>
      nodes.subarray(count + index * rowCount, count + (index + 1) * rowCount);
    this.root = rowCount;
    this.parents = nodes.subarray(0, count);
    this.opcodes = column(0);
    this.operations = column(1);
    this.shapes = column(2);
    this.spans = table.unscheduled ? null : [column(3), column(4)];
    const size = edges.length / 3;
    this.sources = edges.subarray(0, size);
    this.targets = edges.subarray(size, 2 * size);
    this.edgeBytes = edges.subarray(2 * size);
    [this.starts, this.inside] = childrenOf(this.parents);
    this.lineStarts = lineStartsOf(names, rowCount);
    this.outerFirst = this.ordered();
    [this.depths, this.counts] = this.measured();
    this.order = this.placed();
    this.rows = new Gradual(this.indexRows());
  }

  /** Builds the index that a click needs, piece by piece. */
  prepare(): Generator<void> {
    return this.rows.make();
  }

  get nodeCount(): number {
    return this.parents.length;
  }

  setCosts(known: Float32Array, partial: Uint8Array): void {
    this.costs = { known, partial };
  }

  /** Sets the costs of the same nodes in another variant, in the format of `setCosts`; null removes them. */
  setBefore(known: Float32Array | null): void {
    this.before = known;
  }

  /** Sets the measured seconds of each node, NaN if unknown; null removes them. */
  setTimes(times: Float32Array | null): void {
    this.times = times;
  }

  /** Returns the measured seconds of a node; NaN if unknown. */
  measuredTime(node: number): number {
    return this.times?.[node] ?? NaN;
  }

  setParties(parties: Parties): void {
    this.together = parties;
  }

  /** The parties of the whole module. */
  get allParties(): Parties {
    return this.together;
  }

  /** Returns the texts of the parties of a node. */
  parties(node: number): string[] {
    return this.partiesAt(node).map((place) => this.together.texts[place]!);
  }

  /** Returns the indices of the parties of a node among all parties. */
  partiesAt(node: number): readonly number[] {
    return this.together.of.get(node) ?? [];
  }

  /** Returns the change of a node's cost from the other variant; NaN if it is new or its cost is unknown. */
  change(node: number, metric: Metric): number {
    const before = this.before?.[PLACES[metric] * this.nodeCount + node] ?? NaN;
    return this.cost(node, metric).value - before;
  }

  get hasCosts(): boolean {
    return this.costs !== null;
  }

  /** Returns the children of a node in the module's order, boxes last. */
  children(node: number): Int32Array {
    return this.inside.subarray(this.starts[node], this.starts[node + 1]);
  }

  isBox(node: number): boolean {
    return node >= this.rowCount;
  }

  canOpen(node: number): boolean {
    return this.starts[node + 1]! > this.starts[node]!;
  }

  /** Returns the number of instructions in a node, not counting itself. */
  instructionsIn(node: number): number {
    return this.counts[node]!;
  }

  name(row: number): string {
    return this.names.slice(this.lineStarts[row], this.lineStarts[row + 1]! - 1);
  }

  opcode(node: number): string {
    return this.isBox(node) ? "" : this.table.opcodes[this.opcodes[node]!]!;
  }

  /** Returns JAX's name of the operation of an instruction; "" if unknown. */
  operation(row: number): string {
    return this.table.operations[this.operations[row]!]!;
  }

  shape(row: number): string {
    return this.table.shapes[this.shapes[row]!]!;
  }

  /** Returns the bytes of the value that an instruction produces. */
  valueBytes(row: number): number {
    return this.table.shape_bytes[this.shapes[row]!]!;
  }

  bytesOfEdge(edge: number): number {
    return this.table.edge_bytes[this.edgeBytes[edge]!]!;
  }

  kind(node: number): string {
    return this.isBox(node) ? this.table.kinds[node - this.rowCount]! : "";
  }

  phase(node: number): string {
    return this.isBox(node) ? this.table.phases[node - this.rowCount]! : "";
  }

  /** Returns the title of a node: the name of an instruction, or of a scope with its phase. */
  title(node: number): string {
    if (!this.isBox(node)) return this.name(node);
    const [title, phase] = [this.table.titles[node - this.rowCount]!, this.phase(node)];
    return phase && phase !== title ? `${title}, ${phase}` : title;
  }

  /** Returns the title of a node, without a phase that the title of its parent shows already. */
  label(node: number): string {
    const parent = this.parents[node]!;
    const isShown = this.isBox(node) && parent !== NOWHERE && this.phase(parent) === this.phase(node);
    return isShown ? this.table.titles[node - this.rowCount]! : this.title(node);
  }

  /** Returns the live range of a value in the schedule of its computation; null if unknown. */
  span(row: number): readonly [number, number] | null {
    return this.spans ? [this.spans[0][row]!, this.spans[1][row]!] : null;
  }

  cost(node: number, metric: Metric): Cost {
    if (!this.costs) return { value: NaN, isPartial: false };
    const place = PLACES[metric] * this.nodeCount + node;
    return { value: this.costs.known[place]!, isPartial: this.costs.partial[place] === 1 };
  }

  /** Returns the nodes around a node, the outermost first. */
  path(node: number): number[] {
    const found: number[] = [];
    for (let at = this.parents[node]!; at !== NOWHERE; at = this.parents[at]!) found.push(at);
    return found.reverse();
  }

  isWithin(node: number, outer: number): boolean {
    for (let at = node; at !== NOWHERE; at = this.parents[at]!) if (at === outer) return true;
    return false;
  }

  /** Returns the instruction with a name, or NOWHERE. */
  rowOf(name: string): number {
    return this.rows.value.get(name) ?? NOWHERE;
  }

  /** Returns the nodes whose title contains a text, ignoring case, or whose opcode equals it. Boxes come first. */
  find(text: string): number[] {
    const wanted = text.toLowerCase();
    if (!wanted) return [];
    const found: number[] = [];
    this.table.titles.forEach((_, i) => {
      if (
        i &&
        this.title(this.rowCount + i)
          .toLowerCase()
          .includes(wanted)
      )
        found.push(this.rowCount + i);
    });
    const names = this.names.toLowerCase();
    for (let at = names.indexOf(wanted); at >= 0;) {
      const row = this.rowAt(at);
      found.push(row);
      at = names.indexOf(wanted, this.lineStarts[row + 1]);
    }
    const ofOpcodes = this.table.opcodes.map((opcode) => opcode === wanted);
    if (ofOpcodes.some(Boolean)) {
      const known = new Set(found);
      this.opcodes.forEach((opcode, row) => ofOpcodes[opcode] && !known.has(row) && found.push(row));
    }
    return found;
  }

  private rowAt(position: number): number {
    let [low, high] = [0, this.rowCount];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.lineStarts[middle]! <= position) low = middle;
      else high = middle;
    }
    return low;
  }

  private ordered(): Int32Array {
    const order = new Int32Array(this.nodeCount);
    order[0] = this.root;
    for (let i = 0, end = 1; i < end; i++) {
      const inside = this.children(order[i]!);
      order.set(inside, end);
      end += inside.length;
    }
    return order;
  }

  private placed(): Float64Array {
    const { outerFirst, parents } = this;
    const order = new Float64Array(this.nodeCount);
    const counted = new Float64Array(this.nodeCount);
    for (let i = outerFirst.length - 1; i >= 0; i--) {
      const node = outerFirst[i]!;
      if (this.isBox(node)) order[node]! /= counted[node] || 1;
      else order[node] = this.spans?.[0][node] ?? node;
      const parent = parents[node]!;
      if (parent === NOWHERE || !this.isBox(parent)) continue;
      const weight = this.isBox(node) ? counted[node]! : 1;
      order[parent]! += order[node]! * weight;
      counted[parent]! += weight;
    }
    return order;
  }

  private *indexRows(): Generator<void, Map<string, number>> {
    const rows = new Map<string, number>();
    for (let row = 0; row < this.rowCount; row++) {
      rows.set(this.name(row), row);
      if (row % PIECE === 0) yield;
    }
    return rows;
  }

  /** Returns for each node its depth and the number of instructions in it. */
  private measured(): [Int32Array, Int32Array] {
    const [depths, counts] = [new Int32Array(this.nodeCount), new Int32Array(this.nodeCount)];
    const { outerFirst: order, parents } = this;
    for (const node of order) if (node !== this.root) depths[node] = depths[parents[node]!]! + 1;
    for (let i = order.length - 1; i > 0; i--) {
      const node = order[i]!;
      counts[parents[node]!]! += counts[node]! + (this.isBox(node) ? 0 : 1);
    }
    return [depths, counts];
  }
}

/** Returns the model of the four unpacked buffers of a `Graph`. */
export function readGraph(rowCount: number, parts: readonly ArrayBuffer[]): GraphModel {
  const [table, names, nodes, edges] = parts;
  if (!table || !names || !nodes || !edges) throw new Error("a graph has four buffers");
  const text = decodeText(names) + "\n";
  return new GraphModel(rowCount, decodeJson<GraphTable>(table), text, new Int32Array(nodes), new Int32Array(edges));
}

/** Returns the start of each node's children in a list of all nodes, and that list. Keeps their order. */
function childrenOf(parents: Int32Array): [Int32Array, Int32Array] {
  const starts = new Int32Array(parents.length + 1);
  for (const parent of parents) if (parent !== NOWHERE) starts[parent + 1]! += 1;
  for (let node = 0; node < parents.length; node++) starts[node + 1]! += starts[node]!;
  const inside = new Int32Array(starts[parents.length]!);
  const next = starts.slice();
  parents.forEach((parent, node) => {
    if (parent !== NOWHERE) inside[next[parent]!++] = node;
  });
  return [starts, inside];
}

function lineStartsOf(text: string, count: number): Int32Array {
  const starts = new Int32Array(count + 1);
  for (let row = 0, at = 0; row < count; row++) {
    at = text.indexOf("\n", at) + 1;
    starts[row + 1] = at;
  }
  return starts;
}
