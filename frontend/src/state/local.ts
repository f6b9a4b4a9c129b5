// State that the user controls: selection, active variant, view options. Python receives the selection only.

import type { Measure } from "../lib/linecosts.ts";
import { STRONG, WEAK, levelOf, linkOf, matchesIn, type LinePlace, type Link, type Matches } from "../lib/linking.ts";
import { NONE } from "../lib/origins.ts";
import { Signal } from "../lib/signal.ts";
import type { TextDocument } from "../lib/documents.ts";
import type * as messages from "../messages.ts";
import { ChosenPasses } from "./chosenpasses.ts";
import { Costs } from "./costs.ts";
import type { Synced, Timed } from "./synced.ts";

type LocalTopic =
  | "selection"
  | "hover"
  | "active"
  | "optimizedView"
  | "columns"
  | "reveal"
  | "step"
  | "wrap"
  | "details"
  | "measure"
  | "pass"
  | "show";
/** The active variant, all variants in columns, or the active one compared with its reference in two ways. */
export type OptimizedView = "text" | "columns" | "split" | "unified";

/** A selected or hovered line or instruction, and the pane where it was selected. */
export interface Anchor {
  readonly pane: messages.Pane;
  /** The variant of the text; null for a text that all variants share. */
  readonly variant: number | null;
  /** The line in the pane's document, from 0, or -1. */
  readonly line: number;
  /** The interned origin, or NONE. */
  readonly origin: number;
  /** The instruction that the line defines, and the stage of its text. */
  readonly instruction: string | null;
  readonly stage: messages.Stage | null;
}

export class Local {
  readonly signal = new Signal<LocalTopic>();
  active: number | null = null;
  optimizedView: OptimizedView = "text";
  /** The last view that compares. Unified at first: in three columns, two texts side by side are too narrow to read. */
  lastComparison: OptimizedView = "unified";
  /** The view to return to from a comparison. */
  withoutComparison: OptimizedView = "text";
  /** The reference that the user has chosen for a variant. */
  private readonly references = new Map<number, number>();
  /** Variants whose columns the user has hidden. */
  readonly hidden = new Set<number>();
  /** Column widths that the user has set, as shares of the total width. */
  readonly columnShares = new Map<number, number>();
  wrap = false;
  /** Whether locations and metadata at the ends of lines are shown. */
  details = false;
  /** The measure that the user chose for the costs beside lines, null for none; undefined before a choice. */
  private chosenMeasure: Measure | null | undefined = undefined;
  readonly costs: Costs;
  readonly passes: ChosenPasses;
  selection: Anchor | null = null;
  hover: Anchor | null = null;
  /** The pane to bring to the front, with the signal "reveal". */
  revealed: messages.Pane | null = null;
  /** The part of that pane to show, as the pane names it; "" for what it shows already. */
  revealedPart = "";
  /** The step that panes should make through their matches, with the signal "step". */
  stepped: Step = { pane: null, variant: null, delta: 0, phase: null };
  /** The line that a pane should scroll to, with the signal "show". */
  shown: { readonly pane: messages.Pane; readonly line: number } | null = null;
  /** Earlier selections, and selections that `back` has left. */
  private past: Anchor[] = [];
  private future: Anchor[] = [];
  private selectionLink: CachedLink | null = null;
  private matchCache = new WeakMap<TextDocument, { link: Link; matches: Matches }>();
  private hoverLink: CachedLink | null = null;
  private sendTimer: ReturnType<typeof setTimeout> | null = null;

  constructor(private readonly synced: Synced) {
    this.costs = new Costs(synced);
    this.passes = new ChosenPasses(
      synced,
      () => this.active,
      () => this.signal.emit("pass"),
    );
    synced.signal.on(["existing"], () => () => this.setActive(synced.existing));
    for (const topic of ["focus", "document", "variant"] as const) synced.signal.on([topic], () => () => this.follow());
  }

  /** The active variant; null if there is none. */
  get variant(): Timed<messages.VariantMessage> | null {
    return this.synced.variants.get(this.active ?? -1) ?? null;
  }

  setActive(variant: number | null): void {
    if (this.active === variant) return;
    this.active = variant;
    if (variant !== this.synced.existing) this.synced.existing = null;
    if (variant !== null && this.hidden.delete(variant)) this.signal.emit("columns");
    this.signal.emit("active");
  }

  /** Returns the variant that a variant is compared with: the user's choice, or the default. The same if there is none. */
  referenceOf(variant: number): number | null {
    const chosen = this.references.get(variant);
    return chosen !== undefined && this.synced.variants.has(chosen) ? chosen : this.synced.defaultReferenceOf(variant);
  }

  /**
   * Returns the reference if it has the same target, so that numbers are comparable; null for the first one of a
   * target.
   */
  sameTargetReferenceOf(variant: number): number | null {
    const reference = this.referenceOf(variant);
    if (reference === null || reference === variant) return null;
    const { variants } = this.synced;
    return variants.get(reference)?.target === variants.get(variant)?.target ? reference : null;
  }

