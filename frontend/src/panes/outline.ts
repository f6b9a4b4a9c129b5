// The structure of the optimized HLO as a tree, by scope or by computation, with the costs of each row.

import { fill, h } from "../lib/dom.ts";
import { ByComputation } from "../lib/bycomputation.ts";
import { ByScope } from "../lib/byscope.ts";
import type { TextDocument } from "../lib/documents.ts";
import { amountText, estimatedTime, isEstimated, type Measure, MEASURES, shareText } from "../lib/linecosts.ts";
import { type Arrangement, type Holding, Outline, type OutlineNode } from "../lib/outline.ts";
import { opcodeOf } from "../lib/tokens.ts";
import { type TreeRow, type TreeSource, VirtualTree } from "../lib/virtualtree.ts";
import type { Message } from "../state/synced.ts";
import { CHOSEN, LEVEL_CLASSES } from "../state/local.ts";
import { LinkedPane } from "./linked.ts";
import type { Context, Pane } from "./pane.ts";
import { awaited, unfinished } from "./states.ts";
import "../styles/outline.css";

const ROW_PX = 22;
const PROGRAM_ORDER = "order";
const TITLES: Readonly<Record<Measure, string>> = {
  measured_s: "Time",
  least_s: "Time",
  flops: "FLOPs",
  main_memory_bytes: "Bytes",
  peak_bytes: "Memory",
};

type By = "scope" | "computation";

interface Shown {
  readonly document: TextDocument;
  readonly reply: Message<"line_costs"> | null;
  readonly by: By;
  readonly order: string;
}

class OutlinePane extends LinkedPane implements TreeSource {
  readonly element = h("div", { class: "insp-outline", "data-pane": "outline" });
  private readonly by = h(
    "select",
    {
      class: "insp-select",
      "aria-label": "Arrange",
      onchange: () => {
        this.isChosen = true;
        this.drawing.request();
      },
    },
    h("option", { value: "scope" }, "By scope"),
    h("option", { value: "computation" }, "By computation"),
  );
  private readonly order = h(
    "select",
    { class: "insp-select", "aria-label": "Sort by", onchange: () => this.drawing.request() },
    h("option", { value: PROGRAM_ORDER }, "Program order"),
    ...MEASURES.map(({ value, text }) => h("option", { value }, text)),
  );
  /** Whether the user has chosen the arrangement, or used the tree that is shown. */
  private isChosen = false;
  private readonly note = h("span", { class: "insp-outline-note", role: "status" });
  private readonly head = h("div", { class: "insp-outline-head" });
  private readonly tree = new VirtualTree("Outline of the optimized HLO", ROW_PX, this);
  /** Paths of the open rows; null until the arrangement is shown. */
  private readonly open: Record<By, Set<string> | null> = { scope: null, computation: null };
  private shown: Shown | null = null;
  private outline: Outline | null = null;
  private columns: readonly Measure[] = [];
  /** The rows that are, or contain, the selected instruction. */
  private holding: Holding = NONE;

  constructor(context: Context) {
    super(context, "outline");
    this.tools.append(this.by, this.order);
  }

  override destroy(): void {
    super.destroy();
    this.tree.destroy();
  }

  get length(): number {
    return this.outline?.length ?? 0;
  }

  row(index: number): TreeRow {
    const outline = this.outline!;
    const node = outline.at(index);
    const isOpen = outline.isOpen(index);
    const row = node.kind === "instruction" ? this.instructionRow(node) : this.branchRow(node);
    const className = row.className || (isOpen === false && this.holding.has(node) ? LEVEL_CLASSES[1]! : "");
    return { level: outline.level(index), isOpen, ...row, className };
  }

  parentOf(index: number): number {
    return this.outline!.parentOf(index);
  }

  toggle(index: number): void {
    this.isChosen = true;
    this.outline!.toggle(index);
  }

