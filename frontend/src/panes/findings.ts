// What to change in the active variant's program: the gain of each change, its remedy, and proofs that compile it.

import { textButton, toolButton } from "../lib/controls.ts";
import { fill, h } from "../lib/dom.ts";
import { plural } from "../lib/format.ts";
import { icon } from "../lib/icons.ts";
import type * as messages from "../messages.ts";
import { lightUp } from "../state/local.ts";
import type { Message, Timed } from "../state/synced.ts";
import { LinkedPane } from "./linked.ts";
import type { Context, Pane } from "./pane.ts";
import { sourceLink } from "./sourcelink.ts";
import { awaited, clock, empty, failure, spinner, unfinished } from "./states.ts";
import "../styles/findings.css";

type Row = messages.FindingRow;

const PROVE = "Compile the program with this remedy, compare memory, time and results, and add it as a variant";
const PROVE_ALL = "Compile the program with each remedy and compare memory, time and results";
const LIMIT_S = 60;
const SHOWN_INSTRUCTIONS = 3;
const COPIED_MS = 2000;

class FindingsPane extends LinkedPane {
  readonly element = h("div", {
    class: "insp-findings insp-scroll",
    "data-pane": "findings",
    tabindex: 0,
    "aria-label": "Findings",
  });
  private readonly said = h("span", { class: "insp-dim insp-findings-said", role: "status" });
  private readonly limit = h("input", {
    type: "number",
    min: 1,
    max: 86_400,
    value: LIMIT_S,
    "aria-label": "Time limit in seconds",
  });
  private readonly limitField = h(
    "label",
    { class: "insp-field", title: "The proofs stop after this time" },
    "Time limit",
    this.limit,
    "s",
  );
  private readonly proveAll = textButton("Prove all", PROVE_ALL, () => this.press());
  private shown: Message<"findings"> | null = null;
  private shownProof = "";
  private rows: { instructions: readonly string[]; element: HTMLElement }[] = [];
  private isUnfolded = false;

  constructor(context: Context) {
    super(context, "findings");
    this.tools.append(this.said, this.limitField, this.proveAll);
  }

  protected draw(): void {
    const { synced, local } = this.context;
    const { variant } = local;
    const found = variant && synced.latest("findings", { variant: variant.variant });
    this.drawTools(found);
    const reason = unfinished(variant, "findings");
    if (reason || !variant) return this.say(reason!);
    if (!found) return this.say(awaited(synced, "Looking for findings", "Findings not received"));
    if (found.error) return this.say(failure(found.error, "Failed to look for findings"));
    const proof = this.proving;
    const proofKey = proof?.state === "running" ? `${String(proof.row)} ${proof.stage}` : "";
    if (found === this.shown && proofKey === this.shownProof) return;
    [this.shown, this.shownProof] = [found, proofKey];
    this.drawRows(found);
  }

  /** Lights the rows whose instructions belong to the selection. */
  protected mark(): void {
    const levelOf = this.context.local.levelsOfInstructions("optimized");
    for (const { instructions, element } of this.rows) lightUp(element, Math.max(0, ...instructions.map(levelOf)));
  }

  /** The running proofs of the active variant, or the last ones. */
  private get proving(): Message<"proving"> | null {
    const { synced, local } = this.context;
    return local.active === null ? null : synced.latest("proving", { variant: local.active });
  }

  private get isProving(): boolean {
    return this.proving?.state === "running" && !this.context.synced.isAlone;
  }

  private say(state: HTMLElement): void {
    [this.shown, this.rows] = [null, []];
    fill(this.element, state);
  }

  private drawTools(found: Message<"findings"> | null): void {
    const { synced } = this.context;
    const { proving, isProving } = this;
    const open = found?.rows.slice(0, found.rows.length - found.folded).filter(({ verdict }) => !verdict) ?? [];
    this.tools.hidden = !found?.rows.length || synced.isRecorded;
    this.proveAll.textContent = isProving ? "Stop" : "Prove all";
    this.proveAll.title = isProving ? "Stop and keep the verdicts so far" : PROVE_ALL;
    this.proveAll.disabled = synced.isAlone || (!isProving && !open.length);
    this.limit.disabled = isProving || synced.isAlone;
    const isSeveral = isProving && proving!.row === null;
    const isStopped = proving?.state === "cancelled" || (proving?.state === "done" && proving.row === null);
    fill(
      this.said,
      isSeveral && spinner(),
      isSeveral && `${sentence(proving!.stage)} `,
      isSeveral && clock(proving as Timed<messages.Proving>),
      isStopped &&
        open.length > 0 &&
        `${proving.state === "done" ? "Time limit: " : "Stopped: "}${open.length} not tried`,
    );
  }

