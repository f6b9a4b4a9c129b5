// Commands that are available everywhere, by key and by name in the palette.

import { computationsOf } from "../lib/computations.ts";
import { MEASURES } from "../lib/linecosts.ts";
import { bareName } from "../lib/names.ts";
import type { Context } from "../panes/pane.ts";
import { EXECUTIONS, notRunnable } from "../panes/runbutton.ts";
import { PRESETS, type Preset } from "../state/layout.ts";

export interface Command {
  readonly name: string;
  /** The value of `KeyboardEvent.key`; "" for none. */
  readonly key: string;
  readonly run: () => void;
}

/** Actions of the parts of a view. */
interface Parts {
  search(text?: string): void;
  help(): void;
  fullWindow(): void;
  arrange(preset: Preset): void;
  save(): void;
  saveWithNote(): void;
}

export function commandsOf(context: Context, parts: Parts): Command[] {
  const { synced, local } = context;
  const instruction = (): string => local.selection?.instruction ?? "";
  const step = (delta: number): void => {
    const variants = [...synced.variants.keys()];
    const at = variants.indexOf(local.active ?? -1);
    const next = variants.at((at + delta) % Math.max(1, variants.length));
    if (next !== undefined) local.setActive(next);
  };
  return [
    { name: "Search all panes and commands", key: "/", run: () => parts.search() },
    { name: "Keyboard shortcuts", key: "?", run: () => parts.help() },
    { name: "Full window", key: "f", run: () => parts.fullWindow() },
    { name: "Previous selection", key: "[", run: () => local.back() },
    { name: "Next selection", key: "]", run: () => local.forward() },
    { name: "Next match in every pane", key: "n", run: () => local.step(null, 1) },
    { name: "Previous match in every pane", key: "p", run: () => local.step(null, -1) },
    {
      name: "Users of the selected instruction",
      key: "u",
      run: () => parts.search(`users:${bareName(instruction())}`),
    },
    { name: "Caller of the selected instruction's computation", key: "c", run: () => toCaller(context) },
    { name: "Next variant", key: ".", run: () => step(1) },
    { name: "Previous variant", key: ",", run: () => step(-1) },
    { name: "Next pass that changed the program", key: ">", run: () => local.passes.step(1) },
    { name: "Previous pass that changed the program", key: "<", run: () => local.passes.step(-1) },
    { name: "Wrap long lines", key: "w", run: () => local.setWrap(!local.wrap) },
    { name: "Show locations and metadata", key: "l", run: () => local.setDetails(!local.details) },
    { name: "Run the program", key: "", run: () => runAndShow(context, "run") },
    { name: "Profile the program", key: "", run: () => runAndShow(context, "profile") },
    { name: "Record the compiler passes", key: "", run: () => local.reveal("passes") },
    { name: "Record the machine code", key: "", run: () => local.reveal("code") },
    { name: "Which flags matter", key: "", run: () => local.reveal("options") },
    {
      name: "Compare with the baseline",
      key: "",
      run: () => {
        if (local.active !== null && local.referenceOf(local.active) !== local.active)
          local.setOptimizedView(local.lastComparison);
        local.reveal("optimized");
      },
    },
    ...(synced.isRecorded
      ? []
      : [
          { name: "Save as HTML file", key: "", run: () => parts.save() },
          { name: "Save as HTML file with a note", key: "", run: () => parts.saveWithNote() },
        ]),
    { name: "Clear selection", key: "Escape", run: () => local.select(null) },
    ...MEASURES.map(({ value, text }) => ({
      name: `Line costs: ${text}`,
      key: "",
      run: () => local.setMeasure(value),
    })),
    { name: "Line costs: none", key: "", run: () => local.setMeasure(null) },
    ...PRESETS.map(({ value, text }) => ({ name: text, key: "", run: () => parts.arrange(value) })),
  ];
}

/** Shows a pane with the results of a run, and runs the active variant if it can run. */
function runAndShow(context: Context, pane: "run" | "profile"): void {
  const { synced, local } = context;
  local.reveal(pane);
  const { variant } = local;
  if (variant?.state !== "done" || notRunnable(context, variant)) return;
  synced.send({ type: "run", variant: variant.variant, repeat: EXECUTIONS });
}

/** Goes from a line of HLO to the line that calls its computation. */
function toCaller({ synced, local }: Context): void {
  const pane = local.selection?.stage;
  const document = pane && synced.document(pane, local.active);
  if (!document || !local.selection?.instruction) return;
  const caller = computationsOf(document).at(document.lineOfInstruction(local.selection.instruction))?.caller ?? -1;
  if (caller < 0) return;
  local.goTo(document, caller);
}
