// A text pane: source, jaxpr, StableHLO, HLO. Also the base class of the optimized HLO pane.

import { openSearchPanel } from "@codemirror/search";
import { toolButton } from "../lib/controls.ts";
import { fill, h } from "../lib/dom.ts";
import { TextDocument } from "../lib/documents.ts";
import { createEditor, revealLine, setDetails, setWrapping, visibleLines } from "../lib/editor.ts";
import type { EditorEvents } from "../lib/editorevents.ts";
import { hasDetails } from "../lib/highlighting.ts";
import type { TextPane as Name } from "../messages.ts";
import { anchorAt } from "../state/local.ts";
import { describe } from "./card.ts";
import { changeLine } from "./change.ts";
import { CostMargin } from "./costmargin.ts";
import { type Context, Drawing, follow, type Pane, TITLES } from "./pane.ts";
import { ScrollPlaces } from "./scrollplaces.ts";
import type { Shown } from "./shown.ts";
import { empty, missingText, trouble } from "./states.ts";
import { TextMatches } from "./textmatches.ts";

/** The name of the CSS animation that reports a layout, in `styles/editor.css`. */
const LAID_OUT = "insp-laid-out";

/** The time after which a text no longer moves to its slowest kernel by itself. */
const AWAITED_MS = 5000;

export class TextPane implements Pane {
  readonly element: HTMLElement;
  readonly tools = h("div", { class: "insp-tools" });
  protected readonly body = h("div", { class: "insp-editor" });
  protected readonly findButton = toolButton("find", "Find (Ctrl-F)", () => this.find());
  protected readonly drawing = new Drawing(() => this.draw());
  /** The editors on screen; the last one shows the pane's own document. */
  protected shown: Shown[] = [];
  protected readonly matches: TextMatches;
  private readonly costs: CostMargin;
  private readonly detailsButton = toolButton("details", "Show locations and metadata", () =>
    this.context.local.setDetails(!this.context.local.details),
  );
  private readonly wrapButton = toolButton("wrap", "Wrap long lines", () =>
    this.context.local.setWrap(!this.context.local.wrap),
  );
  private readonly ends: (() => void)[];
  private readonly places = new ScrollPlaces();
  /** Called once when the text comes on screen. */
  private onSight = (): void => {};
  private readonly sights = new IntersectionObserver((entries) => {
    if (!entries.some(({ isIntersecting }) => isIntersecting)) return;
    this.sights.disconnect();
    requestAnimationFrame(() => requestAnimationFrame(() => this.onSight())); // after the lines are measured
  });
  private readonly resizes = new ResizeObserver(() => this.onResize());
  private isPlain = false;
  private hasSize = false;

  /** @param ofVariant the variant whose text is shown, for a text in a column; null for the active variant. */
  constructor(
    protected readonly context: Context,
    readonly name: Name,
    readonly ofVariant: number | null = null,
  ) {
    this.matches = new TextMatches(context, name, ofVariant, {
      shown: () => this.shown,
      isVisible: () => this.drawing.isVisible,
      title: () => this.title,
    });
    this.element = h("div", { class: "insp-text", "data-pane": name }, this.body, this.matches.ruler);
    this.costs = new CostMargin(context, (line) => this.own && this.goTo(this.own, line));
    this.tools.append(this.matches.stepper, this.costs.button, this.detailsButton, this.wrapButton, this.findButton);
    const { local } = context;
    this.ends = [
      follow(context, name, this.drawing),
      local.signal.on(["active", "optimizedView"], this.drawing.request),
      local.signal.on(["selection"], () => this.matches.onSelection()),
      local.signal.on(["hover"], () => {
        if (this.drawing.isVisible) this.matches.light();
      }),
      local.signal.on(["wrap", "details"], () => this.applyOptions()),
      local.signal.on(["step"], () => this.matches.onStep()),
      local.signal.on(["measure"], this.drawing.request),
      local.signal.on(["show"], () => this.onShow()),
      context.synced.signal.on(["line_costs"], this.drawing.request),
    ];
    this.resizes.observe(this.body);
    // Removing an element and putting it back within one frame causes no resize, but it restarts CSS animations.
    this.body.addEventListener("animationstart", ({ animationName }) => {
      if (animationName === LAID_OUT) this.comeBack();
    });
    this.applyOptions();
  }

