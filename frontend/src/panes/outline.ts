// A tree of the computations of the optimized HLO and their instructions, those with the highest cost first.

import { fill, h } from "../lib/dom.ts";
import type { Computation } from "../lib/computations.ts";
import type { TextDocument } from "../lib/documents.ts";
import { grouped, plural } from "../lib/format.ts";
import { isEstimated, type LineCosts, type Measure, MEASURES } from "../lib/linecosts.ts";
import { type Branch, Outline } from "../lib/outline.ts";
import { opcodeOf } from "../lib/tokens.ts";
import { type TreeRow, type TreeSource, VirtualTree } from "../lib/virtualtree.ts";
import { CHOSEN, LEVEL_CLASSES } from "../state/local.ts";
import { LinkedPane } from "./linked.ts";
import type { Context, Pane } from "./pane.ts";
import { awaited, unfinished } from "./states.ts";
import "../styles/outline.css";

const ROW_PX = 22;
const TEXT_ORDER = "text";

class OutlinePane extends LinkedPane implements TreeSource {
  readonly element = h("div", { class: "insp-outline", "data-pane": "outline" });
  private readonly order = h("select", {
    class: "insp-select",
    "aria-label": "Sort by",
    onchange: () => {
      this.isChosen = true;
      this.drawing.request();
    },
  });
  /** Whether the user has chosen the order. */
  private isChosen = false;
  private readonly note = h("div", { class: "insp-note", role: "status" });
  private readonly tree = new VirtualTree("Outline of the optimized HLO", ROW_PX, this);
  /** Names of the computations that are open. */
  private readonly open = new Set<string>();
  private shown: { readonly document: TextDocument; readonly costs: LineCosts | null } | null = null;
  private outline: Outline | null = null;

  constructor(context: Context) {
    super(context, "outline");
    fill(
      this.order,
      ...MEASURES.map(({ value, text }) => h("option", { value }, text)),
      h("option", { value: TEXT_ORDER }, "Text order"),
    );
    this.tools.append(this.order);
  }

  override destroy(): void {
    super.destroy();
    this.tree.destroy();
  }

  get length(): number {
    return this.outline?.length ?? 0;
  }

  row(index: number): TreeRow {
    const { branch, line } = this.outline!.at(index);
    return line === null ? this.branchRow(branch) : this.instructionRow(line);
  }

  parentOf(index: number): number {
    return this.outline!.parentOf(index);
  }

  toggle(index: number): void {
    this.outline!.toggle(this.outline!.at(index).branch);
  }

  choose(index: number): void {
    const { document } = this.shown!;
    const { branch, line } = this.outline!.at(index);
    if (line === null) this.context.local.goTo(document, branch.computation.first);
    else this.context.local.selectInstruction("outline", "optimized", document.instruction(line)!);
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
    const costs = this.costs(document, variant.variant);
    if (this.shown?.document !== document || this.shown.costs !== costs) {
      const isFirst = !this.outline;
      this.shown = { document, costs };
      this.outline = new Outline(document, costs, this.open);
      if (isFirst) this.outline.begin();
    }
    this.note.textContent = this.words(variant.variant);
    if (!this.tree.element.isConnected) fill(this.element, this.note, this.tree.element);
    this.tree.show();
  }

  protected mark(): void {
    if (!this.outline) return;
    const { local } = this.context;
    const { document } = this.shown!;
    const name = local.selection?.stage === "optimized" ? local.selection.instruction : null;
    const row = name && local.selection!.pane !== "outline" ? this.outline.rowOf(document.lineOfInstruction(name)) : -1;
    if (row >= 0) this.tree.reach(row);
    else this.tree.show();
  }

  private get measure(): Measure | null {
    return this.order.value === TEXT_ORDER ? null : (this.order.value as Measure);
  }

  /** Returns the costs by the chosen measure; by default, by measured time, else estimated time, else bytes. */
  private costs(document: TextDocument, variant: number): LineCosts | null {
    const { costs } = this.context.local;
    const reply = costs.reply(variant);
    if (!this.isChosen) {
      const isUnknown = reply?.reasons["least_s"] !== undefined;
      const isMeasured = reply !== null && (reply.total?.measured_s ?? null) !== null;
      const measure: Measure = isMeasured ? "measured_s" : isUnknown ? "main_memory_bytes" : "least_s";
      this.order.value = measure;
    }
    return this.measure && costs.of(document, variant, this.measure);
  }

