// The row above the variants: a target and flags for a new variant, and a field for another axis environment.
//
// Python parses and checks the input. Its errors are shown below the row.

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
  /** A button for the toolbar of a narrow Explorer, in which the fields are hidden at first. */
  readonly opener = h(
    "button",
    {
      type: "button",
      class: "insp-button insp-opener",
      title: "Add a variant: choose flags and a target",
      "aria-label": "Add a variant",
      "aria-expanded": "false",
      hidden: true,
      onclick: () => this.open(this.opener.getAttribute("aria-expanded") !== "true"),
    },
    icon("plus"),
  );
  private readonly target: Combobox;
  private readonly flag: Combobox;
  private readonly value: Combobox;
  /** Whether the program has, or had, an axis environment. Other programs cannot use one. */
  private hasAxes = false;
  private readonly axes = h("input", {
    type: "text",
    class: "insp-axes",
    placeholder: "Axes, e.g. i=4, j=2",
    title: "Axis environment: axis names and sizes for collectives",
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
      { type: "button", class: "insp-button", title: "Lower again with these axes", onclick: () => this.lower() },
      "Lower again",
    ),
  );
  private readonly said = h("div", { class: "insp-said" });
  private readonly ends: (() => void)[];
  /** The last search request, with its text and target. */
  private asked = { id: -1, search: "", target: "" };
  /** Flags received from Python, by name. */
  private readonly known = new Map<string, messages.Flag>();
  /** The value that was filled in when the flag was chosen. */
  private given = "";

  constructor(private readonly context: Context) {
    const frame = (): HTMLElement => this.element.closest<HTMLElement>(".insp")!;
    const onEnter = (): void => this.add();
    this.target = new Combobox({
      label: "Target: attached, cpu:8, tpu:v5e:2x4, gpu:h100:8, …; default: the baseline's target",
      placeholder: "Target",
      frame,
      onInput: (text) => this.offerTargets(text),
      onChoose: () => this.flag.input.focus(),
      onEnter,
    });
    this.flag = new Combobox({
      label: "Flag: search by name or description, or enter several in XLA_FLAGS syntax",
      placeholder: "Flag: type to search, or --a=1 --b=2",
      frame,
      width_px: LIST_WIDTH_PX,
      onInput: (text) => this.search(text),
      onChoose: (name) => this.choose(name),
      onEnter,
    });
    this.value = new Combobox({
      label: "Flag value",
      placeholder: "Value",
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

  private open(isOpen: boolean): void {
    this.opener.setAttribute("aria-expanded", String(isOpen));
    this.element.classList.toggle("insp-open", isOpen);
    (isOpen ? this.flag.input : this.opener).focus();
  }

  /** Hides the fields of a narrow Explorer, unless Escape has closed a list of suggestions. */
  private onKey(e: KeyboardEvent): void {
    if (e.key !== "Escape" || e.defaultPrevented || this.opener.getAttribute("aria-expanded") !== "true") return;
    e.preventDefault();
    e.stopPropagation();
    this.open(false);
  }

  private row(): HTMLElement {
    this.target.element.classList.add("insp-control-target");
    this.flag.element.classList.add("insp-control-flag");
    this.value.element.classList.add("insp-control-value");
    const title = "Compile a new variant with these flags for this target";
    const add = h(
      "button",
      { type: "button", class: "insp-button insp-button-main", title, onclick: () => this.add() },
      icon("plus"),
      h("span", {}, "Add variant"),
    );
    const fields = [this.target.element, this.flag.element, this.value.element, add, this.lowering];
    const row = h("div", { class: "insp-control-row" }, ...fields);
    row.addEventListener("keydown", (e) => this.onKey(e));
    return row;
  }

  private draw(): void {
    const controls = this.context.synced.latest("controls");
    this.element.hidden = this.opener.hidden = !controls;
    if (!controls) return;
    this.target.input.placeholder = `Target: ${controls.target}`;
    if (document.activeElement !== this.axes) this.axes.value = controls.axes;
    this.hasAxes ||= controls.axes !== "";
    this.lowering.hidden = !controls.can_lower || !this.hasAxes;
    this.drawSaid();
    this.drawNotebookKernel();
  }

  /** Disables the fields if nothing can be compiled, with the reason. */
  private drawNotebookKernel(): void {
    const { synced } = this.context;
    const reason = synced.latest("controls")?.no_compile ?? ""; // older recordings lack this field
    const isAlone = synced.isAlone || reason !== "";
    this.element.title = reason && `No variants: ${reason}`;
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

  /** Requests matching flags from Python. Does nothing for several flags with values, which need no search. */
  private search(text: string): void {
    const search = text.trim();
    if (this.value.value === this.given && !this.known.has(search.replace(/^--/, ""))) this.value.value = "";
    this.value.input.placeholder = this.chosen?.type ?? "Value";
    const isTooShort = search.length > 0 && search.length < LEAST_LETTERS;
    if (search.includes("=") || isTooShort) {
      this.asked = { id: -1, search: "", target: "" }; // a late reply would open the list, and Enter would drop the value
      return this.flag.close();
    }
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
    this.value.input.placeholder = this.chosen?.type ?? "Value";
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
    this.value.input.placeholder = flag?.type ?? "Value";
    this.value.input.focus();
    this.value.input.select();
  }

  /** Returns the target of an existing variant whose compiler accepts a flag; "" if there is none. */
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
