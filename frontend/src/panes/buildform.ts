// A form for a variant based on the active one: its build options, and a field for flags in XLA_FLAGS syntax.

import { fill, h } from "../lib/dom.ts";
import type * as messages from "../messages.ts";
import { textOf } from "./labels.ts";
import type { Context } from "./pane.ts";
import { awaited, failure } from "./states.ts";

export interface BuildForm {
  readonly element: HTMLElement;
  draw(variant: messages.VariantMessage): void;
}

export function buildForm(context: Context): BuildForm {
  const { synced } = context;
  const element = h("div", { class: "insp-build insp-scroll" });
  let asked = -1;
  let askedId = -1;
  let addedId = -1;
  let shown: messages.BuildOptions | null = null;
  const said = h("div", { class: "insp-build-said" });

  const ask = (variant: number): void => {
    asked = variant;
    shown = null;
    askedId = synced.ask({ type: "build_options", variant });
  };
  const add = (variant: number, fields: readonly Field[], flags: HTMLTextAreaElement): void => {
    const values: Record<string, string> = {};
    for (const { name, input } of fields) if (input.value.trim()) values[name] = input.value;
    fill(said);
    addedId = synced.ask({ type: "build", variant, values, flags: flags.value });
  };
  const show = (variant: messages.VariantMessage, reply: messages.BuildOptions): void => {
    const fields = reply.rows.map((row) => ({ name: row.name, row, input: fieldOf(row) }));
    const flags = h("textarea", {
      class: "insp-build-flags",
      rows: 3,
      spellcheck: "false",
      "aria-label": "XLA flags",
      placeholder: 'Flags, e.g. --xla_a=1 --xla_b or export XLA_FLAGS="--xla_a=1"',
    });
    flags.value = reply.flags;
    const title = `Compile ${textOf(variant)} with these options as a new variant`;
    const button = h(
      "button",
      {
        type: "button",
        class: "insp-button insp-button-main",
        title,
        onclick: () => add(variant.variant, fields, flags),
      },
      "Add variant",
    );
    fill(
      element,
      h("div", { class: "insp-build-head" }, h("span", {}, "Based on ", h("b", {}, textOf(variant))), button, said),
      flags,
      h("div", { class: "insp-build-fields" }, ...fields.map(fieldRow)),
    );
  };
  return {
    element,
    draw(variant) {
      if (asked !== variant.variant) ask(variant.variant);
      const reply = synced.reply("build_options", askedId);
      if (reply && reply !== shown) {
        shown = reply;
        if (reply.error) fill(element, failure(reply.error, "No options"));
        else show(variant, reply);
      } else if (!shown) {
        fill(element, awaited(synced, "Reading compiler options", "Options not received"));
      }
      const built = synced.reply("built", addedId);
      if (built) fill(said, built.error ? refusal(built.error) : h("span", { class: "insp-dim" }, "Added."));
    },
  };
}

interface Field {
  readonly name: string;
  readonly row: messages.BuildOption;
  readonly input: HTMLInputElement | HTMLSelectElement;
}

function fieldOf(row: messages.BuildOption): HTMLInputElement | HTMLSelectElement {
  const usual = row.usual || "none";
  const label = { "aria-label": row.name, title: `${row.type}; default ${usual}` };
  if (!row.values.length) {
    const input = h("input", { ...label, type: "text", spellcheck: "false", placeholder: usual });
    input.value = row.said;
    return input;
  }
  const choices = row.values.map((value) => h("option", { value }, value));
  const select = h("select", label, h("option", { value: "" }, `Default: ${usual}`), ...choices);
  select.value = row.values.find((value) => value === row.said) ?? "";
  return select;
}

function fieldRow({ row, input }: Field): HTMLElement {
  return h(
    "label",
    { class: "insp-build-field", title: row.description },
    h("code", {}, row.name),
    input,
    h("span", { class: "insp-dim" }, row.type),
  );
}

function refusal({ kind, message }: messages.Error): HTMLElement {
  return h(
    "div",
    { class: "insp-notice insp-notice-error", role: "alert" },
    h("pre", {}, h("b", {}, kind), ` ${message}`),
  );
}
