// The graph of the optimized HLO: drawn by Python as SVG, moved and selected here.

import { type Choice, segments, toolButton } from "../lib/controls.ts";
import { drag, fill, h, isForElement, whenLaidOut } from "../lib/dom.ts";
import { STRONG, WEAK } from "../lib/linking.ts";
import { cleanSvg } from "../lib/svg.ts";
import type * as messages from "../messages.ts";
import { CHOSEN } from "../state/local.ts";
import { type Context, Drawing, follow, type Pane } from "./pane.ts";
import { awaited, empty, failure, loading } from "./states.ts";

const MODES: Choice<messages.GraphMode>[] = [
  { value: "whole", text: "Whole", title: "Every instruction of the entry computation" },
  { value: "scopes", text: "Scopes", title: "Instructions grouped by their operation's scope" },
  { value: "around", text: "Around selection", title: "What the selected instruction uses, and what uses it" },
];
const NODE = "node-";
const ZOOM_STEP = 1.25;
// SVG units a pixel at which Graphviz' 10-unit letters can still be read.
const LEGIBLE = 1.4;
const WHOLE_LIMIT = 200;

interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

class GraphPane implements Pane {
  readonly element = h("div", { class: "insp-graph" });
  readonly tools = h("div", { class: "insp-tools" });
  private readonly drawing = new Drawing(() => this.refresh());
  private readonly modes = h("div", { class: "insp-segments", role: "group", "aria-label": "Graph of" });
  private readonly ends: (() => void)[];
  // Random start: two browsers on one kernel must not take each other's replies.
  private requestId = Math.floor(Math.random() * 2 ** 30);
  private requested = "";
  /** Null until the first graph: then by the size of the program. */
  private chosenMode: messages.GraphMode | null = null;
  private svg: SVGSVGElement | null = null;
  private box: Box = { x: 0, y: 0, width: 1, height: 1 };
  private home: Box = this.box;
  private isMoved = false;
  private readonly resizes = new ResizeObserver(() => this.svg && !this.isMoved && this.fit(LEGIBLE));

  constructor(private readonly context: Context) {
    const { synced, local } = context;
    this.tools.append(
      this.modes,
      toolButton("minus", "Zoom out (−)", () => this.zoom(ZOOM_STEP)),
      toolButton("plus", "Zoom in (+)", () => this.zoom(1 / ZOOM_STEP)),
      toolButton("fit", "Show all (0)", () => this.fit()),
    );
    this.ends = [
      follow(context, "graph", this.drawing),
      synced.signal.on(["graph"], () => this.receive()),
      local.signal.on(["active"], this.drawing.request),
      local.signal.on(["selection"], () => this.drawing.request),
    ];
    this.resizes.observe(this.element);
  }

  setVisible(visible: boolean): void {
    this.drawing.setVisible(visible);
  }

  destroy(): void {
    this.ends.forEach((end) => end());
    this.resizes.disconnect();
  }

  private get mode(): messages.GraphMode {
    return this.chosenMode ?? "whole";
  }

  private refresh(): void {
    this.chooseMode();
    this.drawModes();
    const { synced, local } = this.context;
    const variant = synced.variants.get(local.active ?? -1);
    if (!variant) return this.say("", empty("No graph yet", "It comes with the first compiled variant."));
    if (variant.state === "failed") return this.say("", failure(variant.error, "No graph: this variant failed"));
    if (variant.state === "cancelled") return this.say("", empty("No graph", "This variant was cancelled."));
    // The optimized HLO comes before the machine code, and is all that a graph needs.
    const isKnown = variant.state === "done" || synced.document("optimized", variant.variant);
    if (!isKnown) return this.say("", loading("Compiling", variant));
    const selected = this.selected();
    if (this.mode === "around" && !selected) {
      return this.say(
        "",
        empty(
          "Nothing is selected",
          "Click an instruction in HLO or Optimized HLO, in Collectives, or in another graph.",
        ),
      );
    }
    this.request(variant.variant, selected);
    this.mark();
  }

