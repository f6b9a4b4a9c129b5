// The status bar: the selection, its source, and the number of related lines in each text.

import { computationsOf } from "../lib/computations.ts";
import { toolButton } from "../lib/controls.ts";
import { fill, h } from "../lib/dom.ts";
import { grouped, plural, shortSource } from "../lib/format.ts";
import { icon } from "../lib/icons.ts";
import { fragmentOf } from "../lib/place.ts";
import type { TextDocument } from "../lib/documents.ts";
import { best, type Matches, phaseCounts } from "../lib/linking.ts";
import { NONE } from "../lib/origins.ts";
import type { TextPane } from "../messages.ts";
import { textOf } from "../panes/labels.ts";
import { type Context, TITLES } from "../panes/pane.ts";
import type { Anchor } from "../state/local.ts";

const HINT =
  "Click a line to highlight related lines in all panes. Double-click a name to go to its definition. Press / to search, ? for all shortcuts.";
const PANES: TextPane[] = ["source", "jaxpr", "stablehlo", "hlo", "optimized"];
const SHORT: Record<TextPane, string> = {
  source: "source",
  jaxpr: "jaxpr",
  stablehlo: "StableHLO",
  hlo: "HLO",
  optimized: "optimized",
};

const PHASES: Record<string, string> = {
  forward: "lines of the forward pass",
  backward: "lines of the backward pass",
  recomputed: "lines that jax.checkpoint recomputes",
  rest: "lines that are not differentiated",
};

const MOST_FRAMES = 3;
const COPY_LINK = "Copy a link to this line";
const COPIED_MS = 2000;

export class StatusBar {
  readonly element = h("div", { class: "insp-status" });
  private readonly text = h("div", { class: "insp-status-text", "aria-live": "polite" });
  private readonly steps = h("div", { class: "insp-status-steps" });
  private readonly link = toolButton("link", COPY_LINK, () => void this.copyLink());
  private readonly ends: (() => void)[];

  constructor(private readonly context: Context) {
    this.element.append(this.text, this.steps);
    const draw = (): void => this.draw();
    this.ends = [
      context.local.signal.on(["selection"], () => draw),
      context.local.signal.on(["active"], draw),
      context.synced.signal.on(["document", "session", "existing", "variant"], draw),
    ];
    this.draw();
  }

  destroy(): void {
    this.ends.forEach((end) => end());
  }

  private draw(): void {
    const { selection } = this.context.local;
    const existing = this.existing();
    fill(this.steps, ...(selection ? this.stepButtons() : []));
    if (!selection) {
      const hint = this.about() ?? h("span", { class: "insp-dim insp-hint", title: HINT }, HINT);
      return fill(this.text, this.warning(), existing, this.note(), hint);
    }
    fill(this.text, existing, ...this.place(selection), ...this.counts(selection));
  }

  /** The note about a requested variant that already exists, while it is the active one. */
  private existing(): HTMLElement | null {
    const { synced, local } = this.context;
    const { variant } = local;
    if (!variant || variant.variant !== synced.existing) return null;
    return h("span", { class: "insp-note", role: "status" }, `${textOf(variant)} already exists`);
  }

  /** The date and version of a recording, and how to get more. */
  private about(): HTMLElement | null {
    const { about, remedy } = this.context.synced;
    return about ? h("span", { class: "insp-dim insp-hint", title: HINT }, `${about}. ${remedy}`) : null;
  }

  /** Notes about the program, such as the values of non-array arguments, or where it was read. */
  private note(): HTMLElement | null {
    const notes = this.context.synced.session?.notes ?? [];
    if (!notes.length) return null;
    const title = `Notes:\n${notes.join("\n")}`;
    const more = notes.length > 2 ? ` and ${notes.length - 2} more` : "";
    return h("span", { class: "insp-note", title }, `Notes: ${notes.slice(0, 2).join(", ")}${more}`);
  }

  /** The warnings of the active variant's compile, for example about idle devices. */
  private warning(): HTMLElement | null {
    const { synced, local } = this.context;
    const warnings = (local.active === null ? null : synced.variants.get(local.active))?.warnings ?? [];
    if (!warnings.length) return null;
    const more = warnings.length > 1 ? ` (and ${warnings.length - 1} more)` : "";
    return h(
      "span",
      { class: "insp-note insp-warning", title: warnings.join("\n\n") },
      `Warning${more}: ${warnings[0]}`,
    );
  }

  private place(selection: Anchor): (HTMLElement | null)[] {
    const { origins } = this.context.synced;
    const operation = origins.operation(selection.origin);
    return [
      this.stack(selection.origin),
      operation ? h("span", { class: "insp-operation", title: operation }, operation) : null,
      selection.instruction && selection.stage
        ? h(
            "code",
            { class: "insp-instruction", title: `Instruction in ${TITLES[selection.stage]}` },
            selection.instruction,
          )
        : null,
      this.crumbs(selection),
    ];
  }

  /** The source lines of an origin as links to the pane Source: its own line, and the lines that call it. */
  private stack(origin: number): HTMLElement | null {
    const { synced, local } = this.context;
    const { origins } = synced;
    const places = origins.ownFrames(origin);
    if (!places.length) return null;
    const source = synced.document("source", null);
    const links = places.slice(0, MOST_FRAMES).map((place, i) => {
      const line = source?.linesOf(origins.atInnermost(place))[0] ?? -1;
      const { file, line: number } = origins.placeAt(place)!;
      const text = shortSource((!i && origins.source(origin)) || { file: origins.files[file] ?? "", line: number });
      return h(
        "button",
        {
          type: "button",
          class: i ? "insp-link insp-dim" : "insp-link",
          title: i ? `Called from here\n${this.chain(origin)}` : this.chain(origin),
          disabled: line < 0,
          onclick: () => {
            local.reveal("source");
            local.goTo(source!, line);
          },
        },
        `${i ? "‹ " : ""}${text}`,
      );
    });
    const more = places.length - links.length;
    const rest = more > 0 && h("span", { class: "insp-dim", title: this.chain(origin) }, ` ‹ ${more} more`);
    return h("span", { class: "insp-place", role: "navigation", "aria-label": "Call stack" }, ...links, rest || null);
  }

