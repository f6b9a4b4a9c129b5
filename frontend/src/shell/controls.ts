// The row above the variants: a target and flags for a new variant, and another axis environment.
//
// What is typed is read and checked by Python; what it finds wrong is said below the row.

import { Combobox } from "../lib/combobox.ts";
import { toolButton } from "../lib/controls.ts";
import { fill, h } from "../lib/dom.ts";
import { icon } from "../lib/icons.ts";
import type * as messages from "../messages.ts";
import type { Context } from "../panes/pane.ts";
import { flagOffer, oneLine, turned, valueOffer } from "./flagsearch.ts";

const LEAST_LETTERS = 2;
const LIST_WIDTH_PX = 760;

export class Controls {
  readonly element = h("div", { class: "insp-controls", hidden: true });
  private readonly target: Combobox;
  private readonly flag: Combobox;
  private readonly value: Combobox;
  private readonly axes = h("input", {
    type: "text",
    class: "insp-axes",
    placeholder: "axes: i=4, j=2",
    title: "Axis environment: names and sizes for collectives",
    "aria-label": "Axis environment",
    spellcheck: "false",
    onkeydown: ((e: KeyboardEvent) => e.key === "Enter" && this.lower()) as EventListener,
  });
  private readonly lowering = h(
    "div",
    { class: "insp-lowering" },
    this.axes,
    h(
      "button",
      { type: "button", class: "insp-button", title: "Lower under these axes", onclick: () => this.lower() },
      "Lower again",
    ),
  );
  private readonly said = h("div", { class: "insp-said" });
  private readonly ends: (() => void)[];
  /** The search that was asked for last, and what it was for. */
  private asked = { id: -1, search: "", target: "" };
  /** Flags that Python told of, by name. */
  private readonly known = new Map<string, messages.Flag>();
  /** What the value's field was given when its flag was chosen. */
  private given = "";

  constructor(private readonly context: Context) {
    const frame = (): HTMLElement => this.element.closest<HTMLElement>(".insp")!;
    const onEnter = (): void => this.add();
    this.target = new Combobox({
      label: "Target: attached, cpu:8, tpu:v5e:2x4, gpu:h100:8, …; empty for the baseline's",
      placeholder: "target",
      frame,
      onInput: (text) => this.offerTargets(text),
      onChoose: () => this.flag.input.focus(),
      onEnter,
    });
    this.flag = new Combobox({
      label: "Flag: search by name or description, or several as in XLA_FLAGS",
      placeholder: "flag: type to search, or --a=1 --b=2",
      frame,
      width_px: LIST_WIDTH_PX,
      onInput: (text) => this.search(text),
      onChoose: (name) => this.choose(name),
      onEnter,
    });
    this.value = new Combobox({
      label: "The flag's value",
      placeholder: "value",
      frame,
      width_px: LIST_WIDTH_PX / 2,
      onInput: () => this.offerValues(),
      onChoose: () => undefined,
      onEnter,
    });
    this.flag.input.addEventListener("focus", () => this.flag.input.select());
    this.flag.input.addEventListener("paste", (e) => this.paste(e));
    this.value.input.addEventListener("focus", () => this.offerValues());
    this.element.append(this.row(), this.said);
    const { synced } = context;
    this.ends = [
      synced.signal.on(["controls"], () => this.draw()),
      synced.signal.on(["flags"], () => this.onFlags()),
      synced.signal.on(["said"], () => this.drawSaid()),
      synced.signal.on(["notebook_kernel"], () => this.drawNotebookKernel()),
    ];
    this.draw();
  }

  destroy(): void {
    this.ends.forEach((end) => end());
  }

  private row(): HTMLElement {
    this.target.element.classList.add("insp-control-target");
    this.flag.element.classList.add("insp-control-flag");
    this.value.element.classList.add("insp-control-value");
    const title = "Compile with these flags for this target, next to the baseline";
    const add = h(
      "button",
      { type: "button", class: "insp-button insp-button-main", title, onclick: () => this.add() },
      icon("plus"),
      h("span", {}, "Add variant"),
    );
    const fields = [this.target.element, this.flag.element, this.value.element, add, this.lowering];
    return h("div", { class: "insp-control-row" }, ...fields);
  }