  private press(): void {
    this.prove(this.isProving ? "stop" : "start", null);
  }

  private prove(action: messages.ProveRequest["do"], row: number | null): void {
    const { synced, local } = this.context;
    if (local.active === null) return;
    const time_limit_s = Math.max(1, Number(this.limit.value) || LIMIT_S);
    synced.send({ type: "prove", variant: local.active, do: action, row, time_limit_s });
  }

  private drawRows(found: Message<"findings">): void {
    const large = found.rows.length - found.folded;
    this.rows = [];
    const rows = found.rows.map((row, i) => this.row(row, i));
    const failed = found.unknown.map((text) => h("p", { class: "insp-note" }, "Not looked for ", ...coded(text)));
    const { focus } = this.focused();
    if (!rows.length) fill(this.element, nothing(found), ...failed);
    else
      fill(
        this.element,
        !large && nothing(found),
        h("ol", { class: "insp-findings-list" }, ...rows.slice(0, large)),
        found.folded > 0 &&
          this.folded(
            rows.slice(large),
            large ? found.folded_words.replace(" with", " more with") : found.folded_words,
          ),
        ...failed,
      );
    focus();
    this.mark();
  }

  /** Remembers the focused control, which a new drawing replaces. */
  private focused(): { focus: () => void } {
    const active = document.activeElement;
    if (!active || !this.element.contains(active)) return { focus: () => undefined };
    const place = active.closest<HTMLElement>("[data-finding]")?.dataset["finding"];
    const name = active.getAttribute("data-control");
    return {
      focus: () => {
        const row = this.element.querySelector<HTMLElement>(`[data-finding="${place ?? ""}"]`);
        const same = name === null ? null : row?.querySelector<HTMLElement>(`[data-control="${name}"]`);
        const next = same ?? row?.querySelector<HTMLElement>("button") ?? this.element;
        next.focus({ preventScroll: true });
      },
    };
  }

  private folded(rows: readonly HTMLElement[], words: string): HTMLElement {
    const details = h(
      "details",
      { class: "insp-findings-folded", open: this.isUnfolded },
      h("summary", {}, words),
      h("ol", { class: "insp-findings-list" }, ...rows),
    );
    details.addEventListener("toggle", () => (this.isUnfolded = details.open));
    return details;
  }

  private row(row: Row, index: number): HTMLElement {
    const choose = (): void => this.choose(row.instructions[0] ?? "", row.source);
    const title = h(
      "button",
      { type: "button", class: "insp-finding-title", "data-control": "title", onclick: choose },
      ...coded(row.title),
    );
    const element = h(
      "li",
      {
        class: "insp-finding",
        "data-finding": index,
        onclick: (e) => (e.target as Element).closest("button, pre") ?? choose(),
      },
      h(
        "div",
        {
          class: "insp-finding-gain",
          title: `Computed from ${row.gain_source}`,
          style: `--share:${row.share.toFixed(4)}`,
        },
        ...gainOf(row.gain),
      ),
      h(
        "div",
        { class: "insp-finding-body" },
        title,
        h(
          "div",
          { class: "insp-finding-facts" },
          h("span", { class: "insp-tag" }, row.kind),
          row.source && sourceLink(this.context, row.source),
          ...this.instructions(row),
        ),
        h("div", { class: "insp-finding-remedy" }, h("pre", {}, row.remedy), copyCode(row.remedy)),
        row.caution && h("p", { class: "insp-dim" }, ...coded(row.caution)),
      ),
      h("div", { class: "insp-finding-proof", role: "status" }, ...this.proof(row, index)),
    );
    this.rows.push({ instructions: row.instructions, element });
    return element;
  }

  private instructions({ instructions, source }: Row): (HTMLElement | false)[] {
    const more = instructions.length - SHOWN_INSTRUCTIONS;
    return [
      ...instructions.slice(0, SHOWN_INSTRUCTIONS).map((name) =>
        h(
          "button",
          {
            type: "button",
            class: "insp-link insp-finding-instruction",
            title: `Show ${name} in the optimized HLO`,
            onclick: () => this.choose(name, source),
          },
          name,
        ),
      ),
      more > 0 && h("span", { class: "insp-dim", title: instructions.join("\n") }, `and ${more} more`),
    ];
  }