  setVisible(visible: boolean): void {
    if (!visible) this.saveScroll();
    const wasVisible = this.drawing.isVisible;
    this.drawing.setVisible(visible);
    this.hasSize = visible && this.body.clientHeight > 0;
    if (visible && !wasVisible) {
      this.restoreScroll();
      this.matches.onSelection()?.();
    }
  }

  destroy(): void {
    this.ends.forEach((end) => end());
    this.resizes.disconnect();
    this.sights.disconnect();
    this.clear();
  }

  protected get variant(): number | null {
    return this.ofVariant ?? this.context.local.active;
  }

  protected draw(): void {
    const slot = this.context.synced.slot(this.name, this.variant);
    if (slot instanceof TextDocument) {
      this.drawDocument(slot);
      this.drawChange();
      this.drawCosts();
      return this.drawTrouble();
    }
    this.clear();
    fill(
      this.body,
      slot
        ? empty(`${TITLES[this.name]}: ${slot.reason}`, slot.remedy)
        : missingText(this.context.synced, TITLES[this.name], this.variant),
    );
    this.matches.updateStepper();
  }

  /** Shows the error above the last text if the compile failed after producing it. */
  private drawTrouble(): void {
    const variant = this.context.synced.variants.get(this.variant ?? -1);
    const isLast = this.name === "optimized" && variant?.state === "failed";
    this.body.querySelector(":scope > .insp-text-trouble")?.remove();
    if (isLast) this.body.prepend(trouble(variant.error));
  }

  private drawCosts(): void {
    if (!this.shown.length) return;
    if (this.costs.element.parentElement !== this.body) this.body.prepend(this.costs.element);
    this.costs.draw(this.shown, this.variant);
  }

  private onShow(): void {
    const { shown } = this.context.local;
    if (this.own && shown?.pane === this.name && this.drawing.isVisible) revealLine(this.own.view, shown.line);
  }

  private goTo({ view, document }: Shown, line: number): void {
    this.context.local.select(anchorAt(document, line));
    revealLine(view, line);
  }

  /** Draws the summary of the differences from the baseline. */
  private drawChange(): void {
    this.body.querySelector(":scope > .insp-change")?.remove();
    const line = this.tellsChange && changeLine(this.context, this.variant);
    if (line) this.body.prepend(line);
  }

  /** Whether a summary of the differences is shown above the text. Not if the text is a comparison itself. */
  protected get tellsChange(): boolean {
    return this.name === "optimized";
  }

  protected drawDocument(document: TextDocument): void {
    if (this.shown.length === 1 && this.shown[0]!.document === document) {
      this.matches.light(); // origins of other documents may have arrived meanwhile
      this.matches.updateStepper();
      return;
    }
    this.clear();
    fill(this.body);
    const view = createEditor(document, this.events(document), this.context.local, this.body);
    this.present([{ view, document }], true);
    this.beginAtEntry(document);
  }

  /** Sets the editors on screen. Only a single text (`isPlain`) has a scroll position to restore. */
  protected present(shown: Shown[], isPlain = false): void {
    this.shown = shown;
    this.isPlain = isPlain;
    this.restoreScroll();
    this.matches.onSelection()?.();
    shown.forEach(({ view }) => view.scrollDOM.addEventListener("scroll", () => this.saveScroll(), { passive: true }));
  }

  protected clear(): void {
    this.saveScroll();
    this.shown.forEach(({ view }) => view.destroy());
    this.shown = [];
    this.body.replaceChildren();
    this.matches.drawRuler();
  }

  protected get own(): Shown | null {
    return this.shown[this.shown.length - 1] ?? null;
  }

  protected events(document: TextDocument): EditorEvents {
    const { local } = this.context;
    const select = (line: number): void => local.select(anchorAt(document, line));
    return {
      onLine: (line) => {
        // Panes of the active variant, such as the graph, then show the variant of this line.
        if (this.ofVariant !== null) local.setActive(this.ofVariant);
        select(line);
      },
      onHover: (line) => local.setHover(line === null ? null : anchorAt(document, line)),
      onMove: (delta) => this.move(document, delta, select),
      onClear: () => local.select(null),
      describe: (line) => describe(this.context, document, document.variant ?? this.variant, line),
    };
  }

