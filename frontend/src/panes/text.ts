// A text pane: source, jaxpr, StableHLO, HLO, and the base of the optimized HLO's pane.

import { openSearchPanel } from "@codemirror/search";
import type { EditorView } from "@codemirror/view";
import { toolButton } from "../lib/controls.ts";
import { fill, h } from "../lib/dom.ts";
import { TextDocument } from "../lib/documents.ts";
import {
  createEditor,
  type EditorEvents,
  light,
  revealLine,
  revealText,
  setDetails,
  setWrapping,
  visibleLines,
} from "../lib/editor.ts";
import { isDrawn } from "../lib/expand.ts";
import { hasDetails } from "../lib/highlighting.ts";
import { best, levelsFor, nearestIndex, stepTo } from "../lib/linking.ts";
import { NONE } from "../lib/origins.ts";
import { drawRuler } from "../lib/ruler.ts";
import { heaviest } from "../lib/weights.ts";
import type { TextPane as Name } from "../messages.ts";
import { type Anchor, anchorAt } from "../state/local.ts";
import { describe } from "./card.ts";
import { changeLine } from "./change.ts";
import { CostMargin } from "./costmargin.ts";
import { type Context, Drawing, follow, type Pane, TITLES } from "./pane.ts";
import { ScrollPlaces } from "./scrollplaces.ts";
import { empty, missingText, trouble } from "./states.ts";
import { noMatch, steps } from "./stepper.ts";

/** An editor on screen with the document it shows. */
export interface Shown {
  readonly view: EditorView;
  readonly document: TextDocument;
}

/** The animation of whatever is laid out, in `styles/editor.css`. */
const LAID_OUT = "insp-laid-out";

export class TextPane implements Pane {
  readonly element: HTMLElement;
  readonly tools = h("div", { class: "insp-tools" });
  protected readonly body = h("div", { class: "insp-editor" });
  protected readonly stepper = h("span", { class: "insp-stepper" });
  protected readonly findButton = toolButton("find", "Find (Ctrl-F)", () => this.find());
  protected readonly drawing = new Drawing(() => this.draw());
  /** The editors on screen; the last one shows the pane's own document. */
  protected shown: Shown[] = [];
  private readonly costs: CostMargin;
  private readonly ruler = h("canvas", { class: "insp-ruler", "aria-hidden": "true" });
  private readonly detailsButton = toolButton("details", "Show locations and metadata", () =>
    this.context.local.setDetails(!this.context.local.details),
  );
  private readonly wrapButton = toolButton("wrap", "Wrap long lines", () =>
    this.context.local.setWrap(!this.context.local.wrap),
  );
  private readonly ends: (() => void)[];
  private readonly places = new ScrollPlaces();
  private readonly resizes = new ResizeObserver(() => this.onResize());
  private rulerFrame: number | null = null;
  private isPlain = false;
  private hasSize = false;
  private needsReveal = false;
  private step = -1;

