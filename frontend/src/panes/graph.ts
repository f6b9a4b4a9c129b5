// The optimized HLO of the active variant as a graph of nested boxes, which open and close in place.

import { toolButton } from "../lib/controls.ts";
import { fill, h, whenLaidOut } from "../lib/dom.ts";
import { format, formatSeconds, plural } from "../lib/format.ts";
import { whenIdle } from "../lib/gradual.ts";
import { openMenu } from "../lib/menu.ts";
import { anchorIn } from "../graph/anchors.ts";
import { GraphCanvas } from "../graph/canvas.ts";
import { dotText, pngBlob, svgText } from "../graph/exports.ts";
import { save } from "../lib/download.ts";
import { Folding } from "../graph/folding.ts";
import { Layouts } from "../graph/layered.ts";
import { sceneOf } from "../graph/levels.ts";
import { Minimap } from "../graph/minimap.ts";
import { type GraphModel, NOWHERE, type Parties, readGraph } from "../graph/model.ts";
import { doneIn } from "../graph/parties.ts";
import type { Shown } from "../graph/shown.ts";
import { sizeOf } from "../graph/words.ts";
import type * as messages from "../messages.ts";
import { CHOSEN, LEVEL_CLASSES } from "../state/local.ts";
import type { Message } from "../state/synced.ts";
import { GraphColors } from "./graphcolors.ts";
import { LinkedPane } from "./linked.ts";
import type { Context, Pane } from "./pane.ts";
import { PassGraph } from "./passgraph.ts";
import { awaited, failure, unfinished } from "./states.ts";

/** Largest number of matching lines that highlight boxes; with more of them, nearly every box would be highlighted. */
const MOST_LIT = 2000;

type GraphMessage = Message<"graph"> | Message<"pass_graph">;

/** The state of a variant's graph, kept while another one is shown. */
interface Kept {
  readonly folding: Folding;
  readonly layouts: Layouts;
  /** The effects of the pass, for a graph between passes. */
  readonly done: Parties | null;
}

let count = 0;

class GraphPane extends LinkedPane {
  readonly element = h("div", { class: "insp-graph" });
  private readonly search = h("input", {
    type: "search",
    class: "insp-g-search",
    placeholder: "Find in graph",
    "aria-label": "Find in graph by name, scope or opcode. Enter goes to the next match",
    oninput: () => this.find(),
    onkeydown: ((e: KeyboardEvent) => this.searchKey(e)) as EventListener,
  });
  private readonly findings = h("span", { class: "insp-g-findings insp-dim", role: "status" });
  private readonly trail = h("nav", { class: "insp-g-trail", "aria-label": "Enclosing boxes" });
  private readonly words = h("div", { class: "insp-g-caption" });
  private readonly canvas = new GraphCanvas(`insp-graph-${count++}`, {
    onPoint: (node) => this.tell(node),
    onChoose: (node) => this.choose(node),
    onToggle: (node) => this.toggle(node),
    onLeave: (node) => this.leave(node),
    onMove: () => this.minimap.move(),
  });
  private readonly pass = new PassGraph(this.context, this.drawing.request);
  private readonly colors = new GraphColors(this.context, this.canvas, () => this.tell(NOWHERE));
  private readonly minimap = new Minimap(this.canvas);
  private readonly stage = h("div", { class: "insp-g-stage" }, this.canvas.element, this.minimap.element, this.trail);
  private readonly foot = h("div", { class: "insp-g-foot" }, this.words, this.colors.legend);
  private readonly kept = new WeakMap<GraphMessage, Kept>();
  private readonly asked = new Set<string>();
  private message: GraphMessage | null = null;
  private readonly end: () => void;
  private shown: Shown | null = null;
  /** Whether a resized pane scrolls to the selection: until the user opens, closes or enters a box. */
  private followsSelection = true;
  private found: number[] = [];
  private at = -1;