  private words(variant: number): string {
    const { local, synced } = this.context;
    const instructions = plural(this.outline!.instructionCount, "instruction");
    if (!this.measure) return instructions;
    const { costs } = this.shown!;
    const text = MEASURES.find(({ value }) => value === this.measure)!.text;
    const reply = local.costs.reply(variant);
    if (this.measure === "measured_s" && local.costs.awaitsTimes(variant))
      return `${instructions}. ${text}: computing …`;
    const left = isEstimated(this.measure) ? (reply?.unknown ?? "") : "";
    if (costs && left) return `${instructions}. ${text}: ${costs.total ? `≈ ${costs.text(costs.total)}, ` : ""}${left}`;
    if (costs) return `${instructions}. ${text}: ${costs.text(costs.total)}`;
    const isDone = synced.variants.get(variant)?.state === "done";
    const missing = reply ? (reply.error?.message ?? reply.reasons[this.measure] ?? "unknown") : "";
    return `${instructions}. ${text}: ${missing || (isDone ? "computing …" : "available once compiled")}`;
  }

  private branchRow(branch: Branch): TreeRow {
    const { computation, amount, count } = branch;
    const what = this.roleOf(computation);
    const isOpen = this.outline!.isOpen(branch);
    return {
      level: 1,
      isOpen,
      isChosen: false,
      title: `${computation.name}: ${what}, ${plural(count, "instruction")}`,
      className: this.isAround(computation) && !isOpen ? LEVEL_CLASSES[1]! : "",
      content: [
        h("span", { class: "insp-outline-name" }, h("b", {}, computation.name)),
        h("span", { class: "insp-dim insp-outline-what" }, what),
        this.amountOf(amount, count),
      ],
    };
  }

  private instructionRow(line: number): TreeRow {
    const { document, costs } = this.shown!;
    const name = document.instruction(line)!;
    const level = this.context.local.levelOfInstruction("optimized", name);
    const opcode = opcodeOf(document.lines[line]!, document.language);
    return {
      level: 2,
      isOpen: null,
      isChosen: level === CHOSEN,
      title: name,
      className: LEVEL_CLASSES[level]!,
      content: [
        h("span", { class: "insp-outline-name" }, name),
        h("span", { class: "insp-tok-op insp-outline-what" }, name.startsWith(opcode) ? "" : opcode),
        this.amountOf(costs?.of(line)?.amount ?? 0, null),
      ],
    };
  }

  /** Returns a cost with a bar, or the number of instructions if the cost is unknown. */
  private amountOf(amount: number, count: number | null): HTMLElement | null {
    const { costs } = this.shown!;
    if (!costs) return count === null ? null : h("span", { class: "insp-number insp-dim" }, grouped(count));
    const share = costs.total ? amount / costs.total : 0;
    const title = `${costs.text(amount)}, ${costs.share(amount)} of the program`;
    const bar = { class: "insp-number insp-share", style: `--share:${share.toFixed(4)}`, title };
    return h("span", bar, amount ? costs.text(amount) : "");
  }

  private roleOf({ isEntry, kind, role, caller }: Computation): string {
    if (isEntry) return "ENTRY";
    const by = this.shown!.document.instruction(caller);
    const words = kind === "fused" ? "fusion" : kind === "applied" ? "applied to elements" : (ROLES[role] ?? role);
    return by ? `${words} of ${by}` : words || "never called";
  }

  /** Returns whether a computation contains the selected instruction. */
  private isAround({ first, last }: Computation): boolean {
    const { selection } = this.context.local;
    if (selection?.stage !== "optimized" || !selection.instruction) return false;
    const line = this.shown!.document.lineOfInstruction(selection.instruction);
    return first <= line && line <= last;
  }
}

const ROLES: Readonly<Record<string, string>> = {
  to_apply: "call",
  calls: "call",
  true_computation: "branch",
  false_computation: "branch",
  branch_computations: "branch",
};

export const pane = (context: Context): Pane => new OutlinePane(context);