  /** Compares a variant with any other one from now on. */
  setReference(variant: number, reference: number): void {
    this.references.set(variant, reference);
    const isKnown = this.synced.latest("diff", { baseline: reference, variant }) !== null;
    if (!isKnown) this.synced.send({ type: "compare", baseline: reference, variant });
    this.signal.emit("active");
  }

  setOptimizedView(view: OptimizedView): void {
    this.optimizedView = view;
    if (view === "split" || view === "unified") this.lastComparison = view;
    else this.withoutComparison = view;
    this.signal.emit("optimizedView");
  }

  /** Whether variants are shown side by side. A single one is if more are expected. */
  get isSideBySide(): boolean {
    const { session, variants } = this.synced;
    return this.optimizedView === "columns" && (variants.size > 1 || session?.side_by_side === true);
  }

  /** The variants with a visible column, in order. */
  get columns(): number[] {
    return this.synced.ordered.filter((variant) => !this.hidden.has(variant));
  }

  hideColumn(variant: number): void {
    this.hidden.add(variant);
    this.signal.emit("columns");
    if (variant === this.active) this.setActive(this.columns[0] ?? null);
  }

  showColumns(variants: readonly number[]): void {
    variants.forEach((variant) => this.hidden.delete(variant));
    this.signal.emit("columns");
  }

  setWrap(wrap: boolean): void {
    this.wrap = wrap;
    this.signal.emit("wrap");
  }

  setDetails(details: boolean): void {
    this.details = details;
    this.signal.emit("details");
  }

  /** The measure of the costs shown beside lines; null for none. By default, the measured time of a profiled variant. */
  get measure(): Measure | null {
    if (this.chosenMeasure !== undefined) return this.chosenMeasure;
    return (this.variant?.profile ?? 0) > 0 ? "measured_s" : null;
  }

  setMeasure(measure: Measure | null): void {
    this.chosenMeasure = measure;
    this.signal.emit("measure");
  }

  reveal(pane: messages.Pane, part = ""): void {
    this.revealed = pane;
    this.revealedPart = part;
    this.signal.emit("reveal");
  }

  /**
   * Steps through the matches of a pane or of all panes (null), and optionally of one variant's column or one phase.
   */
  step(pane: messages.Pane | null, delta: number, variant: number | null = null, phase: string | null = null): void {
    this.stepped = { pane, variant, delta, phase };
    this.signal.emit("step");
  }

  /** Returns the lines of a document that belong to the selection. */
  matches(document: TextDocument): Matches | null {
    const link = this.link();
    if (!link) return null;
    const cached = this.matchCache.get(document);
    if (cached?.link === link) return cached.matches;
    const matches = matchesIn(document, link);
    this.matchCache.set(document, { link, matches });
    return matches;
  }

  select(anchor: Anchor | null): void {
    if (this.selection && !isNear(this.selection, anchor)) this.past = [...this.past, this.selection].slice(-MOST_PAST);
    this.future = [];
    this.setSelection(anchor);
  }

  /** Returns to the previous selection. */
  back(): void {
    const anchor = this.past.pop();
    if (!anchor) return;
    if (this.selection) this.future.push(this.selection);
    this.return(anchor);
  }

  forward(): void {
    const anchor = this.future.pop();
    if (!anchor) return;
    if (this.selection) this.past.push(this.selection);
    this.return(anchor);
  }

  /** Goes to the place that Python has requested, as soon as it exists. */
  private follow(): void {
    const { focused } = this.synced;
    if (!focused) return;
    const { pane, variant, line, instruction } = focused;
    if (variant !== null && !this.synced.variants.has(variant)) return;
    const isPlace = line !== null || instruction !== null;
    const document = isPlace ? this.synced.document(pane as messages.TextPane, variant ?? this.active) : null;
    if (isPlace && !document) return;
    this.synced.focused = null;
    if (variant !== null) this.setActive(variant);
    this.reveal(pane);
    if (!document) return;
    const target = instruction !== null ? document.lineOfInstruction(instruction) : document.lineLabeled(line!);
    if (target < 0) return;
    this.goTo(document, target);
  }

  private return(anchor: Anchor): void {
    if (anchor.variant !== null && this.synced.variants.has(anchor.variant)) this.setActive(anchor.variant);
    this.setSelection(anchor);
    if (anchor.line >= 0) this.show(anchor.pane, anchor.line);
  }

  /** Selects a line and scrolls to it. */
  goTo(document: TextDocument, line: number): void {
    this.select(anchorAt(document, line));
    this.show(document.pane, line);
  }

  /** Makes a pane scroll to a line. */
  private show(pane: messages.Pane, line: number): void {
    this.shown = { pane, line };
    this.signal.emit("show");
  }

  private setSelection(anchor: Anchor | null): void {
    this.selection = anchor;
    this.selectionLink = null;
    this.signal.emit("selection");
    this.tellPython();
  }

  setHover(anchor: Anchor | null): void {
    const { hover } = this;
    const isSame = hover?.origin === anchor?.origin && hover?.pane === anchor?.pane;
    if (isSame && hover?.variant === anchor?.variant) return;
    this.hover = anchor;
    this.hoverLink = null;
    this.signal.emit("hover");
  }