  constructor(context: Context) {
    super(context, "graph");
    this.end = context.local.signal.on(["pass"], this.drawing.request);
    this.tools.append(
      this.pass.element,
      this.search,
      this.findings,
      this.colors.coloring,
      toolButton("minus", "Zoom out (−)", this.canvas.zoomOut),
      toolButton("plus", "Zoom in (+)", this.canvas.zoomIn),
      toolButton("fit", "Show all (0)", () => this.shown && this.canvas.fit(0)),
      toolButton("maximize", "Show current box only", () => this.enter()),
      toolButton("menu", "Export", (e) => this.offerExports(e.currentTarget as HTMLElement)),
    );
    this.watch(this.stage);
  }

  override destroy(): void {
    super.destroy();
    this.end();
  }

  protected draw(): void {
    const { synced, local } = this.context;
    const { variant } = local;
    this.pass.draw();
    const isKnown = variant && synced.document("optimized", variant.variant) && variant.state !== "failed";
    const reason = isKnown ? null : unfinished(variant, "graph");
    if (reason || !variant) return this.say(reason!);
    const message = this.pass.isShown ? this.pass.reply : this.ofVariant(variant);
    this.element.classList.toggle("insp-counting", !message && this.shown !== null);
    if (!message && this.pass.isShown && this.shown) return; // the shown graph stays until the next one arrives
    if (!message) return this.say(awaited(synced, "Building the graph", "Graph not received"));
    if (message.error) return this.say(failure(message.error, "No graph"));
    if (message !== this.message) this.open(message);
    const { done, folding } = this.kept.get(message)!;
    if (done) this.colors.showPass(folding.model, variant.variant, done);
    else this.colors.show(folding.model, variant.variant);
    this.tell(NOWHERE);
  }

  private ofVariant(variant: messages.VariantMessage): Message<"graph"> | null {
    const { synced } = this.context;
    const message = synced.latest("graph", { variant: variant.variant });
    if (!message || !synced.latest("graph_costs", { variant: variant.variant })) this.ask(variant);
    return message;
  }

  protected mark(): void {
    this.paint();
    if (this.context.local.selection?.pane !== "graph") this.showSelection();
  }

  private paint(): void {
    if (!this.shown) return;
    const { folding } = this.shown;
    const levelOf = this.context.local.levelsOfInstructions("optimized");
    const lit = this.litBoxes(folding);
    const hit = this.found[this.at] ?? NOWHERE;
    this.canvas.mark((node) => {
      const level = folding.model.isBox(node) ? 0 : levelOf(folding.model.name(node));
      if (level === CHOSEN) return LEVEL_CLASSES[CHOSEN]!;
      if (node === hit) return "insp-g-found";
      return LEVEL_CLASSES[Math.max(level, folding.isOpen(node) ? 0 : (lit.get(node) ?? 0))]!;
    });
  }

  private showSelection(): void {
    if (!this.shown) return;
    this.followsSelection = true;
    const { folding } = this.shown;
    const chosen = this.chosenRow(folding.model);
    if (chosen !== NOWHERE) whenLaidOut(this.stage, () => this.canvas.bringIntoView(folding.standIn(chosen)));
  }

  protected override resize(): void {
    this.canvas.resize();
    if (this.followsSelection) this.showSelection();
  }

  private say(state: HTMLElement): void {
    this.message = this.shown = null;
    for (const tool of this.tools.children) (tool as HTMLElement).hidden = tool !== this.pass.element;
    this.pass.draw();
    fill(this.element, state);
  }

  /** Requests the graph when there is a program, and again when it is compiled, because its costs are known then. */
  private ask({ variant, state }: messages.VariantMessage): void {
    const key = `${variant}/${state === "done"}`;
    if (this.asked.has(key)) return;
    this.asked.add(key);
    this.context.synced.send({ type: "graph", variant });
  }

