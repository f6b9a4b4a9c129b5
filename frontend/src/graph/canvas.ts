// The canvas that draws a layout, with moving, zooming and keyboard navigation.

import { drag, h, isForElement, oncePerFrame, svg, update } from "../lib/dom.ts";
import { type Coloring, amountOf, amountText, heat, isParty, kindOf } from "./colors.ts";
import type { Place, Point } from "./layered.ts";
import { Lines } from "./lines.ts";
import { type GraphModel, NOWHERE } from "./model.ts";
import type { Shown } from "./shown.ts";
import { shortened, spoken, subtitle } from "./words.ts";

const ZOOM_STEP = 1.25;
/**
 * Limits of the scale: SMALLEST to LARGEST when zooming, and at least LEGIBLE, where text is readable, when fitting.
 */
const SMALLEST = 0.05;
const LEGIBLE = 1;
const LARGEST = 3;

interface Listeners {
  /** Called when the pointer or the keyboard reaches a node; NOWHERE for none. */
  readonly onPoint: (node: number) => void;
  readonly onChoose: (node: number) => void;
  readonly onToggle: (node: number) => void;
  /** Called when the user leaves the box that contains a node. */
  readonly onLeave: (node: number) => void;
  readonly onMove: () => void;
}

export class GraphCanvas {
  readonly element: HTMLElement;
  /** The visible part of the layout: its upper left corner, and CSS pixels per unit. */
  private view = { x: 0, y: 0, scale: 1 };
  private shown: Shown | null = null;
  /** The node that has the keyboard focus. */
  current = NOWHERE;
  private isMoved = false;
  private pointed = NOWHERE;
  private readonly lines = new Lines();
  private readonly nodes = svg("g", { class: "insp-g-nodes" });
  private readonly moved = svg("g", {}, this.lines.edges, this.nodes, this.lines.hints);
  readonly picture = svg("svg", { class: "insp-g-picture" }, this.moved);
  private readonly elements = new Map<number, SVGGElement>();
  private readonly apply = oncePerFrame(() => {
    this.moveToView();
    this.listeners.onMove();
  });

  constructor(
    private readonly id: string,
    private readonly listeners: Listeners,
  ) {
    this.element = h(
      "div",
      {
        class: "insp-g-canvas",
        tabindex: 0,
        role: "tree",
        "aria-label":
          "Graph. Arrow keys move between nodes, Enter opens and selects, Escape closes, plus and minus zoom",
      },
      this.picture,
    );
    this.listen();
  }

  /**
   * Draws a layout without colors. Nodes that are kept move to their new places; `anchor` keeps its place on screen.
   *
   * @param was the anchor's node in the previous layout, if that belongs to another graph.
   */
  show(shown: Shown, anchor: number | null, was: number | null = anchor): void {
    const before = was === null ? null : (this.shown?.layout.places.get(was) ?? null);
    if (this.shown?.folding.model !== shown.folding.model) this.forget();
    this.shown = shown;
    const after = anchor === null ? null : (shown.layout.places.get(anchor) ?? null);
    if (before && after) {
      this.view = { ...this.view, x: this.view.x + after.x - before.x, y: this.view.y + after.y - before.y };
      this.isMoved = true; // or else the view would be fitted again when the overview appears
    }
    this.drawNodes(shown);
    this.lines.draw(shown.layout);
    if (!shown.layout.places.has(this.current)) this.current = shown.folding.standIn(this.current);
    this.reach(this.current);
    this.moveToView(); // with the nodes, not a frame later, so that the anchor stands still
    this.apply();
  }

