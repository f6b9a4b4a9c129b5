// A form with every field of Pallas's CompilerParams. Changed fields are compiled as a new variant.

import { textButton } from "../lib/controls.ts";
import { fill, h } from "../lib/dom.ts";
import { plural } from "../lib/format.ts";
import type * as messages from "../messages.ts";
import { NewVariant } from "./newvariant.ts";
import type { Context } from "./pane.ts";

export class ParamsForm {
  readonly element = h("section", { class: "insp-params" });
  private readonly request: NewVariant;
  private readonly inputs = new Map<string, HTMLInputElement | HTMLSelectElement>();
  private row: messages.KernelMessage | null = null;
  private variant = 0;

  constructor(context: Context) {
    this.request = new NewVariant(context, this.element, "tuned");
  }

  show(row: messages.KernelMessage, variant: number): void {
    this.row = row;
    this.variant = variant;
    this.inputs.clear();
    this.request.say("");
    const isSet = (p: messages.KernelParam): boolean => p.overridden || p.value !== p.default;
    const set = row.params.filter(isSet).map((p) => this.line(p));
    const usual = row.params.filter((p) => !isSet(p)).map((p) => this.line(p));
    const table = (lines: HTMLElement[]): HTMLElement => h("table", { class: "insp-table" }, h("tbody", {}, ...lines));
    const compile = textButton(
      "Compile as variant",
      "Lower the function again with the changed fields and compile it as a new variant",
      () => this.send(false),
    );
    const interpret = textButton(
      "Interpret on the CPU",
      "Run the kernels with JAX's interpreter on the CPU to get their values",
      () => this.send(true),
    );
    fill(
      this.element,
      h("h4", {}, "Compiler parameters"),
      set.length > 0 && table(set),
      usual.length > 0 &&
        h(
          "details",
          {},
          h("summary", {}, plural(usual.length, "parameter at its default", "parameters at their defaults")),
          table(usual),
        ),
      !row.params.length &&
        h(
          "p",
          { class: "insp-unavailable" },
          "The installed JAX has no compiler parameters for this kernel's backend.",
        ),
      h("div", { class: "insp-params-buttons" }, row.params.length > 0 && compile, !row.interpret && interpret),
      this.request.said,
    );
  }

  receive(): void {
    this.request.receive();
  }

  private line(param: messages.KernelParam): HTMLElement {
    const field = param.reason
      ? h("span", { class: "insp-unavailable" }, `Unavailable: ${param.reason}`)
      : this.input(param);
    const isOwn = param.value !== param.default;
    return h(
      "tr",
      { class: param.overridden ? "insp-param-overridden" : isOwn ? "insp-param-own" : "" },
      h("th", { scope: "row", title: param.description }, h("code", {}, ...breakable(param.name))),
      h("td", {}, field),
    );
  }

  private input(param: messages.KernelParam): HTMLElement {
    const label = { "aria-label": param.name, title: `${param.type}; default ${param.default}\n${param.description}` };
    const choices =
      param.type === "bool" ? ["true", "false"] : param.type === "bool | None" ? ["none", "true", "false"] : null;
    const element = choices
      ? h("select", label, ...choices.map((c) => h("option", { value: c, selected: c === param.value }, c)))
      : h("input", { ...label, type: "text", value: param.value, placeholder: param.type, spellcheck: "false" });
    if (element instanceof HTMLInputElement) {
      element.addEventListener("keydown", (e) => e.key === "Enter" && this.send(false));
    }
    this.inputs.set(param.name, element);
    return element;
  }

  private send(interpret: boolean): void {
    if (!this.row) return;
    const changed = this.row.params.flatMap((p): [string, string][] => {
      const value = this.inputs.get(p.name)?.value;
      return value === undefined || value === p.value ? [] : [[p.name, value]];
    });
    if (!interpret && !changed.length) return this.request.say("No field is changed. Change a field first.");
    this.request.ask({
      type: "tune",
      variant: this.variant,
      kernel: this.row.number,
      values: Object.fromEntries(changed),
      interpret,
    });
  }
}

/** Returns the parts of a name, with line breaks allowed after underscores. */
function breakable(name: string): (string | HTMLElement)[] {
  return name.split("_").flatMap((part, i) => (i ? ["_", h("wbr"), part] : [part]));
}
