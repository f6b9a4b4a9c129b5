// A form for hypothetical calls (donation, dtype, batch size, shape, rematerialization, checkpoints), and their stats beside the baseline.

import { type Choice, Switcher, textButton } from "../lib/controls.ts";
import { fill, h } from "../lib/dom.ts";
import { type StatsCell, type StatsLine, tabulate } from "../lib/stats.ts";
import type * as messages from "../messages.ts";
import type { Timed } from "../state/synced.ts";
import { stateMark } from "./labels.ts";
import { NewVariant } from "./newvariant.ts";
import { type Context, Drawing, follow, type Pane } from "./pane.ts";
import { empty } from "./states.ts";
import { content } from "./stats.ts";
import "../styles/what_if.css";

type OfArgument = "donate" | "dtype" | "batch" | "shape";
type Kind = OfArgument | "rematerialize" | "checkpoint";

const KINDS: Choice<Kind>[] = [
  { value: "donate", text: "Donate", title: "Let the program reuse the buffers of an argument" },
  { value: "dtype", text: "Dtype", title: "Change the dtype of an argument" },
  { value: "batch", text: "Batch", title: "Change the length of the leading dimension" },
  { value: "shape", text: "Shape", title: "Change the length of any dimension" },
  { value: "rematerialize", text: "Rematerialize", title: "Recompute the values of a scope in the backward pass" },
  { value: "checkpoint", text: "Checkpoints", title: "Add jax.checkpoint to loops, remove it, or change its policy" },
];
const DTYPES = ["bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2"];
const SHOWN = ["peak_bytes", "argument_bytes", "temp_bytes", "flops", "bytes_accessed"];

const NOTHING = "Compiled as a variant that all panes can compare with the baseline.";

class WhatIfPane implements Pane {
  readonly element = h("div", { class: "insp-what-if insp-scroll", tabindex: 0, "aria-label": "What if" });
  readonly tools = h("div", { class: "insp-tools" });
  private readonly drawing = new Drawing(() => this.draw());
  private readonly kind = new Switcher<Kind>("Kind of change", KINDS, "donate", () => this.drawForm());
  private readonly form = h("form", { class: "insp-what-if-form" });
  private readonly compile = textButton("Compile as variant", NOTHING, () => this.send());
  private readonly request: NewVariant;
  private readonly table = h("div");
  private readonly ends: (() => void)[];
  private known: messages.Suppositions | null = null;

  constructor(private readonly context: Context) {
    this.request = new NewVariant(context, this.form, "supposed");
    this.form.addEventListener("submit", (e) => {
      e.preventDefault();
      this.compile.click();
    });
    const { synced, local } = context;
    this.ends = [
      follow(context, "what_if", this.drawing),
      local.signal.on(["active"], this.drawing.request),
      synced.signal.on(["supposed"], () => this.request.receive()),
    ];
  }

  setVisible(visible: boolean): void {
    this.drawing.setVisible(visible);
  }

  destroy(): void {
    this.ends.forEach((end) => end());
  }

  private draw(): void {
    const known = this.context.synced.latest("suppositions", {});
    if (!known) return fill(this.element, empty("No program yet", "Available once the program is lowered."));
    if (known.note) return fill(this.element, empty("What-if is unavailable", known.note));
    if (known !== this.known) {
      this.known = known;
      if (!this.canChange(this.kind.value))
        this.kind.choose(KINDS.find(({ value }) => this.canChange(value))?.value ?? "donate");
      else this.drawForm();
      fill(
        this.element,
        h("div", { class: "insp-what-if-top" }, this.kind.element, this.form),
        this.request.said,
        this.table,
      );
    }
    this.compile.disabled = this.context.synced.isAlone;
    this.compile.title = this.context.synced.remedy || NOTHING;
    this.drawTable();
  }