  private move(document: TextDocument, delta: number, select: (line: number) => void): void {
    const view = this.shown.find((s) => s.document === document)?.view;
    if (!view) return;
    const chosen = this.matches.chosenLine(document);
    const { first, last } = visibleLines(view);
    const from = chosen < 0 ? first - delta : chosen;
    const line = Math.max(0, Math.min(document.lines.length - 1, from + delta));
    select(line);
    if (line <= first || line >= last) revealLine(view, line);
  }

  private applyOptions(): void {
    const { local } = this.context;
    this.wrapButton.setAttribute("aria-pressed", String(local.wrap));
    this.detailsButton.setAttribute("aria-pressed", String(local.details));
    this.detailsButton.hidden = !hasDetails(LANGUAGES[this.name]);
    for (const { view, document } of this.shown) {
      setWrapping(view, local.wrap);
      setDetails(view, document, local.details);
    }
  }

  /** The pane's title, followed by the variant's label for a text in a column. */
  private get title(): string {
    const variant = this.ofVariant === null ? null : this.context.synced.variants.get(this.ofVariant);
    return TITLES[this.name] + (variant ? `, ${variant.label}` : "");
  }

  find(): void {
    if (this.own) openSearchPanel(this.own.view);
  }

  /** Restores the scroll position after the notebook has removed the cell from the page and put it back. */
  private onResize(): void {
    const hadSize = this.hasSize;
    this.hasSize = this.body.clientHeight > 0;
    if (this.hasSize && !hadSize) this.comeBack();
    this.matches.drawRuler();
  }

  private comeBack(): void {
    if (!this.own || !this.isPlain) return;
    this.restoreScroll();
    this.beginAtEntry(this.own.document);
  }

  private saveScroll(): void {
    const { own } = this;
    if (own && this.isPlain && this.drawing.isVisible && this.body.clientHeight > 0)
      this.places.save(own.view, own.document);
  }

  /** Scrolls a text that has a size and no saved position to its selected lines, or to its first interesting line. */
  private beginAtEntry(document: TextDocument): void {
    const line = document.firstLine;
    if (!this.body.clientHeight || this.places.has(document)) return;
    if (this.matches.chosenLine(document) >= 0 || this.matches.targets().length) return this.matches.reveal();
    if (line <= 0) return;
    this.begin(document, line, "top");
    if (this.name === "optimized") requestAnimationFrame(() => this.goToSlowest(document));
  }

  /** Scrolls to a line, and again when the text first comes on screen: before, the heights of its lines are not known. */
  private begin(document: TextDocument, line: number, place: "middle" | "top"): void {
    const reveal = (): void => {
      if (this.own?.document === document) revealLine(this.own.view, line, place);
    };
    reveal();
    this.sights.disconnect();
    this.onSight = () => {
      if (!this.context.local.selection) reveal();
    };
    if (!this.isOnScreen()) this.sights.observe(this.body);
  }

  private isOnScreen(): boolean {
    const { top, bottom } = this.body.getBoundingClientRect();
    return bottom > 0 && top < window.innerHeight;
  }

  /** Scrolls to the slowest kernel once the times are estimated, unless the reader has moved by then. */
  private goToSlowest(document: TextDocument): void {
    const { synced } = this.context;
    const scroller = this.own?.document === document ? this.own.view.scrollDOM : null;
    if (!scroller) return;
    const [begun, top] = [Date.now(), scroller.scrollTop];
    const stop = synced.signal.on(["headline"], () => {
      const slowest = synced
        .latest("headline", { variant: this.variant })
        ?.facts.find(({ subject }) => subject === "time");
      if (!slowest && Date.now() - begun < AWAITED_MS) return;
      stop();
      this.ends.splice(this.ends.indexOf(stop), 1);
      const isHere = this.own?.document === document && this.drawing.isVisible && scroller.scrollTop === top;
      const line = slowest ? document.lineOfInstruction(slowest.instruction) : -1;
      if (isHere && line >= 0 && !this.context.local.selection) this.begin(document, line, "middle");
    });
    this.ends.push(stop);
  }

  private restoreScroll(): void {
    if (this.own && this.isPlain) this.places.restore(this.own.view, this.own.document);
  }
}

const LANGUAGES = { source: "python", jaxpr: "jaxpr", stablehlo: "mlir", hlo: "hlo", optimized: "hlo" } as const;