  /** Colors the nodes by kind or by an amount. Returns the largest amount. */
  color(coloring: Coloring): number {
    const { folding, scene } = this.shown!;
    const { model } = folding;
    const closed = scene.shown.filter((node) => !folding.isOpen(node));
    const amounts = new Map(closed.map((node) => [node, amountOf(model, node, coloring)]));
    const most = Math.max(0, ...[...amounts.values()].map(Math.abs).filter((amount) => amount > 0));
    for (const [node, element] of this.elements) {
      const amount = amounts.get(node) ?? NaN;
      element.style.setProperty("--heat", `${(100 * heat(amount, most)).toFixed(1)}%`);
      element.classList.toggle("insp-g-less", amount < 0);
      const isAmount = coloring !== "kind" && !isParty(coloring);
      element.classList.toggle("insp-g-unknown", isAmount && amounts.has(node) && Number.isNaN(amount));
      const [party] = model.partiesAt(node);
      element.classList.toggle("insp-g-together", party !== undefined && !folding.isOpen(node));
      if (party !== undefined) element.style.setProperty("--party", partyColor(party));
      const text = amountText(model, node, coloring);
      const words = element.querySelector(".insp-g-words")!;
      words.textContent = folding.isOpen(node) ? text : text || subtitle(model, node);
      update(element, { "aria-label": spoken(model, node, words.textContent) });
    }
    this.element.dataset.coloring = isParty(coloring) ? "party" : coloring === "kind" ? "kind" : "amount";
    return most;
  }

  /** Sets the classes that `of` returns on the nodes on screen. */
  mark(of: (node: number) => string): void {
    for (const [node, element] of this.elements) {
      const wanted = of(node);
      for (const name of ["insp-weak", "insp-strong", "insp-chosen", "insp-g-found"]) {
        element.classList.toggle(name, name === wanted);
      }
      if (element.getAttribute("role") === "treeitem") {
        update(element, { "aria-selected": String(wanted === "insp-chosen") });
      }
    }
  }

  /** Moves the keyboard focus to a node. */
  reach(node: number, isMoving = false): void {
    this.elements.get(this.current)?.classList.remove("insp-g-current");
    this.current = node;
    const element = this.elements.get(node);
    element?.classList.add("insp-g-current");
    if (element) this.element.setAttribute("aria-activedescendant", element.id);
    else this.element.removeAttribute("aria-activedescendant");
    if (isMoving) {
      this.point(node);
      this.bringIntoView(node);
    }
  }

  /** Scrolls a node into view, unless it is visible. */
  bringIntoView(node: number): void {
    const place = this.shown?.layout.places.get(node);
    const seen = this.seen();
    if (!place || !seen.width) return;
    const [width, height] = [Math.min(place.width, seen.width), Math.min(place.height, seen.height)];
    const isInside =
      place.x >= seen.x &&
      place.x + width <= seen.x + seen.width &&
      place.y >= seen.y &&
      place.y + height <= seen.y + seen.height;
    if (isInside) return;
    this.lookAt({ x: place.x + width / 2, y: place.y + height / 2 });
  }

  /** Centers the view on a point of the layout. */
  lookAt({ x, y }: Point): void {
    const { width, height } = this.seen();
    this.isMoved = true;
    this.view = { ...this.view, x: x - width / 2, y: y - height / 2 };
    this.apply();
  }

  /** Returns the visible part of the layout. */
  seen(): Place {
    const { x, y, scale } = this.view;
    return { x, y, width: this.element.clientWidth / scale, height: this.element.clientHeight / scale };
  }

  zoom(factor: number, at: Point = { x: 0.5, y: 0.5 }): void {
    const { width, height } = this.seen();
    const scale = Math.max(SMALLEST, Math.min(LARGEST, this.view.scale * factor));
    const grown = 1 - this.view.scale / scale;
    this.isMoved = true;
    this.view = { x: this.view.x + width * grown * at.x, y: this.view.y + height * grown * at.y, scale };
    this.apply();
  }

  zoomIn = (): void => this.zoom(ZOOM_STEP);
  zoomOut = (): void => this.zoom(1 / ZOOM_STEP);

  /** Shows the whole layout, or its top if the text would be too small to read. */
  fit(smallest = LEGIBLE): void {
    const { size } = this.shown!.layout;
    const [width, height] = [this.element.clientWidth, this.element.clientHeight];
    if (!width || !height) return;
    const scale = Math.min(1, Math.max(smallest, Math.min(width / size.width, height / size.height)));
    const [isWide, isTall] = [size.width * scale > width, size.height * scale > height];
    const seen = { width: width / scale, height: isTall ? height / scale : size.height };
    this.view = {
      x: isWide ? this.densest(seen) : (size.width - width / scale) / 2,
      y: isTall ? 0 : (size.height - height / scale) / 2,
      scale,
    };
    this.isMoved = false;
    this.apply();
  }