  private drawForm(): void {
    const kind = this.kind.value;
    this.request.say("");
    if (kind === "rematerialize") return fill(this.form, ...this.scopeField(), this.compile);
    if (kind === "checkpoint") return fill(this.form, ...this.checkpointField());
    const { fits, none } = ARGUMENTS[kind];
    const offered = this.known!.arguments.filter(fits);
    if (!offered.length) return fill(this.form, h("span", { class: "insp-dim" }, none));
    const { shared: leading, lengths = [] } = this.known!;
    const shared = kind === "batch" ? leading : kind === "shape" ? lengths : [];
    fill(this.form, ...argumentFields(kind, offered, shared), this.compile);
  }

  private canChange(kind: Kind): boolean {
    const { arguments: all, scopes, checkpoints = {} } = this.known!;
    if (kind === "checkpoint") return Object.keys(checkpoints).length > 0;
    return kind === "rematerialize" ? scopes.length > 0 : all.some(ARGUMENTS[kind].fits);
  }

  /** Returns a field for the names of scopes, and a button for each scope of the program that fills it. */
  private scopeField(): HTMLElement[] {
    const { scopes } = this.known!;
    const input = h("input", {
      name: "value",
      type: "text",
      spellcheck: "false",
      placeholder: scopes[0] ? `${scopes[0]}, or layer_*` : "Name of a scope",
      "aria-label": "Name scope",
    });
    const buttons = scopes.map((scope) =>
      textButton(scope, `Recompute the values of ${scope} in the backward pass`, () => (input.value = scope)),
    );
    const list = h("span", { class: "insp-scopes", role: "group", "aria-label": "Scopes of the program" }, ...buttons);
    return scopes.length ? [input, list] : [input];
  }

  private checkpointField(): HTMLElement[] {
    const changes = Object.entries(this.known!.checkpoints ?? {});
    if (!changes.length) {
      return [h("span", { class: "insp-dim" }, "The program has no differentiated loop and no checkpoint.")];
    }
    const options = changes.map(([value, text]) => h("option", { value }, text));
    const attributes = { name: "value", class: "insp-select", "aria-label": "Checkpoints" };
    return [h("select", attributes, ...options), this.compile];
  }

  private send(): void {
    const field = (name: string): string =>
      (this.form.elements.namedItem(name) as HTMLInputElement | null)?.value.trim() ?? "";
    const [argument, value] = [field("argument"), field("value")];
    const kind = this.kind.value;
    if (kind === "rematerialize" && !value) return this.request.say("Enter the name of a scope first.");
    const shape = kind === "shape" ? lengthsIn(value) : [];
    if (!shape) return this.request.say("Enter lengths, such as 8, 128.");
    if (kind === "shape" && shape.length > 1 && /^\d+$/.test(argument)) return this.request.say("Enter one length.");
    this.request.ask({
      type: "suppose",
      variant: this.context.synced.baseline!,
      donate: kind === "donate" ? [argument] : [],
      dtype: kind === "dtype" ? { [argument]: value } : {},
      batch: kind === "batch" ? this.batchOf(argument, Number(value)) : {},
      shape: kind === "shape" ? { [argument]: shape } : {},
      rematerialize: kind === "rematerialize" ? value.split(",").map((name) => name.trim()) : [],
      checkpoint: kind === "checkpoint" ? value : "",
    });
  }

  /** Returns the new lengths. All arrays that share a dimension get the same length. */
  private batchOf(argument: string, length: number): Record<string, number> {
    const group = this.known!.shared.find((each) => valueOf(each) === argument);
    return Object.fromEntries((group?.paths ?? [argument]).map((path) => [path, length]));
  }

  private drawTable(): void {
    const { synced } = this.context;
    const baseline = synced.variants.get(synced.baseline ?? -1);
    const variants = [...synced.variants.values()].filter((v) => v.supposed);
    if (!variants.length || !baseline) return fill(this.table, h("p", { class: "insp-dim" }, NOTHING));
    const all = [baseline, ...variants];
    const lines = tabulate(
      all.map((v) => synced.latest("stats", { variant: v.variant })),
      all.map((v) => (v === baseline || v.target !== baseline.target ? null : 0)),
    ).filter(({ key }) => SHOWN.includes(key));
    const heads = ["", ...lines.map(({ label }) => label)].map((text) => h("th", { scope: "col" }, text));
    fill(
      this.table,
      h(
        "table",
        { class: "insp-table" },
        h("thead", {}, h("tr", {}, ...heads)),
        h("tbody", {}, ...all.map((variant, i) => this.row(variant, lines, i))),
      ),
    );
  }