  private open(message: GraphMessage): void {
    const before = this.shown;
    const kept = this.keptOf(message, before?.folding ?? null);
    const isStep = before !== null && message.type === "pass_graph";
    if (isStep) kept.folding.openLike(before.folding);
    this.message = message;
    for (const tool of this.tools.children) (tool as HTMLElement).hidden = false;
    this.pass.draw();
    if (!before) fill(this.element, this.stage, this.foot);
    this.found = [];
    this.at = -1;
    const anchor = isStep ? anchorIn(kept.folding, before, this.canvas.seen()) : null;
    this.redraw(kept, anchor?.node ?? null, anchor?.was);
    if (!anchor) this.canvas.fit();
    this.showSelection();
    if (this.search.value) this.find();
  }

  private keptOf(message: GraphMessage, before: Folding | null): Kept {
    let kept = this.kept.get(message);
    if (!kept) {
      const parts = this.context.synced.parts(message);
      const model = readGraph(message.instructions, parts);
      whenIdle(model.prepare());
      const isOfPass = message.type === "pass_graph";
      const done = isOfPass ? doneIn(model, message.words, new Uint8Array(parts[4]!)) : null;
      kept = { folding: new Folding(model), layouts: new Layouts((node) => sizeOf(model, node)), done };
      if (before) kept.folding.openLike(before);
      this.kept.set(message, kept);
    }
    return kept;
  }

  private redraw({ folding, layouts }: Kept, anchor: number | null, was = anchor): void {
    const scene = sceneOf(folding);
    this.shown = { folding, scene, layout: layouts.of(scene) };
    this.canvas.show(this.shown, anchor, was);
    this.minimap.show(this.shown);
    this.drawTrail();
    this.colors.draw();
    this.tell(NOWHERE);
    this.paint();
  }

  /** Redraws after a box was opened or closed. The box keeps its place on screen. */
  private refold(anchor: number | null): void {
    this.followsSelection = false;
    this.redraw(this.kept.get(this.message!)!, anchor);
  }

  private toggle(node: number): void {
    const { folding } = this.shown!;
    if (folding.isOpen(node)) folding.close(node);
    else folding.open(node);
    this.refold(node);
    this.canvas.reach(node);
  }

  /** Closes the box that contains a node, or leaves that box if it fills the pane. */
  private leave(node: number): void {
    const { folding } = this.shown!;
    const { parents, root } = folding.model;
    if (folding.isOpen(node)) return this.toggle(node);
    const parent = node === NOWHERE ? folding.top : parents[node]!;
    if (parent !== folding.top) return this.toggle(parent);
    if (parent !== root) return this.show(parents[folding.top]!, parent);
    this.context.local.select(null);
  }

  /** Fills the pane with the current box. */
  private enter(): void {
    if (!this.shown) return;
    const { folding } = this.shown;
    const { model } = folding;
    const { current } = this.canvas;
    const box = current !== NOWHERE && !model.canOpen(current) ? model.parents[current]! : current;
    if (box !== NOWHERE) this.show(box, NOWHERE);
  }

  private show(box: number, current: number): void {
    this.shown!.folding.enter(box);
    this.refold(null);
    this.canvas.fit();
    this.canvas.reach(current, current !== NOWHERE);
    this.canvas.element.focus({ preventScroll: true });
  }

  private choose(row: number): void {
    const { model } = this.shown!.folding;
    this.context.local.selectInstruction("graph", "optimized", model.name(row));
  }

  private drawTrail(): void {
    const { folding } = this.shown!;
    const { model, top } = folding;
    const boxes = [...model.path(top), top];
    this.trail.hidden = boxes.length < 2;
    fill(
      this.trail,
      ...boxes.map((box) =>
        h(
          "button",
          { type: "button", disabled: box === top, onclick: () => this.show(box, NOWHERE) },
          model.title(box),
        ),
      ),
    );
  }

