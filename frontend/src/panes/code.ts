// The backend's code of the active variant: one kernel at one stage, or the library that an instruction calls.

import { openSearchPanel } from "@codemirror/search";
import { CodeIndex } from "../lib/codeindex.ts";
import { toolButton } from "../lib/controls.ts";
import { readDocument, type TextDocument } from "../lib/documents.ts";
import { fill, h } from "../lib/dom.ts";
import { createEditor, setWrapping } from "../lib/editor.ts";
import type { EditorEvents } from "../lib/editorevents.ts";
import { plural } from "../lib/format.ts";
import { NONE } from "../lib/origins.ts";
import { listSplitter } from "../lib/splitter.ts";
import { decodeJson } from "../lib/transport.ts";
import type * as messages from "../messages.ts";
import { anchorAt } from "../state/local.ts";
import type { Message } from "../state/synced.ts";
import { type Context, Drawing, follow, type Pane } from "./pane.ts";
import { absence } from "./recording.ts";
import { type Row, RowList } from "./rowlist.ts";
import type { Shown } from "./shown.ts";
import { awaited, empty, failure } from "./states.ts";
import { TextMatches } from "./textmatches.ts";

const WHAT =
  "Compiles this variant again and records the backend's code: each kernel before and after optimization, and its machine code. Takes about three times as long for a TPU.";
const PROGRAM = "Whole program";
const COUNT = "Number of optimized HLO instructions in this kernel or call";
const NOT_GENERATED = "The program calls it at run time. XLA does not generate its code.";
const NO_DEBUG_LINES = "The compiler wrote no source lines into this code.";

/** A row of the list: a kernel, or an instruction that calls a library. */
type Choice = { readonly kernel: string } | { readonly call: string };

const keyOf = (choice: Choice): string => ("kernel" in choice ? `kernel ${choice.kernel}` : `call ${choice.call}`);

class CodePane implements Pane {
  readonly element = h("div", { class: "insp-recorded", "data-pane": "code" });
  readonly tools = h("div", { class: "insp-tools" });
  private readonly drawing = new Drawing(() => this.draw());
  private readonly stages = h("select", {
    class: "insp-select",
    "aria-label": "Stage",
    onchange: () => this.setStage(this.stages.value),
  });
  private readonly detail = h("div", { class: "insp-recorded-detail insp-editor" });
  private readonly list = new RowList(
    "Kernels",
    "Filter kernels",
    [null, "84px"],
    (key) => this.choose(key),
    h(
      "tr",
      {},
      h("th", { scope: "col" }, "kernel"),
      h("th", { scope: "col", class: "insp-number", title: COUNT }, "instructions"),
    ),
  );
  private readonly border = listSplitter("Kernel list width", this.element, () => this.list.element);
  private readonly ends: (() => void)[];
  private readonly choices = new Map<number, Choice>();
  private readonly indices = new WeakMap<Message<"code">, CodeIndex>();
  private stage = "";
  /** The stage that the user chose; used for every kernel that has it. */
  private chosenStage: string | null = null;
  /** Stages of variants that cannot be shown, such as machine code without a disassembler. */
  private readonly unavailable = new Set<string>();
  private requested = { id: -1, key: "" };
  private listed: CodeIndex | null = null;
  private drawn: messages.CodeText | null = null;
  private shown: Shown | null = null;
  private readonly matches: TextMatches;

  constructor(private readonly context: Context) {
    const { local } = context;
    this.matches = new TextMatches(context, "code", null, {
      shown: () => (this.shown ? [this.shown] : []),
      isVisible: () => this.drawing.isVisible,
      title: () => "Code",
    });
    this.tools.append(
      this.matches.stepper,
      this.list.filter,
      this.stages,
      toolButton("wrap", "Wrap long lines", () => local.setWrap(!local.wrap)),
      toolButton("find", "Find (Ctrl-F)", () => this.shown && openSearchPanel(this.shown.view)),
    );
    this.ends = [
      follow(context, "code", this.drawing),
      local.signal.on(["active"], this.drawing.request),
      local.signal.on(["selection"], () => {
        const light = this.hasLines ? this.matches.onSelection() : undefined;
        return () => (light?.(), this.drawing.request());
      }),
      local.signal.on(["hover"], () => {
        if (this.drawing.isVisible) this.matches.light();
      }),
      local.signal.on(["step"], () => this.matches.onStep()),
      local.signal.on(["wrap"], () => {
        if (this.shown) setWrapping(this.shown.view, local.wrap);
      }),
    ];
  }

  setVisible(visible: boolean): void {
    this.drawing.setVisible(visible);
  }

  destroy(): void {
    this.ends.forEach((end) => end());
    this.clear();
  }

  private draw(): void {
    const { active } = this.context.local;
    const index = this.index(active);
    const isThere = Boolean(index && this.rows(index).length);
    for (const tool of this.tools.children) (tool as HTMLElement).hidden = !isThere;
    if (active === null || !index || !isThere) {
      this.clear();
      this.listed = null;
      const nothing = index ? empty("No code", index.note) : absence(this.context, "assembly", "Kernels", WHAT);
      return fill(this.element, nothing);
    }
    this.follow(active, index);
    if (this.listed !== index) this.drawList(index);
    const choice = this.choices.get(active)!;
    this.list.select(keyOf(choice));
    this.stages.hidden = "call" in choice;
    if ("call" in choice) return this.drawCall(index, choice.call);
    this.drawStages(active, index, choice.kernel);
    this.drawDetail(active, index, choice.kernel);
  }

