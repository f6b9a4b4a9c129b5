// The backend's code of the active variant: one kernel at one stage.

import { openSearchPanel } from "@codemirror/search";
import type { EditorView } from "@codemirror/view";
import { CodeIndex } from "../lib/codeindex.ts";
import { toolButton } from "../lib/controls.ts";
import { plainText } from "../lib/documents.ts";
import { fill, h } from "../lib/dom.ts";
import { createEditor, setWrapping } from "../lib/editor.ts";
import { plural } from "../lib/format.ts";
import { listSplitter } from "../lib/splitter.ts";
import { decodeJson, decodeText } from "../lib/transport.ts";
import type * as messages from "../messages.ts";
import type { Message } from "../state/synced.ts";
import { type Context, Drawing, follow, type Pane } from "./pane.ts";
import { absence } from "./recording.ts";
import { RowList } from "./rowlist.ts";
import { awaited, empty, failure } from "./states.ts";

const WHAT =
  "Compiles this variant again and records the backend's code: each kernel before and after optimization, and its machine code. Takes about three times as long for a TPU.";
const PROGRAM = "Whole program";
const COUNT = "Number of optimized HLO instructions in this kernel";

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
    (kernel) => this.choose(kernel),
    h(
      "tr",
      {},
      h("th", { scope: "col" }, "kernel"),
      h("th", { scope: "col", class: "insp-number", title: COUNT }, "instructions"),
    ),
  );
  private readonly border = listSplitter("Kernel list width", this.element, () => this.list.element);
  private readonly ends: (() => void)[];
  private readonly kernels = new Map<number, string>();
  private readonly indices = new WeakMap<Message<"code">, CodeIndex>();
  private stage = "";
  /** The stage that the user chose; used for every kernel that has it. */
  private chosenStage: string | null = null;
  /** Stages of variants that cannot be shown, such as machine code without a disassembler. */
  private readonly unavailable = new Set<string>();
  private requested = { id: -1, key: "" };
  private listed: CodeIndex | null = null;
  private drawn: messages.CodeText | null = null;
  private editor: EditorView | null = null;

  constructor(private readonly context: Context) {
    const { local } = context;
    this.tools.append(
      this.list.filter,
      this.stages,
      toolButton("wrap", "Wrap long lines", () => local.setWrap(!local.wrap)),
      toolButton("find", "Find (Ctrl-F)", () => this.editor && openSearchPanel(this.editor)),
    );
    this.ends = [
      follow(context, "code", this.drawing),
      local.signal.on(["active"], this.drawing.request),
      local.signal.on(["selection"], () => this.drawing.request),
      local.signal.on(["wrap"], () => {
        if (this.editor) setWrapping(this.editor, local.wrap);
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
    const isThere = Boolean(index?.kernels.length);
    for (const tool of this.tools.children) (tool as HTMLElement).hidden = !isThere;
    if (active === null || !index || !isThere) {
      this.clear();
      this.listed = null;
      const nothing = index ? empty("No code", index.note) : absence(this.context, "assembly", "Kernels", WHAT);
      return fill(this.element, nothing);
    }
    this.follow(active, index);
    if (this.listed !== index) this.drawList(index);
    const kernel = this.kernels.get(active)!;
    this.list.select(kernel);
    this.drawStages(active, index, kernel);
    this.drawDetail(active, index, kernel);
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

  /** Chooses the kernel of the selected instruction, or else the first kernel with a known instruction. */
  private follow(variant: number, index: CodeIndex): void {
    const { selection } = this.context.local;
    const selected =
      selection?.stage === "optimized" && selection.instruction ? index.kernel(selection.instruction) : null;
    const known = this.kernels.get(variant);
    const isKnown = known !== undefined && index.kernels.includes(known);
    const first = index.kernels.find((kernel) => index.instruction(kernel) !== null) ?? index.kernels[0]!;
    this.kernels.set(variant, selected ?? (isKnown ? known : first));
  }

  private drawList(index: CodeIndex): void {
    this.listed = index;
    const rows = index.kernels.map((kernel) => ({
      key: kernel,
      group: "",
      text: kernel || PROGRAM,
      className: "",
      cells: [
        h("th", { scope: "row", title: kernel || PROGRAM }, kernel || h("span", { class: "insp-dim" }, PROGRAM)),
        h(
          "td",
          { class: "insp-dim insp-number", title: COUNT },
          String(index.table.instructions[kernel]?.length ?? ""),
        ),
      ],
    }));
    this.list.show(rows, index.note);
    fill(this.element, h("div", { class: "insp-recorded-body" }, this.list.element, this.border, this.detail));
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
    const [part] = synced.parts(message);
    const text = part ? decodeText(part) : null;
    if (!message.error && this.notes(variant, text !== null)) {
      this.drawStages(variant, index, kernel);
      if (this.stage !== shown) return this.drawDetail(variant, index, kernel);
    }
    if (message.error) return fill(this.detail, failure(message.error, `${this.stage} cannot be shown`));
    if (text === null) return fill(this.detail, empty(`${this.stage}: ${message.reason}`, message.remedy));
    this.drawText(index, kernel, index.table.entries[place]!.language, text);
  }

  /** Records whether the stage can be shown. Returns whether that changed. */
  private notes(variant: number, isShown: boolean): boolean {
    const key = `${variant}/${this.stage}`;
    if (isShown) return this.unavailable.delete(key);
    const isNew = !this.unavailable.has(key);
    this.unavailable.add(key);
    return isNew;
  }

  private drawText(index: CodeIndex, kernel: string, language: messages.Language, text: string): void {
    const { local } = this.context;
    const count = text.split("\n").length;
    const about = { pane: "code", variant: local.active, language, title: "" } as const;
    const document = plainText(about, text);
    const head = h(
      "div",
      { class: "insp-summary" },
      h("span", { class: "insp-tok-op" }, kernel || PROGRAM),
      h("span", { class: "insp-dim" }, ` ${this.stage} · ${plural(count, "line")} `),
      this.instructionLink(index, kernel),
    );
    const host = h("div", { class: "insp-code-host" });
    fill(this.detail, head, host);
    const ignore = (): void => undefined;
    const events = { onLine: ignore, onHover: ignore, onMove: ignore, onClear: () => local.select(null) };
    this.editor = createEditor(document, events, local, host);
  }

  /** Returns a link to the instruction that the kernel is named after. */
  private instructionLink(index: CodeIndex, kernel: string): HTMLElement | null {
    const name = index.instruction(kernel);
    if (name === null) return null;
    const onclick = (): void => {
      this.context.local.selectInstruction("code", "optimized", name);
      this.context.local.reveal("optimized");
    };
    return h("button", { type: "button", class: "insp-link", title: "Select the instruction", onclick }, `%${name}`);
  }

  private choose(kernel: string): void {
    const { local } = this.context;
    const variant = local.active!;
    this.kernels.set(variant, kernel);
    const name = this.index(variant)?.instruction(kernel) ?? null;
    if (name !== null) local.selectInstruction("code", "optimized", name);
    else local.select(null);
    this.drawing.request();
  }

  private setStage(stage: string): void {
    this.chosenStage = stage;
    this.drawing.request();
  }

  private clear(): void {
    this.editor?.destroy();
    this.editor = null;
    this.drawn = null;
    fill(this.detail);
  }
}

export const pane = (context: Context): Pane => new CodePane(context);