  /** Returns the x position with the most visible nodes at the top, for a layout wider than the pane. */
  private densest({ width, height }: { width: number; height: number }): number {
    const { layout, folding, scene } = this.shown!;
    const closed = scene.shown.filter((node) => !folding.isOpen(node)).map((node) => layout.places.get(node)!);
    const top = closed.filter((place) => place.y + place.height <= height);
    const seenFrom = (x: number): number =>
      top.filter((place) => place.x >= x && place.x + place.width <= x + width).length;
    let [best, most] = [Math.max(0, (layout.size.width - width) / 2), 0];
    for (const { x, width: own } of top) {
      const from = Math.max(0, Math.min(layout.size.width - width, x + own / 2 - width / 2));
      const count = seenFrom(from);
      if (count > most) [best, most] = [from, count];
    }
    return best;
  }

  /** Called after the size of the pane has changed. */
  resize(): void {
    if (this.shown && !this.isMoved) this.fit();
  }

  private moveToView(): void {
    const { x, y, scale } = this.view;
    this.moved.setAttribute("transform", `scale(${scale}) translate(${-x} ${-y})`);
  }

  /** Removes all nodes, because another graph numbers its nodes differently. */
  private forget(): void {
    this.nodes.replaceChildren();
    this.elements.clear();
    this.current = this.pointed = NOWHERE;
  }

  private drawNodes({ folding, scene, layout }: Shown): void {
    const { model } = folding;
    const gone = new Set(this.elements.keys());
    for (const node of scene.shown) {
      gone.delete(node);
      const [place, isOpen] = [layout.places.get(node)!, folding.isOpen(node)];
      let element = this.elements.get(node);
      if (!element) {
        element = this.nodeElement(model, node);
        element.style.transform = `translate(${place.x}px, ${place.y}px)`;
        this.elements.set(node, element);
      }
      element.classList.toggle("insp-g-open", isOpen);
      if (model.canOpen(node)) update(element, { "aria-expanded": String(isOpen) });
      update(element, { "aria-level": String(model.depths[node]! - model.depths[scene.top]!) });
      element.style.transform = `translate(${place.x}px, ${place.y}px)`;
      const [frame, sign, , words] = [...element.children] as SVGElement[];
      update(frame!, { width: String(place.width), height: String(place.height) });
      if (model.canOpen(node)) sign!.textContent = isOpen ? "▾" : "▸";
      const end = isOpen ? { x: String(place.width - 8), y: "15", "text-anchor": "end" } : WORDS_BELOW;
      update(words!, end);
      this.nodes.append(element);
    }
    for (const node of gone) {
      this.elements.get(node)!.remove();
      this.elements.delete(node);
    }
  }

  private nodeElement(model: GraphModel, node: number): SVGGElement {
    const kind = model.isBox(node) ? model.kind(node) : kindOf(model.opcode(node));
    return svg(
      "g",
      {
        class: `insp-g-node insp-g-${model.isBox(node) ? "box" : "instruction"} insp-g-of-${kind}`,
        id: `${this.id}-${node}`,
        role: "treeitem",
        "data-node": node,
        "data-title": model.title(node),
      },
      svg("rect", { rx: model.isBox(node) ? 3 : 7 }),
      svg("text", { class: "insp-g-sign", x: 8, y: 15 }, ""),
      svg("text", { class: "insp-g-title", y: 15, x: model.canOpen(node) ? 20 : 9 }, shortened(model.label(node))),
      " ", // separates the texts for screen readers
      svg("text", { class: "insp-g-words" }, ""),
    );
  }

  private point(node: number): void {
    if (this.pointed === node || !this.shown) return;
    this.pointed = node;
    this.lines.light(node, this.shown);
    this.listeners.onPoint(node);
  }

  private nodeAt(x: number, y: number): number {
    const found = document.elementFromPoint(x, y)?.closest<SVGGElement>(".insp-g-node");
    return found && this.element.contains(found) ? Number(found.dataset.node) : NOWHERE;
  }