  choose(index: number): void {
    this.isChosen = true;
    const { document } = this.shown!;
    const { line } = this.outline!.at(index);
    const name = document.instruction(line);
    if (name !== null) this.context.local.selectInstruction("outline", "optimized", name);
    else if (line >= 0) this.context.local.goTo(document, line);
  }

  protected draw(): void {
    const { synced, local } = this.context;
    const { variant } = local;
    const document = synced.document("optimized", local.active);
    this.tools.hidden = !document;
    if (!document || !variant) {
      this.shown = this.outline = null;
      const reason = unfinished(variant, "outline");
      return fill(this.element, reason ?? awaited(synced, "Receiving the optimized HLO", "Outline not received"));
    }
    const reply = local.costs.reply(variant.variant);
    this.arrange(document, variant.variant, reply);
    this.columns = this.columnsOf(reply);
    this.note.textContent = this.note.title = this.words(document, variant.variant, reply);
    fill(this.head, this.note, ...this.columns.map((measure) => this.headOf(measure)));
    if (!this.tree.element.isConnected) fill(this.element, this.head, this.tree.element);
    this.findSelection();
    this.tree.show();
  }

  protected mark(): void {
    if (!this.outline) return;
    const line = this.findSelection();
    const isElsewhere = this.context.local.selection?.pane !== "outline";
    const row = line >= 0 && isElsewhere ? this.outline.rowOf(line) : -1;
    if (row >= 0) this.tree.reach(row);
    else this.tree.show();
  }

  /** Builds the tree if its content, arrangement or order has changed. */
  private arrange(document: TextDocument, variant: number, reply: Message<"line_costs"> | null): void {
    const scopes = this.scopesOf(document, variant);
    if (!this.isChosen) this.by.value = scopes?.hasScopes ? "scope" : "computation";
    const by = this.by.value as By;
    const order = this.order.value;
    const { shown } = this;
    if (shown?.document === document && shown.reply === reply && shown.by === by && shown.order === order) return;
    const { costs } = this.context.local;
    const arrangement: Arrangement =
      by === "scope"
        ? (scopes ?? NOTHING)
        : new ByComputation(document, (measure) => costs.of(document, variant, measure));
    const open = this.open[by] ?? new Set();
    this.outline = new Outline(arrangement, order === PROGRAM_ORDER ? null : (order as Measure), open);
    if (!this.open[by] && arrangement !== NOTHING) {
      this.open[by] = open;
      this.outline.begin();
    }
    this.shown = { document, reply, by, order };
  }

  private readonly scopes = new WeakMap<object, ByScope>();

  private scopesOf(document: TextDocument, variant: number): ByScope | null {
    const columns = this.context.local.costs.scopes(variant);
    if (!columns) return null;
    let scopes = this.scopes.get(columns);
    if (!scopes) this.scopes.set(columns, (scopes = new ByScope(document, columns)));
    return scopes;
  }

  /** Returns the measure that is shown as the time: measured time if it is known, or else estimated time. */
  private timeOf(reply: Message<"line_costs"> | null): Measure {
    return (reply?.total?.measured_s ?? null) === null ? "least_s" : "measured_s";
  }

  /** Returns the known measures: time, bytes and memory. The one that the rows are sorted by comes first. */
  private columnsOf(reply: Message<"line_costs"> | null): readonly Measure[] {
    const order = this.order.value === PROGRAM_ORDER ? [] : [this.order.value as Measure];
    const isTime = order[0] === "measured_s" || order[0] === "least_s";
    const usual = [...(isTime ? [] : [this.timeOf(reply)]), "main_memory_bytes", "peak_bytes"] as const;
    return [...new Set([...order, ...usual])].filter((measure) => (reply?.total?.[measure] ?? null) !== null);
  }

  private headOf(measure: Measure): HTMLElement {
    const text = MEASURES.find(({ value }) => value === measure)!.text;
    return h("span", { class: "insp-number", title: text }, `${measure === "least_s" ? "≈ " : ""}${TITLES[measure]}`);
  }