  /** @param ofVariant the one whose text is shown, for a text that stands beside others; null for the active one. */
  constructor(
    protected readonly context: Context,
    readonly name: Name,
    readonly ofVariant: number | null = null,
  ) {
    this.element = h("div", { class: "insp-text", "data-pane": name }, this.body, this.ruler);
    this.costs = new CostMargin(context, (line) => this.own && this.goTo(this.own, line));
    this.tools.append(this.stepper, this.costs.button, this.detailsButton, this.wrapButton, this.findButton);
    const { local } = context;
    this.ends = [
      follow(context, name, this.drawing),
      local.signal.on(["active", "optimizedView"], this.drawing.request),
      local.signal.on(["selection"], () => this.onSelection()),
      local.signal.on(["hover"], () => {
        if (this.drawing.isVisible) this.light();
      }),
      local.signal.on(["wrap", "details"], () => this.applyOptions()),
      local.signal.on(["step"], () => this.onStep()),
      local.signal.on(["measure"], this.drawing.request),
      local.signal.on(["show"], () => this.onShow()),
      context.synced.signal.on(["line_costs"], this.drawing.request),
    ];
    this.resizes.observe(this.body);
    // A page that takes an element out and puts it back within one frame resizes nothing; what is laid out anew is animated.
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
      this.onSelection()?.();
    }
  }

  destroy(): void {
    this.ends.forEach((end) => end());
    this.resizes.disconnect();
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
    this.updateStepper();
  }

  /** A compile may fail after its last text was made: both are shown. */
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

  /** What sets the text apart from the baseline's. */
  private drawChange(): void {
    this.body.querySelector(":scope > .insp-change")?.remove();
    const line = this.tellsChange && changeLine(this.context, this.variant);
    if (line) this.body.prepend(line);
  }

  /** Whether it is said above the text; not where the text is a comparison itself. */
  protected get tellsChange(): boolean {
    return this.name === "optimized";
  }

  protected drawDocument(document: TextDocument): void {
    if (this.shown.length === 1 && this.shown[0]!.document === document) {
      this.light(); // origins of other documents may have come since
      this.updateStepper();
      return;
    }
    this.clear();
    fill(this.body);
    const view = createEditor(document, this.events(document), this.context.local, this.body);
    this.present([{ view, document }], true);
    this.beginAtEntry(document);
  }

  /** Takes editors as those on screen; only a text by itself, `isPlain`, has a place to come back to. */
  protected present(shown: Shown[], isPlain = false): void {
    this.shown = shown;
    this.isPlain = isPlain;
    this.restoreScroll();
    this.onSelection()?.();
    shown.forEach(({ view }) => view.scrollDOM.addEventListener("scroll", () => this.saveScroll(), { passive: true }));
  }

  protected clear(): void {
    this.saveScroll();
    this.shown.forEach(({ view }) => view.destroy());
    this.shown = [];
    this.body.replaceChildren();
    this.drawRuler();
  }

  protected get own(): Shown | null {
    return this.shown[this.shown.length - 1] ?? null;
  }

  protected events(document: TextDocument): EditorEvents {
    const { local } = this.context;
    const select = (line: number): void => local.select(anchorAt(document, line));
    return {
      onLine: (line) => {
        // What follows the active variant, such as the graph, then shows the variant of the line.
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
    const chosen = this.chosenLine(document);
    const { first, last } = visibleLines(view);
    const from = chosen < 0 ? first - delta : chosen;
    const line = Math.max(0, Math.min(document.lines.length - 1, from + delta));
    select(line);
    if (line <= first || line >= last) revealLine(view, line);
  }

  /** Scrolls to what is linked while the page is as it was last laid out; lights it when all texts have. */
  private onSelection(): (() => void) | void {
    this.step = -1;
    this.needsReveal = true;
    if (!this.drawing.isVisible) return;
    this.revealMatch();
    return () => {
      this.light();
      this.updateStepper();
    };
  }

  /** The selected line where this document has it: by its line, or by its instruction. */
  private chosenLine(document: TextDocument): number {
    const { selection } = this.context.local;
    if (!selection || selection.variant !== document.variant) return -1;
    if (selection.pane === this.name) return selection.line;
    const isItsStage = selection.stage === this.name && selection.instruction !== null;
    return isItsStage ? document.lineOfInstruction(selection.instruction!) : -1;
  }

  private light(): void {
    const { local } = this.context;
    const link = local.link();
    for (const { view, document } of this.shown) {
      const isElsewhere = local.hover && !isIn(local.hover, document);
      const hover = isElsewhere ? local.linkOfHover() : null;
      light(view, {
        chosen: this.chosenLine(document),
        levels: link && levelsFor(link, document).of,
        hover: hover && levelsFor(hover, document).of,
      });
    }
    this.drawRuler();
  }

  private revealMatch(): void {
    const own = this.own;
    const { selection } = this.context.local;
    if (!own || !selection || !this.needsReveal) return;
    this.needsReveal = false;
    const chosen = this.chosenLine(own.document);
    const lines = chosen >= 0 ? Int32Array.of(chosen) : this.targets();
    const { first, last } = visibleLines(own.view);
    const weighed = lines.length > 1 ? heaviest(own.document, lines) : 0;
    const index = weighed < 0 ? nearestIndex(lines, (first + last) / 2) : weighed;
    this.step = chosen >= 0 ? this.targets().indexOf(chosen) : index;
    const line = lines[index];
    if (line === undefined || this.shown.some(({ document }) => isIn(selection, document))) return;
    const isVisible = line >= first && line <= last && isDrawn(own.view, line);
    if (isVisible) revealText(own.view, line);
    else revealLine(own.view, line);
  }

  private targets(): Int32Array {
    const matches = this.own && this.context.local.matches(this.own.document);
    return matches ? best(matches) : new Int32Array();
  }

  private onStep(): void {
    const { pane, variant, delta, phase } = this.context.local.stepped;
    const isMeant = (pane === null || pane === this.name) && (variant === null || variant === this.ofVariant);
    const lines = this.targets();
    if (!this.own || !this.drawing.isVisible || !lines.length || !isMeant) return;
    const { origins } = this.context.synced;
    const { document } = this.own;
    const isOfPhase = (line: number): boolean => phase === null || origins.phase(document.origin(line)) === phase;
    const next = stepTo(lines, this.step, delta, isOfPhase);
    if (next < 0) return;
    this.step = next;
    revealLine(this.own.view, lines[this.step]!);
    this.updateStepper();
  }

  private updateStepper(): void {
    const { local } = this.context;
    const lines = this.targets();
    if (!this.own || !local.selection) return fill(this.stepper);
    if (!lines.length && local.selection.origin === NONE) return fill(this.stepper);
    if (!lines.length) return fill(this.stepper, noMatch());
    fill(
      this.stepper,
      ...steps({
        title: this.title,
        count: lines.length,
        at: this.step,
        isWeak: !local.matches(this.own.document)!.strong.length,
        step: (delta) => local.step(this.name, delta, this.ofVariant),
      }),
    );
  }

  /** With the next frame: it needs sizes, for which the browser would lay out all that was just changed. */
  private drawRuler(): void {
    this.rulerFrame ??= requestAnimationFrame(() => {
      this.rulerFrame = null;
      const own = this.own;
      const matches = own && this.context.local.matches(own.document);
      drawRuler(this.ruler, own?.view ?? null, matches ?? null, own ? this.chosenLine(own.document) : -1);
    });
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

  /** The pane's name; of a text beside others with its variant's label. */
  private get title(): string {
    const variant = this.ofVariant === null ? null : this.context.synced.variants.get(this.ofVariant);
    return TITLES[this.name] + (variant ? `, ${variant.label}` : "");
  }

  find(): void {
    if (this.own) openSearchPanel(this.own.view);
  }

  /** A notebook takes cells out of the page and puts them back, without the place that was read. */
  private onResize(): void {
    const hadSize = this.hasSize;
    this.hasSize = this.body.clientHeight > 0;
    if (this.hasSize && !hadSize) this.comeBack();
    this.drawRuler();
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

  /** A text that was not read before, and in which nothing is selected; as soon as it has a size. */
  private beginAtEntry(document: TextDocument): void {
    const line = document.firstLine;
    if (
      !this.body.clientHeight ||
      line <= 0 ||
      this.places.has(document) ||
      this.chosenLine(document) >= 0 ||
      this.targets().length
    )
      return;
    revealLine(this.own!.view, line, "top");
  }

  private restoreScroll(): void {
    if (this.own && this.isPlain) this.places.restore(this.own.view, this.own.document);
  }
}

/** Whether an anchor is in a document itself, not only linked to it. */
function isIn(anchor: Anchor, document: TextDocument): boolean {
  return anchor.pane === document.pane && anchor.variant === document.variant;
}

const LANGUAGES = { source: "python", jaxpr: "jaxpr", stablehlo: "mlir", hlo: "hlo", optimized: "hlo" } as const;