  private request(variant: number, selected: string | null): void {
    const key = `${variant}/${this.mode}/${this.mode === "around" ? selected : ""}`;
    const { synced } = this.context;
    const isGone = synced.notebookKernel === "gone";
    if (this.requested === key && (this.svg || !isGone)) return;
    this.say(key, awaited(synced, "Drawing the graph", "The graph was not drawn"));
    if (isGone) return;
    this.requestId += 1;
    const selection = this.context.local.selectionMessage();
    this.context.synced.send({
      type: "graph",
      id: this.requestId,
      variant,
      mode: this.mode,
      selection: selection && this.mode === "around" ? { ...selection, instruction: selected } : selection,
    });
  }

  private receive(): void {
    const graph = this.context.synced.reply("graph", this.requestId);
    if (!graph) return;
    if (graph.error) return this.say(this.requested, failure(graph.error, "The graph could not be drawn"));
    const svg = graph.svg ? cleanSvg(graph.svg) : null;
    if (!svg) return this.say(this.requested, empty("Nothing to draw", graph.caption));
    this.show(svg, graph.caption);
  }

  private show(svg: SVGSVGElement, caption: string): void {
    this.svg = svg;
    const values = (svg.getAttribute("viewBox") ?? "").split(/[\s,]+/).map(Number);
    const [x = 0, y = 0, width = 100, height = 100] = values;
    this.home = { x, y, width, height };
    for (const name of ["width", "height"]) svg.removeAttribute(name);
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", caption || "Graph of instructions");
    svg.querySelector(":scope > g > polygon")?.classList.add("insp-graph-page");
    const canvas = h(
      "div",
      { class: "insp-graph-canvas", tabindex: 0, "aria-label": "Graph; arrow keys move it, + and − zoom" },
      svg,
    );
    this.listen(canvas);
    this.isMoved = false;
    fill(this.element, canvas, caption && h("div", { class: "insp-graph-caption" }, caption));
    this.fit(LEGIBLE);
    this.mark();
  }

  /** Shows a state in place of a graph; `key` is the request it belongs to. */
  private say(key: string, state: HTMLElement): void {
    this.requested = key;
    this.svg = null;
    fill(this.element, state);
  }

  /** The instruction of the optimized HLO that is selected, or that the selected line became. */
  private selected(): string | null {
    const { synced, local } = this.context;
    const { selection } = local;
    if (!selection) return null;
    if (selection.stage === "optimized" && selection.instruction) return selection.instruction;
    const document = synced.document("optimized", local.active);
    const line = document ? (local.matches(document)?.strong[0] ?? -1) : -1;
    return line < 0 ? null : document!.instruction(line);
  }

  private mark(): void {
    if (!this.svg) return;
    const { local } = this.context;
    const classes = { "insp-node-chosen": CHOSEN, "insp-node-strong": STRONG, "insp-node-weak": WEAK };
    let chosen: SVGGElement | null = null;
    for (const node of this.svg.querySelectorAll<SVGGElement>(`g[id^="${NODE}"]`)) {
      const level = local.levelOfInstruction("optimized", node.id.slice(NODE.length));
      for (const [name, value] of Object.entries(classes)) node.classList.toggle(name, level === value);
      if (level === CHOSEN) chosen = node;
    }
    const node = chosen;
    if (node) whenLaidOut(node, () => this.bringIntoView(node));
  }

  private bringIntoView(node: SVGGElement): void {
    const frame = this.element.getBoundingClientRect();
    const box = node.getBoundingClientRect();
    const isInside =
      box.left >= frame.left && box.right <= frame.right && box.top >= frame.top && box.bottom <= frame.bottom;
    if (isInside || !frame.width || !this.svg) return;
    const scale = this.box.width / this.svg.clientWidth;
    const middle = (low: number, high: number): number => (low + high) / 2;
    this.moveBy(
      (middle(box.left, box.right) - middle(frame.left, frame.right)) * scale,
      (middle(box.top, box.bottom) - middle(frame.top, frame.bottom)) * scale,
    );
  }