  private draw(): void {
    const controls = this.context.synced.latest("controls");
    this.element.hidden = !controls;
    if (!controls) return;
    this.target.input.placeholder = `target: ${controls.target}`;
    if (document.activeElement !== this.axes) this.axes.value = controls.axes;
    this.lowering.hidden = !controls.can_lower;
    this.drawSaid();
    this.drawNotebookKernel();
  }

  private drawNotebookKernel(): void {
    const { isAlone } = this.context.synced;
    for (const field of this.element.querySelectorAll<HTMLInputElement | HTMLButtonElement>(
      ".insp-control-row input, .insp-control-row button",
    ))
      field.disabled = isAlone;
  }

  private drawSaid(): void {
    const { said } = this.context.synced;
    if (!said) return fill(this.said);
    fill(
      this.said,
      h(
        "div",
        { class: "insp-notice insp-notice-error", role: "alert" },
        h("pre", {}, h("b", {}, said.kind), ` ${said.message}`),
        toolButton("close", "Dismiss", () => this.context.synced.say(null)),
      ),
    );
  }

  private add(): void {
    for (const field of [this.target, this.flag, this.value]) field.close();
    const [flag, value, target] = [this.flag.value, this.value.value, this.target.value];
    this.context.synced.send({ type: "add", flag, value, target });
  }

  private lower(): void {
    this.context.synced.send({ type: "lower", axes: this.axes.value });
  }

  private offerTargets(text: string): void {
    const controls = this.context.synced.latest("controls");
    const found = (controls?.targets ?? []).filter((target) => target.includes(text.trim()));
    const suggestions = found.map((value) => ({ value, content: [h("span", { class: "insp-flag-name" }, value)] }));
    this.target.show({ suggestions });
  }

  /** Asks Python for flags; several flags with their values are none to search for. */
  private search(text: string): void {
    const search = text.trim();
    if (this.value.value === this.given && !this.known.has(search.replace(/^--/, ""))) this.value.value = "";
    this.value.input.placeholder = this.chosen?.type ?? "value";
    const isTooShort = search.length > 0 && search.length < LEAST_LETTERS;
    if (search.includes("=") || isTooShort) return this.flag.close();
    const target = this.target.value.trim();
    const id = this.context.synced.ask({ type: "flags", search, target });
    this.asked = { id, search, target };
  }

  private paste(e: ClipboardEvent): void {
    const text = e.clipboardData?.getData("text") ?? "";
    if (!/[\r\n]/.test(text)) return;
    e.preventDefault();
    const { input } = this.flag;
    input.setRangeText(oneLine(text), input.selectionStart ?? 0, input.selectionEnd ?? 0, "end");
    this.search(input.value);
  }

  private onFlags(): void {
    const { synced } = this.context;
    const flags = synced.reply("flags", this.asked.id);
    if (!flags) return;
    for (const row of flags.rows) this.known.set(row.name, row);
    this.value.input.placeholder = this.chosen?.type ?? "value";
    this.flag.show(flagOffer(this.asked.search, flags, this.asked.target || (synced.latest("controls")?.target ?? "")));
  }

  private get chosen(): messages.Flag | undefined {
    return this.known.get(this.flag.value.trim().replace(/^--/, ""));
  }

  private choose(name: string): void {
    const flag = this.known.get(name);
    this.given = flag ? turned(flag) : "";
    if (flag && !flag.is_taken && !this.target.value.trim()) this.target.value = this.targetOf(flag);
    this.value.value = this.given;
    this.value.input.placeholder = flag?.type ?? "value";
    this.value.input.focus();
    this.value.input.select();
  }

  /** The target of a variant that is there whose compiler a flag is for; "" without one. */
  private targetOf(flag: messages.Flag): string {
    const variants = [...this.context.synced.variants.values()];
    return variants.find(({ platform }) => flag.targets.includes(platform))?.target ?? "";
  }

  private offerValues(): void {
    const { chosen } = this;
    if (chosen) this.value.show(valueOffer(chosen));
    else this.value.close();
  }
}
