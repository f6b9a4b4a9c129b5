// The lines of a text that belong to the selection: highlighting, and stepping through them.

import { h, fill } from "../lib/dom.ts";
import type { TextDocument } from "../lib/documents.ts";
import { light, revealLine, stayAt, visibleLines } from "../lib/editor.ts";
import { isDrawn } from "../lib/expand.ts";
import { best, levelsFor, nearestIndex, othersIn, stepTo } from "../lib/linking.ts";
import { NONE } from "../lib/origins.ts";
import { drawRuler } from "../lib/ruler.ts";
import { heaviest } from "../lib/weights.ts";
import type { Pane as Name } from "../messages.ts";
import type { Anchor } from "../state/local.ts";
import type { Context } from "./pane.ts";
import { noMatch, steps } from "./stepper.ts";
import type { Shown } from "./shown.ts";

/** The pane that owns the text. */
interface Owner {
  /** The editors on screen; the last one shows the pane's own document. */
  shown(): readonly Shown[];
  isVisible(): boolean;
  title(): string;
}

export class TextMatches {
  readonly stepper = h("span", { class: "insp-stepper" });
  readonly ruler = h("canvas", { class: "insp-ruler", "aria-hidden": "true" });
  private rulerFrame: number | null = null;
  private needsReveal = false;
  private step = -1;

  constructor(
    private readonly context: Context,
    private readonly name: Name,
    private readonly ofVariant: number | null,
    private readonly owner: Owner,
  ) {}

  /** Scrolls to a linked line, before any text changes the page. Returns a function that highlights the lines. */
  onSelection(): (() => void) | void {
    this.step = -1;
    this.needsReveal = true;
    if (!this.owner.isVisible()) return;
    this.revealMatch();
    return () => {
      this.light();
      this.updateStepper();
    };
  }

  /** Returns the selected line of a document, by line or by instruction; -1 if the document does not have it. */
  chosenLine(document: TextDocument): number {
    const { selection } = this.context.local;
    if (!selection || selection.variant !== document.variant) return -1;
    if (selection.pane === this.name) return selection.line;
    const isItsStage = selection.stage === this.name && selection.instruction !== null;
    return isItsStage ? document.lineOfInstruction(selection.instruction!) : -1;
  }

  light(): void {
    const { local } = this.context;
    const link = local.link();
    for (const { view, document } of this.owner.shown()) {
      const isElsewhere = local.hover && !isIn(local.hover, document);
      const hover = isElsewhere ? local.linkOfHover() : null;
      light(view, {
        chosen: this.chosenLine(document),
        levels: link && levelsFor(link, document).of,
        others: link && othersIn(link, document),
        hover: hover && levelsFor(hover, document).of,
      });
    }
    this.drawRuler();
  }

  targets(): Int32Array {
    const matches = this.own && this.context.local.matches(this.own.document);
    return matches ? best(matches) : new Int32Array();
  }

  onStep(): void {
    const { pane, variant, delta, phase } = this.context.local.stepped;
    const isMeant = (pane === null || pane === this.name) && (variant === null || variant === this.ofVariant);
    const lines = this.targets();
    if (!this.own || !this.owner.isVisible() || !lines.length || !isMeant) return;
    const { origins } = this.context.synced;
    const { document } = this.own;
    const isOfPhase = (line: number): boolean => phase === null || origins.phase(document.origin(line)) === phase;
    const next = stepTo(lines, this.step, delta, isOfPhase);
    if (next < 0) return;
    this.step = next;
    revealLine(this.own.view, lines[this.step]!);
    this.updateStepper();
  }

  updateStepper(): void {
    const { local } = this.context;
    const lines = this.targets();
    if (!this.own || !local.selection) return fill(this.stepper);
    if (!lines.length && local.selection.origin === NONE) return fill(this.stepper);
    if (!lines.length) return fill(this.stepper, noMatch());
    fill(
      this.stepper,
      ...steps({
        title: this.owner.title(),
        count: lines.length,
        at: this.step,
        isWeak: !local.matches(this.own.document)!.strong.length,
        step: (delta) => local.step(this.name, delta, this.ofVariant),
      }),
    );
  }

  /** Draws the ruler in the next frame: reading sizes now would force a layout of all changes. */
  drawRuler(): void {
    this.rulerFrame ??= requestAnimationFrame(() => {
      this.rulerFrame = null;
      const own = this.own;
      const matches = own && this.context.local.matches(own.document);
      drawRuler(this.ruler, own?.view ?? null, matches ?? null, own ? this.chosenLine(own.document) : -1);
    });
  }

  /** Scrolls to a linked line of a text that came on screen after the selection. */
  reveal(): void {
    this.needsReveal = true;
    this.revealMatch();
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
    if (line === undefined || this.owner.shown().some(({ document }) => isIn(selection, document))) return;
    const isVisible = line >= first && line <= last && isDrawn(own.view, line);
    if (isVisible) stayAt(own.view, line);
    else revealLine(own.view, line);
  }

  private get own(): Shown | null {
    const shown = this.owner.shown();
    return shown[shown.length - 1] ?? null;
  }
}

/** Returns whether an anchor is in a document itself, and not only linked to it. */
function isIn(anchor: Anchor, document: TextDocument): boolean {
  return anchor.pane === document.pane && anchor.variant === document.variant;
}