  private listen(): void {
    let hasMoved = false;
    drag(this.element, (down) => {
      hasMoved = false;
      let { clientX: x, clientY: y } = down;
      this.element.focus({ preventScroll: true });
      return (e) => {
        if (Math.hypot(e.clientX - down.clientX, e.clientY - down.clientY) > 4) hasMoved = true;
        if (!hasMoved) return;
        this.moveBy(x - e.clientX, y - e.clientY);
        ({ clientX: x, clientY: y } = e);
      };
    });
    this.element.addEventListener("click", (e) => {
      if (!hasMoved) this.click(this.nodeAt(e.clientX, e.clientY), e);
    });
    this.element.addEventListener("dblclick", (e) => {
      const node = this.nodeAt(e.clientX, e.clientY);
      if (node !== NOWHERE && !this.shown!.folding.model.isBox(node)) this.listeners.onToggle(node);
    });
    this.element.addEventListener("pointermove", (e) => {
      if (!e.buttons) this.point(this.nodeAt(e.clientX, e.clientY));
    });
    this.element.addEventListener("pointerleave", () => this.point(NOWHERE));
    this.element.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
    this.element.addEventListener("keydown", (e) => this.key(e));
  }

  private click(node: number, e: MouseEvent): void {
    if (node === NOWHERE || !this.shown) return;
    const { model } = this.shown.folding;
    this.reach(node);
    const isSign = document.elementFromPoint(e.clientX, e.clientY)?.classList.contains("insp-g-sign");
    if (model.isBox(node) || (isSign && model.canOpen(node))) this.listeners.onToggle(node);
    else this.listeners.onChoose(node);
  }

  private wheel(e: WheelEvent): void {
    if (!isForElement(e, this.element)) return;
    e.preventDefault();
    const frame = this.element.getBoundingClientRect();
    this.zoom(Math.exp(-e.deltaY * 0.0015), {
      x: (e.clientX - frame.left) / frame.width,
      y: (e.clientY - frame.top) / frame.height,
    });
  }

  private key(e: KeyboardEvent): void {
    if (e.ctrlKey || e.metaKey || e.altKey || !this.shown) return;
    const { current } = this;
    const direction = DIRECTIONS[e.key];
    if (direction) this.step(direction);
    else if (e.key === "+" || e.key === "=") this.zoomIn();
    else if (e.key === "-") this.zoomOut();
    else if (e.key === "0") this.fit(0);
    else if (e.key === "Escape") this.listeners.onLeave(current);
    else if (e.key === "Enter" || e.key === " ") this.press(current);
    else return;
    e.preventDefault();
    e.stopPropagation();
  }

  private press(node: number): void {
    if (node === NOWHERE) return;
    const { model } = this.shown!.folding;
    if (!model.isBox(node)) this.listeners.onChoose(node);
    if (model.canOpen(node)) this.listeners.onToggle(node);
  }

  /** Moves to the nearest node in a direction. */
  private step({ x, y }: Point): void {
    const { layout, folding, scene } = this.shown!;
    const here = layout.places.get(this.current);
    if (!here) return this.reach(scene.shown[0] ?? NOWHERE, true);
    const start = middleOf(folding.isOpen(this.current) ? { ...here, height: 24 } : here);
    let [best, least] = [NOWHERE, Infinity];
    for (const node of scene.shown) {
      const place = layout.places.get(node)!;
      const isOpen = folding.isOpen(node);
      if (node === this.current || isOpen) continue;
      const to = middleOf(place);
      const [dx, dy] = [to.x - start.x, to.y - start.y];
      const along = dx * x + dy * y;
      const aside = Math.abs(dx * y) + Math.abs(dy * x);
      const distance = along + 2 * aside;
      if (along > 4 && distance < least) [best, least] = [node, distance];
    }
    if (best !== NOWHERE) this.reach(best, true);
  }

  private moveBy(dx: number, dy: number): void {
    const { scale } = this.view;
    this.isMoved = true;
    this.view = { ...this.view, x: this.view.x + dx / scale, y: this.view.y + dy / scale };
    this.apply();
  }
}

/** Returns the color of a party, by its index among all. */
export function partyColor(place: number): string {
  return `var(--insp-group-${place % 8})`;
}

const WORDS_BELOW = { x: "9", y: "29", "text-anchor": "start" };

const DIRECTIONS: Readonly<Record<string, Point>> = {
  ArrowLeft: { x: -1, y: 0 },
  ArrowRight: { x: 1, y: 0 },
  ArrowUp: { x: 0, y: -1 },
  ArrowDown: { x: 0, y: 1 },
};

function middleOf({ x, y, width, height }: Place): Point {
  return { x: x + width / 2, y: y + height / 2 };
}