  /** Returns the index of a variant's code, which is read once. */
  private index(variant: number | null): CodeIndex | null {
    const { synced } = this.context;
    const list = synced.latest("code", { variant });
    if (!list) return null;
    let index = this.indices.get(list);
    if (!index) {
      index = new CodeIndex(list.note, decodeJson<messages.CodeTable>(synced.parts(list)[0]!));
      this.indices.set(list, index);
    }
    return index;
  }

  /** Chooses the kernel or call of the selected instruction, or else the first kernel with a known instruction. */
  private follow(variant: number, index: CodeIndex): void {
    const { selection } = this.context.local;
    const name = selection?.stage === "optimized" ? selection.instruction : null;
    const kernel = name === null ? null : index.kernel(name);
    const call = name === null ? null : index.call(name);
    const isLaunched = (each: string): boolean => index.instruction(each) !== null;
    const known = this.choices.get(variant);
    if (kernel !== null) this.choices.set(variant, this.withCurrent({ kernel }, known, index, name!));
    else if (call !== null) this.choices.set(variant, { call });
    else if (!known || !this.choiceOf(index, keyOf(known))) {
      const first = index.kernels.find(isLaunched) ?? index.kernels[0];
      this.choices.set(variant, first === undefined ? { call: index.calls[0]! } : { kernel: first });
    }
  }

  /** Returns the current choice instead of another kernel with the same instruction. */
  private withCurrent(other: Choice, known: Choice | undefined, index: CodeIndex, instruction: string): Choice {
    const isSame = known && "kernel" in known && index.table.instructions[known.kernel]?.includes(instruction);
    return isSame ? known : other;
  }

  private rows(index: CodeIndex): Row[] {
    const row = (choice: Choice, name: string, about: string, instructions: readonly string[] | undefined): Row => ({
      key: keyOf(choice),
      group: index.calls.length ? ("kernel" in choice ? "Kernels" : "Library calls") : "",
      text: `${name} ${about}`,
      className: "",
      cells: [
        h(
          "th",
          { scope: "row", title: about ? `${name} calls ${about}` : name },
          name === PROGRAM ? h("span", { class: "insp-dim" }, name) : name,
          about && h("span", { class: "insp-dim" }, ` ${about}`),
        ),
        h("td", { class: "insp-dim insp-number", title: COUNT }, String(instructions?.length ?? "")),
      ],
    });
    const { instructions, calls } = index.table;
    return [
      ...index.kernels.map((kernel) => row({ kernel }, kernel || PROGRAM, "", instructions[kernel])),
      ...index.calls.map((call) => row({ call }, call, calls[call]!.callee, calls[call]!.instructions)),
    ];
  }

  private choiceOf(index: CodeIndex, key: string): Choice | null {
    const choices: Choice[] = [
      ...index.kernels.map((kernel) => ({ kernel })),
      ...index.calls.map((call) => ({ call })),
    ];
    return choices.find((choice) => keyOf(choice) === key) ?? null;
  }

  private drawList(index: CodeIndex): void {
    this.listed = index;
    this.list.show(this.rows(index), index.note);
    fill(this.element, h("div", { class: "insp-recorded-body" }, this.list.element, this.border, this.detail));
  }

  private drawCall(index: CodeIndex, call: string): void {
    this.clear();
    fill(
      this.detail,
      h("div", { class: "insp-summary" }, this.instructionLink(call)),
      empty(`Calls ${index.table.calls[call]!.callee}: no code here`, NOT_GENERATED),
    );
  }

  /** Lists the stages of a kernel. By default the last one that can be shown is selected. */
  private drawStages(variant: number, index: CodeIndex, kernel: string): void {
    const stages = index.stagesOf(kernel);
    const isShown = (stage: string): boolean => !this.unavailable.has(`${variant}/${stage}`);
    const chosen = stages.find((stage) => stage === this.chosenStage);
    this.stage = chosen ?? stages.filter(isShown).at(-1) ?? stages.at(-1)!;
    const option = (stage: string): HTMLElement =>
      h("option", { value: stage, selected: stage === this.stage }, isShown(stage) ? stage : `${stage} (unavailable)`);
    fill(this.stages, ...stages.map(option));
  }