  private words(document: TextDocument, variant: number, reply: Message<"line_costs"> | null): string {
    const { synced, local } = this.context;
    const isDone = synced.variants.get(variant)?.state === "done";
    if (!reply?.total) {
      const waiting = isDone && !synced.isAlone ? "computing …" : isDone ? synced.remedy : "available once compiled";
      return `Costs${this.by.value === "scope" ? " and scopes" : ""}: ${reply?.error?.message ?? waiting}`;
    }
    const { total, reasons } = reply;
    const time = this.timeOf(reply);
    const parts = [];
    if (local.costs.awaitsTimes(variant)) parts.push("Measured time: computing …");
    else if (total[time] === null) parts.push(`Time unknown: ${reasons[time] ?? "unknown"}`);
    else if (time === "measured_s") parts.push(`Measured time: ${amountText(total[time], time)}`);
    else parts.push(estimatedTime(reply));
    const order = this.order.value as Measure;
    if (order in total && total[order] === null && order !== time)
      parts.push(`${MEASURES.find(({ value }) => value === order)!.text}: ${reasons[order] ?? "unknown"}`);
    if (this.columns.some(isEstimated) && reply.unknown) parts.push(reply.unknown);
    if (this.by.value === "scope" && !this.scopesOf(document, variant)) parts.push("Scopes: not recorded");
    return parts.join(". ");
  }

  private branchRow(node: OutlineNode): Omit<TreeRow, "level" | "isOpen"> {
    const { kind, name, note } = node;
    return {
      isChosen: false,
      title: `${name}: ${note}`,
      className: "",
      content: [
        h("span", { class: `insp-outline-name insp-outline-${kind}` }, name),
        h("span", { class: "insp-dim insp-outline-what" }, note),
        ...this.cells(node),
      ],
    };
  }

  private instructionRow(node: OutlineNode): Omit<TreeRow, "level" | "isOpen"> {
    const { document } = this.shown!;
    const name = document.instruction(node.line);
    if (name === null) return this.branchRow({ ...node, name: "other work", note: "no instruction" });
    const level = this.context.local.levelOfInstruction("optimized", name);
    const opcode = opcodeOf(document.lines[node.line]!, document.language);
    return {
      isChosen: level === CHOSEN,
      title: name,
      className: LEVEL_CLASSES[level]!,
      content: [
        h("span", { class: "insp-outline-name" }, name),
        h("span", { class: "insp-tok-op insp-outline-what" }, name.startsWith(opcode) ? "" : opcode),
        ...this.cells(node),
      ],
    };
  }

  /** Returns the costs of a row: the first, which is the time if it is known, as a share with a bar. */
  private cells(node: OutlineNode): HTMLElement[] {
    const total = this.shown!.reply?.total;
    return this.columns.map((measure, column) => {
      const amount = this.outline!.arrangement.amount(node, measure);
      const share = total?.[measure] ? amount / total[measure] : 0;
      const text = amountText(amount, measure);
      const title = `${MEASURES.find(({ value }) => value === measure)!.text}: ${text}, ${shareText(share)} of the program`;
      const bar = column ? {} : { style: `--share:${share.toFixed(4)}` };
      const shown = TITLES[measure] === "Time" ? shareText(share) : text;
      return h(
        "span",
        { class: column ? "insp-number" : "insp-number insp-share", title, ...bar },
        amount ? shown : "",
      );
    });
  }

  /** Prepares the test for the rows that contain the selected instruction, and returns its line; -1 for none. */
  private findSelection(): number {
    const { selection } = this.context.local;
    const name = selection?.stage === "optimized" ? selection.instruction : null;
    const line = name && this.shown ? this.shown.document.lineOfInstruction(name) : -1;
    this.holding = line < 0 ? NONE : this.outline!.arrangement.holding(line);
    return line;
  }
}

const NONE: Holding = { has: () => false };
const NOTHING: Arrangement = {
  roots: [],
  first: [],
  childrenOf: () => [],
  amount: () => 0,
  holding: () => NONE,
};

export const pane = (context: Context): Pane => new OutlinePane(context);