  /** Lights an instruction in all panes, or the source line of a finding that has no instruction. */
  private choose(instruction: string, source: messages.SourceLine | null): void {
    const { local, synced } = this.context;
    if (instruction && local.hasInstruction("optimized", instruction))
      return local.selectInstruction("findings", "optimized", instruction);
    const text = synced.document("source", local.active);
    const place = source?.line ? synced.origins.placeOf(source.file, source.line) : -1;
    const line = text?.linesOf(synced.origins.atInnermost(place))[0];
    if (text && line !== undefined) local.goTo(text, line);
  }

  private proof(row: Row, index: number): (HTMLElement | string | false)[] {
    const { synced, local } = this.context;
    const { proving } = this;
    if (this.isProving && proving!.row === index)
      return [
        h("span", { class: "insp-finding-running" }, spinner(), "Proving ", clock(proving as Timed<messages.Proving>)),
        control(
          textButton("Stop", "Stop this proof", () => this.prove("stop", null)),
          "prove",
        ),
      ];
    if (!row.verdict && row.no_proof)
      return [h("span", { class: "insp-dim", title: sentence(row.no_proof) }, "Not proven: change it by hand")];
    if (!row.verdict) {
      const failed = proving?.state === "failed" && proving.row === index && proving.error;
      const button = control(
        textButton("Prove", PROVE, () => this.prove("start", index)),
        "prove",
      );
      button.disabled = synced.isAlone || this.isProving;
      return [
        synced.isRecorded && row.proof === ""
          ? h("span", { class: "insp-dim" }, "Not tried")
          : !synced.isRecorded && button,
        Boolean(failed) && h("span", { class: "insp-bad" }, (failed as messages.Error).message),
        !failed && row.proof !== "" && h("span", { class: "insp-dim" }, sentence(row.proof)),
      ];
    }
    const [verdict, ...details] = row.proof.split(": ");
    const changed = row.changed !== null && synced.variants.has(row.changed) ? row.changed : null;
    const add = (): void => synced.send({ type: "add_changed", variant: local.active!, row: index });
    return [
      h("b", { class: `insp-verdict insp-verdict-${row.verdict.replaceAll(" ", "-")}` }, sentence(verdict!)),
      details.length > 0 && h("span", {}, details.join(": ")),
      changed !== null &&
        control(
          textButton("Show variant", "Show the changed program in all panes, compared with this one", () => {
            const from = local.active!;
            local.setReference(changed, from);
            local.setActive(changed);
          }),
          "prove",
        ),
      changed === null &&
        row.can_add &&
        !synced.isRecorded &&
        control(textButton("Add as variant", "Add the changed program as a variant to compare with", add), "prove"),
    ];
  }
}

/** Names a control, so that it gets the focus back after a new drawing. */
function control(button: HTMLButtonElement, name: string): HTMLButtonElement {
  button.dataset["control"] = name;
  return button;
}

function sentence(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

/** Returns text with the parts between backticks as code. */
function coded(text: string): (HTMLElement | string)[] {
  return text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));
}

/** Returns each part of a gain on its own line, the first one stressed. */
function gainOf(gain: string): HTMLElement[] {
  const parts = gain.replace(" (", ", ").replace(")", "").split(", ");
  return parts.map((part, i) => h(i ? "span" : "b", {}, part));
}

function nothing({ looked_for: kinds, folded }: messages.FindingsMessage): HTMLElement {
  const title = folded ? "No findings with a gain of 1 % or more" : "No findings";
  const list = h("ul", { class: "insp-findings-kinds" }, ...kinds.map((text) => h("li", {}, text)));
  return empty(title, kinds.length ? `Looked for ${plural(kinds.length, "kind")}:` : "", list);
}

function copyCode(code: string): HTMLButtonElement {
  const label = "Copy the remedy";
  const button = toolButton("copy", label, () => void copy());
  const show = (name: "copy" | "done" | "failed", text: string): void => {
    fill(button, icon(name));
    button.title = text;
    button.setAttribute("aria-label", text);
  };
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(code);
      show("done", "Copied");
    } catch {
      // Browsers allow writing to the clipboard only on HTTPS pages or localhost.
      show("failed", "Copying is blocked by the browser. Select the text instead");
    }
    setTimeout(() => show("copy", label), COPIED_MS);
  };
  return control(button, "copy");
}

export const pane = (context: Context): Pane => new FindingsPane(context);