  private listen(canvas: HTMLElement): void {
    let moved = false;
    drag(canvas, (down) => {
      moved = false;
      let { clientX: x, clientY: y } = down;
      canvas.focus({ preventScroll: true });
      return (e) => {
        if (Math.hypot(e.clientX - down.clientX, e.clientY - down.clientY) > 4) moved = true;
        const scale = this.scale();
        this.moveBy((x - e.clientX) * scale, (y - e.clientY) * scale);
        ({ clientX: x, clientY: y } = e);
      };
    });
    canvas.addEventListener("click", (e) => {
      // Pointer capture makes the canvas the target; ask what lies under the pointer.
      const hit = document.elementFromPoint(e.clientX, e.clientY);
      const node = hit?.closest<SVGGElement>(`g[id^="${NODE}"]`);
      if (node && !moved) this.context.local.selectInstruction("graph", "optimized", node.id.slice(NODE.length));
    });
    canvas.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
    canvas.addEventListener("keydown", (e) => this.key(e));
  }

  private wheel(e: WheelEvent): void {
    if (!isForElement(e, this.element)) return;
    e.preventDefault();
    const frame = this.svg?.getBoundingClientRect();
    if (!frame) return;
    this.zoom(
      Math.exp(e.deltaY * 0.0015),
      (e.clientX - frame.left) / frame.width,
      (e.clientY - frame.top) / frame.height,
    );
  }

  private key(e: KeyboardEvent): void {
    const step = this.box.width * 0.1;
    const moves: Record<string, [number, number]> = {
      ArrowLeft: [-step, 0],
      ArrowRight: [step, 0],
      ArrowUp: [0, -step],
      ArrowDown: [0, step],
    };
    const move = moves[e.key];
    if (move) this.moveBy(...move);
    else if (e.key === "+" || e.key === "=") this.zoom(1 / ZOOM_STEP);
    else if (e.key === "-") this.zoom(ZOOM_STEP);
    else if (e.key === "0") this.fit();
    else if (e.key === "Escape") this.context.local.select(null);
    else return;
    e.preventDefault();
  }

  /** SVG units a CSS pixel. */
  private scale(): number {
    const { clientWidth = 1, clientHeight = 1 } = this.svg ?? {};
    return Math.max(this.box.width / clientWidth, this.box.height / clientHeight);
  }

  private moveBy(dx: number, dy: number): void {
    this.isMoved = true;
    this.setBox({ ...this.box, x: this.box.x + dx, y: this.box.y + dy });
  }

  /** Scales what is seen by `factor` about a point, in shares of the canvas. */
  private zoom(factor: number, atX = 0.5, atY = 0.5): void {
    this.isMoved = true;
    const { x, y, width, height } = this.box;
    const limited = Math.max(20, Math.min(this.home.width * 4, width * factor));
    const f = limited / width;
    this.setBox({ x: x + width * (1 - f) * atX, y: y + height * (1 - f) * atY, width: limited, height: height * f });
  }

  /** The whole graph, text not larger than the app's, or its top where text would be too small. */
  private fit(coarsest = Infinity): void {
    const { clientWidth = 0, clientHeight = 0 } = this.svg ?? {};
    if (!clientWidth || !clientHeight) return this.setBox(this.home);
    const scale = Math.min(coarsest, Math.max(this.home.width / clientWidth, this.home.height / clientHeight, 0.9));
    const width = clientWidth * scale;
    const height = clientHeight * scale;
    const isWhole = height >= this.home.height;
    this.setBox({
      x: this.home.x + (this.home.width - width) / 2,
      y: isWhole ? this.home.y + (this.home.height - height) / 2 : this.home.y,
      width,
      height,
    });
  }

  private setBox(box: Box): void {
    this.box = box;
    this.svg?.setAttribute("viewBox", `${box.x} ${box.y} ${box.width} ${box.height}`);
  }

  private drawModes(): void {
    fill(this.modes, ...segments(MODES, this.mode, (mode) => this.setMode(mode)));
  }

  /** All instructions where they can be taken in at once, scopes where not. */
  private chooseMode(): void {
    const document = this.context.synced.document("optimized", this.context.local.active);
    if (this.chosenMode || !document) return;
    const count = document.table.instructions?.filter((name) => name !== null).length ?? 0;
    this.chosenMode = count > WHOLE_LIMIT ? "scopes" : "whole";
  }

  private setMode(mode: messages.GraphMode): void {
    this.chosenMode = mode;
    this.drawing.request();
  }
}

export const pane = (context: Context): Pane => new GraphPane(context);