  /** Describes a node below the graph. */
  private tell(node: number): void {
    if (!this.shown) return;
    const { folding, scene } = this.shown;
    const { model } = folding;
    if (node === NOWHERE) {
      const inside = model.instructionsIn(folding.top);
      const all = `${plural(scene.shown.length, "node")} for the ${plural(inside, "instruction")} of ${model.title(folding.top)}`;
      return fill(this.words, all);
    }
    const span = model.isBox(node) ? null : model.span(node);
    const [flops, bytes, seconds] = (["flops", "bytes", "seconds"] as const).map((metric) => model.cost(node, metric));
    const said = (cost: typeof flops, text: (value: number) => string): string =>
      cost && !Number.isNaN(cost.value) ? `${cost.isPartial ? "about " : ""}${text(cost.value)}` : "";
    const facts = [
      model.isBox(node) ? model.kind(node) : `${model.opcode(node)} ${model.shape(node)}`,
      !model.isBox(node) && model.operation(node),
      model.canOpen(node) && plural(model.instructionsIn(node), "instruction"),
      said(bytes, (value) => `${format(value, "bytes")} accessed`),
      said(flops, (value) => `${format(value, "count")} FLOPs`),
      said(seconds, (value) => `${formatSeconds(value)} at the roof`),
      !Number.isNaN(model.measuredTime(node)) && `${formatSeconds(model.measuredTime(node))} measured`,
      span && `live for ${plural(span[1] - span[0], "step")} from ${span[0]}`,
    ];
    fill(this.words, h("b", {}, model.title(node)), ` ${facts.filter(Boolean).join(" · ")}`);
  }

  private find(): void {
    if (!this.shown) return;
    this.found = this.shown.folding.model.find(this.search.value.trim());
    this.at = -1;
    const isAsked = this.search.value.trim() !== "";
    this.findings.textContent = isAsked ? plural(this.found.length, "match", "matches") : "";
    this.paint();
  }

  private searchKey(e: KeyboardEvent): void {
    if (e.key === "Escape") this.search.value = "";
    if (e.key === "Escape") return this.find();
    if (e.key !== "Enter" || !this.found.length) return;
    e.preventDefault();
    this.at = (this.at + (e.shiftKey ? -1 : 1) + this.found.length) % this.found.length;
    this.findings.textContent = `${this.at + 1} of ${this.found.length}`;
    const node = this.found[this.at]!;
    this.shown!.folding.reveal(node);
    this.refold(null);
    this.canvas.reach(node, true);
  }

  /** Returns the node of the selected instruction, or of an instruction that comes from the selected line. */
  private chosenRow(model: GraphModel): number {
    const { local, synced } = this.context;
    const { selection } = local;
    if (!selection) return NOWHERE;
    if (selection.stage === "optimized" && selection.instruction) return model.rowOf(selection.instruction);
    const document = synced.document("optimized", local.active);
    const line = document ? (local.matches(document)?.strong[0] ?? -1) : -1;
    const name = line < 0 ? null : document!.instruction(line);
    return name ? model.rowOf(name) : NOWHERE;
  }

  /** Returns the closed boxes that contain part of the selection, with its level. */
  private litBoxes(folding: Folding): ReadonlyMap<number, number> {
    const { local, synced } = this.context;
    const lit = new Map<number, number>();
    const document = synced.document("optimized", local.active);
    const matches = document && local.matches(document);
    if (!document || !matches) return lit;
    for (const line of matches.strong.subarray(0, MOST_LIT)) {
      const name = document.instruction(line);
      const row = name ? folding.model.rowOf(name) : NOWHERE;
      if (row !== NOWHERE) lit.set(folding.standIn(row), 2);
    }
    return lit;
  }

  private offerExports(button: HTMLElement): void {
    const { shown } = this;
    if (!shown) return;
    const name = shown.folding.model.title(shown.folding.top).replace(/[^\w.-]+/g, "_");
    const text = (): string => svgText(this.canvas.picture, shown);
    openMenu(this.element.closest<HTMLElement>(".insp") ?? this.element, button, [
      {
        title: "Export as",
        items: [
          { text: "SVG", run: () => save(`${name}.svg`, text()) },
          { text: "PNG", run: () => void pngBlob(text(), shown).then((blob) => save(`${name}.png`, blob)) },
          { text: "DOT", run: () => save(`${name}.dot`, dotText(shown)) },
        ],
      },
    ]);
  }
}

export const pane = (context: Context): Pane => new GraphPane(context);