  /** Returns the link of the selection, including origins that have arrived since. */
  link(): Link | null {
    return (this.selectionLink = this.refresh(this.selectionLink, this.selection))?.link ?? null;
  }

  linkOfHover(): Link | null {
    return (this.hoverLink = this.refresh(this.hoverLink, this.hover))?.link ?? null;
  }

  /** Selects an instruction of a stage of the active variant, for panes without lines. */
  selectInstruction(pane: messages.Pane, stage: messages.Stage, name: string): void {
    const document = this.synced.document(stage, this.active);
    const line = document?.lineOfInstruction(name) ?? -1;
    const origin = line < 0 ? NONE : document!.origin(line);
    const variant = document ? document.variant : this.active;
    this.select({ pane, variant, line: -1, origin, instruction: name, stage });
  }

  /** Returns whether a stage's text of the active variant has an instruction. */
  hasInstruction(stage: messages.Stage, name: string): boolean {
    return (this.synced.document(stage, this.active)?.lineOfInstruction(name) ?? -1) >= 0;
  }

  /** Returns the relation of an instruction to the selection: CHOSEN, STRONG, WEAK or 0. */
  levelOfInstruction(stage: messages.Stage, name: string): number {
    return this.levelsOfInstructions(stage)(name);
  }

  /** Returns a function from an instruction to its relation to the selection, for panes with many of them. */
  levelsOfInstructions(stage: messages.Stage): (name: string) => number {
    const { selection } = this;
    if (!selection) return () => 0;
    const document = this.synced.document(stage, this.active);
    const isOfThisText = selection.stage === stage && (!document || selection.variant === document.variant);
    const chosen = isOfThisText ? selection.instruction : null;
    const link = document ? this.link() : null;
    return (name) => {
      if (name === chosen) return CHOSEN;
      const line = link ? document!.lineOfInstruction(name) : -1;
      return line < 0 ? 0 : levelOf(link!, document!, line);
    };
  }

  private refresh(cached: CachedLink | null, anchor: Anchor | null): CachedLink | null {
    if (!anchor) return null;
    const size = this.synced.origins.size;
    if (cached?.size === size) return cached;
    const link = linkOf(this.synced.origins, anchor.origin, anchor.pane === "source", this.placeOf(anchor));
    return { link, size };
  }

  /** Returns the line of an anchor in its text; null if the text is unknown. */
  private placeOf({ pane, stage, variant, line, instruction }: Anchor): LinePlace | null {
    const document = this.synced.document((stage ?? pane) as messages.TextPane, variant ?? this.active);
    if (!document) return null;
    return {
      document,
      line: pane === document.pane || instruction === null ? line : document.lineOfInstruction(instruction),
    };
  }

  private tellPython(): void {
    this.sendTimer ??= setTimeout(() => {
      this.sendTimer = null;
      this.synced.send({ type: "select", selection: this.selectionMessage() });
    }, SEND_INTERVAL_MS);
  }

  /** Returns the selection as a message to Python. */
  selectionMessage(): messages.Selection | null {
    const s = this.selection;
    if (!s) return null;
    const source = this.synced.origins.source(s.origin);
    return {
      pane: s.pane,
      variant: s.variant,
      file: source?.file ?? null,
      line: source?.line ?? null,
      origin: this.synced.origins.operation(s.origin) || null,
      instruction: s.instruction,
    };
  }
}

/** A step through matches. Null stands for every pane, every column, or every phase. */
interface Step {
  readonly pane: messages.Pane | null;
  readonly variant: number | null;
  readonly delta: number;
  readonly phase: string | null;
}

/** The level of the selected item itself, above STRONG and WEAK. */
export const CHOSEN = STRONG + WEAK;

/** CSS classes by level. */
export const LEVEL_CLASSES: readonly string[] = ["", "insp-weak", "insp-strong", "insp-chosen"];

/** Sets the class of a level on an element and keeps its other classes. */
export function lightUp(element: Element, level: number): void {
  LEVEL_CLASSES.forEach((each, i) => each && element.classList.toggle(each, i === level));
}

const SEND_INTERVAL_MS = 200;
const MOST_PAST = 100;

/** Returns whether two selections are neighboring lines. The history keeps only one of them. */
function isNear(one: Anchor, other: Anchor | null): boolean {
  const isSameText = one.pane === other?.pane && one.variant === other.variant;
  return isSameText && Math.abs(one.line - other.line) <= 1 && one.instruction !== null && one.line >= 0;
}

interface CachedLink {
  link: Link;
  size: number;
}

/** Returns the anchor of a line of a document. */
export function anchorAt(document: TextDocument, line: number): Anchor {
  const stage = document.pane === "hlo" || document.pane === "optimized" ? document.pane : null;
  return {
    pane: document.pane,
    variant: document.variant,
    line,
    origin: document.origin(line),
    instruction: document.instruction(line),
    stage,
  };
}