  /** The path of computations from the entry to an instruction. Clicking one goes to the call. */
  private crumbs({ stage, instruction }: Anchor): HTMLElement | null {
    const { synced, local } = this.context;
    const document = stage && instruction && synced.document(stage, local.active);
    if (!document) return null;
    const path = computationsOf(document).path(document.lineOfInstruction(instruction));
    if (path.length < 2) return null;
    const crumbs = path.map(({ computation, call }, i) =>
      h(
        "button",
        {
          type: "button",
          class: "insp-link",
          title: `${computation.role || "entry"} ${computation.name}: go to ${document.instruction(call) ?? "it"}`,
          onclick: () => local.goTo(document, call),
        },
        `${i ? "› " : ""}${computation.name}`,
      ),
    );
    return h("span", { class: "insp-crumbs", role: "navigation", "aria-label": "Call path" }, ...crumbs);
  }

  /** Returns the Python stack of an origin, innermost frame first, one per line. */
  private chain(origin: number): string {
    const { origins } = this.context.synced;
    const lines = origins.frames(origin).map((frame) => {
      const place = origins.placeAt(frame);
      return place ? `${origins.files[place.file]}:${place.line}` : "";
    });
    return lines.join("\n  called from ");
  }

  private counts(selection: Anchor): (HTMLElement | string)[] {
    if (selection.origin === NONE)
      return [
        h(
          "span",
          { class: "insp-dim" },
          "No source location: the compiler created this line, or it is not an operation.",
        ),
      ];
    const { synced, local } = this.context;
    const parts: HTMLElement[] = [];
    let hasVanished = false;
    for (const pane of PANES) {
      const document = synced.document(pane, local.active);
      const matches = document && local.matches(document);
      if (!matches || pane === selection.pane || (pane === "source" && matches.strong.length)) continue;
      parts.push(this.count(pane, matches), ...(pane === "optimized" ? this.phases(document, matches) : []));
      if (pane === "optimized") hasVanished = !matches.strong.length && !matches.weak.length;
    }
    if (!parts.length) return [];
    const vanished = h("span", { class: "insp-vanished" }, "Not in the optimized HLO: folded or fused");
    return [h("span", { class: "insp-dim" }, "→"), ...parts, ...(hasVanished ? [vanished] : [])];
  }

  private count(pane: TextPane, { strong, weak }: Matches): HTMLElement {
    const isWeak = !strong.length && weak.length > 0;
    const number = grouped(strong.length || weak.length);
    const title = isWeak
      ? `${TITLES[pane]}: no lines of this operation, ${plural(weak.length, "line")} of the same source line`
      : `${TITLES[pane]}: ${plural(strong.length, "line")} of this operation, ${grouped(weak.length)} more of the same source line`;
    return h(
      "button",
      {
        type: "button",
        class: strong.length ? "insp-link" : "insp-link insp-dim",
        title,
        disabled: !strong.length && !weak.length,
        onclick: () => this.go(pane),
      },
      `${isWeak ? "≈" : ""}${number} ${SHORT[pane]}`,
    );
  }

  /** The number of matching lines by phase, if there are several. Clicking one steps to the next line of the phase. */
  private phases(document: TextDocument, matches: Matches): HTMLElement[] {
    const counts = phaseCounts(document, best(matches), this.context.synced.origins);
    return [...counts].map(([phase, count]) =>
      h(
        "button",
        {
          type: "button",
          class: "insp-link insp-dim",
          title: `${TITLES.optimized}: next of ${grouped(count)} ${PHASES[phase] ?? phase}`,
          onclick: () => {
            this.context.local.reveal("optimized");
            this.context.local.step("optimized", 1, null, phase);
          },
        },
        `${grouped(count)} ${phase}`,
      ),
    );
  }

  /** Brings a pane to the front and steps to its next match. */
  private go(pane: TextPane): void {
    this.context.local.reveal(pane);
    this.context.local.step(pane, 1);
  }

  /** Puts the link to the selection into the address bar and, where browsers allow it, into the clipboard. */
  private async copyLink(): Promise<void> {
    const { synced, local } = this.context;
    const { selection } = local;
    if (!selection) return;
    const document = synced.document(selection.pane as TextPane, selection.variant);
    const label = document && selection.line >= 0 ? document.label(selection.line) : "";
    location.hash = fragmentOf({
      program: synced.pageNumber!,
      pane: selection.instruction && selection.stage ? selection.stage : selection.pane,
      variant: selection.variant,
      line: label ? Number(label) : null,
      instruction: selection.instruction,
    });
    let said = "Copied the link to this line";
    try {
      await navigator.clipboard.writeText(location.href);
    } catch {
      said = "The address bar has the link to this line";
    }
    this.link.title = said;
    fill(this.link, icon("done"));
    setTimeout(() => {
      this.link.title = COPY_LINK;
      fill(this.link, icon("link"));
    }, COPIED_MS);
  }

  private stepButtons(): HTMLElement[] {
    const { local } = this.context;
    return [
      ...(this.context.synced.pageNumber === null ? [] : [this.link]),
      toolButton("left", "Previous match in every pane", () => local.step(null, -1)),
      toolButton("right", "Next match in every pane", () => local.step(null, 1)),
      toolButton("close", "Clear selection (Esc)", () => local.select(null)),
    ];
  }
}