  private row(variant: Timed<messages.VariantMessage>, lines: readonly StatsLine[], index: number): HTMLElement {
    const { local } = this.context;
    const isActive = variant.variant === local.active;
    const activate = (): void => local.setActive(variant.variant);
    const name = h("button", { type: "button", class: "insp-link", onclick: activate }, variant.supposed || "baseline");
    const cells: HTMLElement[] =
      variant.state === "failed"
        ? [h("td", { colspan: lines.length, class: "insp-bad insp-what-if-error" }, variant.error?.message ?? "failed")]
        : lines.map((line) => h("td", {}, this.cell(line.cells[index]!, line, index)));
    return h(
      "tr",
      { class: isActive ? "insp-column-active" : "" },
      h("th", { scope: "row" }, variant.state !== "done" && stateMark(variant.state), name),
      ...cells,
    );
  }

  private cell(cell: StatsCell, line: StatsLine, index: number): HTMLElement {
    return content(cell, line, index ? "the baseline" : null);
  }
}

/** The arguments to which each change applies, and the message if there are none. */
const ARGUMENTS: Record<OfArgument, { fits: (argument: messages.SupposedArgument) => boolean; none: string }> = {
  donate: { fits: ({ donated }) => !donated, none: "All arguments are already donated." },
  dtype: { fits: ({ dtype }) => dtype !== "", none: "No argument is a floating-point array." },
  batch: { fits: ({ length }) => length !== null, none: "No argument has a leading dimension." },
  shape: { fits: ({ shape }) => !!shape, none: "No argument has a dimension." },
};

/** Returns the lengths in a text, such as "8, 128"; null if it has anything else. */
function lengthsIn(text: string): number[] | null {
  const lengths = text.split(",").map(Number);
  return lengths.every((length) => Number.isInteger(length) && length > 0) ? lengths : null;
}

/** Returns the option value of a shared dimension: its length, which is never the path of an argument. */
const valueOf = ({ length }: messages.EqualLength): string => String(length);

function argumentFields(
  kind: OfArgument,
  offered: readonly messages.SupposedArgument[],
  shared: readonly messages.EqualLength[],
): HTMLElement[] {
  const lengths = [...shared, ...offered].map(({ length }) => length);
  const dimensions = kind === "batch" ? "leading dimension" : "dimensions of length";
  const argument = h(
    "select",
    { name: "argument", class: "insp-select", "aria-label": "Argument" },
    ...shared.map((each) => h("option", { value: valueOf(each) }, `${dimensions} ${each.length} of ${each.what}`)),
    ...offered.map(({ path, what }) => h("option", { value: path }, `${path}: ${what}`)),
  );
  if (kind === "dtype") {
    const dtypes = DTYPES.map((name) => h("option", { value: name }, name));
    return [argument, h("select", { name: "value", class: "insp-select", "aria-label": "Dtype" }, ...dtypes)];
  }
  if (kind === "batch") {
    const half = (): string => String(Math.max(1, Math.floor((lengths[argument.selectedIndex] ?? 2) / 2)));
    const length = h("input", { name: "value", type: "number", min: "1", value: half(), "aria-label": "Length" });
    argument.addEventListener("change", () => (length.value = half()));
    return [argument, length];
  }
  if (kind === "shape") {
    const shapes = [...shared.map((each) => [each.length]), ...offered.map(({ shape }) => shape ?? [])];
    const present = (): string => (shapes[argument.selectedIndex] ?? []).join(", ");
    const input = h("input", { name: "value", type: "text", value: present(), "aria-label": "New lengths" });
    argument.addEventListener("change", () => (input.value = present()));
    return [argument, input];
  }
  return [argument];
}

export const pane = (context: Context): Pane => new WhatIfPane(context);