  private drawDetail(variant: number, index: CodeIndex, kernel: string): void {
    const { synced } = this.context;
    const shown = this.stage;
    const place = index.place(shown, kernel)!;
    const key = `${variant}/${place}`;
    if (this.requested.key !== key) this.requested = { id: synced.ask({ type: "code", variant, index: place }), key };
    const message = synced.reply("code_text", this.requested.id);
    if (!message) {
      this.clear();
      return fill(this.detail, awaited(synced, `Reading ${kernel || PROGRAM}`, `${kernel || PROGRAM} not received`));
    }
    if (this.drawn === message) return;
    this.clear();
    this.drawn = message;
    const parts = synced.parts(message);
    if (!message.error && this.notes(variant, parts.length > 0)) {
      this.drawStages(variant, index, kernel);
      if (this.stage !== shown) return this.drawDetail(variant, index, kernel);
    }
    if (message.error) return fill(this.detail, failure(message.error, `${this.stage} cannot be shown`));
    if (!parts.length) {
      const reason = empty(`${this.stage}: ${message.reason}`, message.remedy);
      return fill(this.detail, this.facts(message.facts), reason);
    }
    const { language } = index.table.entries[place]!;
    const about = { pane: "code", variant, language, title: "" } as const;
    this.drawText(index, kernel, readDocument(about, parts, synced.origins), message.facts);
  }

  /** Records whether the stage can be shown. Returns whether that changed. */
  private notes(variant: number, isShown: boolean): boolean {
    const key = `${variant}/${this.stage}`;
    if (isShown) return this.unavailable.delete(key);
    const isNew = !this.unavailable.has(key);
    this.unavailable.add(key);
    return isNew;
  }

  private drawText(
    index: CodeIndex,
    kernel: string,
    document: TextDocument,
    facts: readonly messages.KernelFact[],
  ): void {
    const linked = document.lineOrigins.reduce((sum, origin) => sum + (origin === NONE ? 0 : 1), 0);
    const isCode = kernel !== "" && document.language !== "text";
    const lines = linked ? `, ${plural(linked, "linked line")}` : isCode ? ", no debug lines" : "";
    const name = index.instruction(kernel);
    const head = h(
      "div",
      { class: "insp-summary" },
      h("span", { class: "insp-tok-op" }, kernel || PROGRAM),
      h(
        "span",
        { class: "insp-dim", title: isCode && !linked ? NO_DEBUG_LINES : null },
        ` ${this.stage} · ${plural(document.lines.length, "line")}${lines} `,
      ),
      name === null ? null : this.instructionLink(name),
    );
    const host = h("div", { class: "insp-code-host insp-text" });
    fill(this.detail, head, this.facts(facts), host);
    const view = createEditor(document, this.events(document, name), this.context.local, host);
    this.shown = { view, document };
    host.append(this.matches.ruler);
    if (this.hasLines) this.matches.onSelection()?.();
  }

  /** Whether the text has lines with debug information. */
  private get hasLines(): boolean {
    return this.shown?.document.lineOrigins.some((origin) => origin !== NONE) ?? false;
  }

  /** Lines without debug information cannot be selected. */
  private events(document: TextDocument, instruction: string | null): EditorEvents {
    const { local } = this.context;
    const stage = instruction === null ? null : ("optimized" as const);
    const isLinked = (line: number): boolean => document.origin(line) !== NONE;
    const select = (line: number): void => {
      if (isLinked(line)) local.select({ ...anchorAt(document, line), instruction, stage });
    };
    return {
      onLine: select,
      onHover: (line) => local.setHover(line !== null && isLinked(line) ? anchorAt(document, line) : null),
      onMove: (delta) => {
        const chosen = this.matches.chosenLine(document);
        let line = chosen + delta;
        const isLine = (): boolean => chosen >= 0 && line >= 0 && line < document.lines.length;
        while (isLine() && !isLinked(line)) line += delta;
        if (isLine()) select(line);
      },
      onClear: () => local.select(null),
    };
  }

  private facts(facts: readonly messages.KernelFact[]): HTMLElement | null {
    if (!facts.length) return null;
    const entry = ({ label, text, reason }: messages.KernelFact): HTMLElement =>
      h(
        "div",
        { title: reason || null },
        h("dt", {}, label),
        h("dd", { class: reason && "insp-dim" }, text || "unknown"),
      );
    return h("dl", { class: "insp-kernel-facts", "aria-label": "Machine code" }, ...facts.map(entry));
  }

  private instructionLink(name: string): HTMLElement {
    const onclick = (): void => {
      this.context.local.selectInstruction("code", "optimized", name);
      this.context.local.reveal("optimized");
    };
    return h("button", { type: "button", class: "insp-link", title: "Select the instruction", onclick }, `%${name}`);
  }

  private choose(key: string): void {
    const { local } = this.context;
    const variant = local.active!;
    const index = this.index(variant)!;
    const choice = this.choiceOf(index, key)!;
    this.choices.set(variant, choice);
    const name = "call" in choice ? choice.call : index.instruction(choice.kernel);
    if (name !== null) local.selectInstruction("code", "optimized", name);
    else local.select(null);
    this.drawing.request();
  }

  private setStage(stage: string): void {
    const { local } = this.context;
    this.chosenStage = stage;
    // The selected line is a line of another text.
    if (local.selection?.pane === "code") local.select({ ...local.selection, line: -1 });
    this.drawing.request();
  }

  private clear(): void {
    this.shown?.view.destroy();
    this.shown = null;
    fill(this.matches.stepper);
    this.drawn = null;
    fill(this.detail);
  }
}

export const pane = (context: Context): Pane => new CodePane(context);
