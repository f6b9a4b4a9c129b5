// A table of the collectives in the HLO or the optimized HLO, and the device groups of the selected one.

import { type Choice, segments } from "../lib/controls.ts";
import { copyButton } from "../lib/copying.ts";
import { cellOf, columnsOf, textOf } from "../lib/described.ts";
import { fill, h, update, whenLaidOut } from "../lib/dom.ts";
import { format, plural, shortSource, wholeSource } from "../lib/format.ts";
import { STRONG } from "../lib/linking.ts";
import { groupsText } from "../lib/meshgrid.ts";
import { Sorting } from "../lib/sorting.ts";
import { listSplitter } from "../lib/splitter.ts";
import { StickyColumns } from "../lib/stickycolumns.ts";
import { withoutEmpty, withUnitsInHeads } from "../lib/units.ts";
import type * as messages from "../messages.ts";
import { CHOSEN, LEVEL_CLASSES } from "../state/local.ts";
import { exchangePlayer } from "./exchange.ts";
import { meshDrawing } from "./mesh.ts";
import { ObservedView } from "./observed.ts";
import { type Context, Drawing, follow, type Pane } from "./pane.ts";
import { goesOn } from "../state/synced.ts";
import { PriceView } from "./price.ts";
import { recordButton } from "./recording.ts";
import { sourceLink } from "./sourcelink.ts";
import { awaited, empty, failure, spinner } from "./states.ts";

const STAGES: Choice<messages.Stage>[] = [
  { value: "hlo", text: "HLO" },
  { value: "optimized", text: "Optimized HLO" },
];

/** Largest number of listed instructions that need a collective. */
const MOST_NEEDING = 4;

class CollectivesPane implements Pane {
  readonly element = h("div", { class: "insp-collectives" });
  readonly tools = h("div", { class: "insp-tools" });
  private readonly drawing = new Drawing(() => this.draw());
  private readonly reason = h("div", { class: "insp-needed-by", role: "status" });
  private readonly stages = h("div", { class: "insp-segments", role: "group", "aria-label": "Program stage" });
  private readonly ends: (() => void)[];
  private stage: messages.Stage = "optimized";
  /** The message that was drawn last, the table that shows it, and its rows in order. */
  private drawn: messages.CollectivesMessage | null = null;
  private table: messages.CollectivesMessage | null = null;
  private listed: readonly messages.CollectiveMessage[] = [];
  private rows: HTMLTableRowElement[] = [];
  private readonly body = h("tbody");
  private readonly replicated = h("div", { hidden: true });
  private readonly sorting = new Sorting<messages.CollectiveMessage>(() => this.sort());
  private readonly side = h("div", { class: "insp-collective-side insp-scroll" });
  private readonly border = listSplitter(
    "Collectives list width",
    this.element,
    () => this.element.firstElementChild as HTMLElement,
  );
  private readonly observed: ObservedView;
  private readonly price: PriceView;
  private focused = 0;
  private sideRow: messages.CollectiveMessage | null = null;

  constructor(private readonly context: Context) {
    this.observed = new ObservedView(context);
    this.price = new PriceView(context);
    const copied = (): string => (this.drawn ? this.sorting.text(this.listed) : "");
    this.tools.append(this.stages, copyButton(copied, "compiled.collectives().table()"));
    this.ends = [
      follow(context, "collectives", this.drawing),
      context.local.signal.on(["active"], this.drawing.request),
      context.local.signal.on(["selection"], () => this.drawing.request),
    ];
  }

  setVisible(visible: boolean): void {
    this.drawing.setVisible(visible);
  }

  destroy(): void {
    this.ends.forEach((end) => end());
  }

  private draw(): void {
    this.drawStages();
    const { synced, local } = this.context;
    const found = synced.latest("collectives", { variant: local.active, program: this.stage });
    if (!found?.rows.length) {
      this.drawn = null;
      return fill(this.element, found ? empty("No collectives", found.note || NONE_NOTE) : this.absence());
    }
    if (this.drawn !== found) this.drawTable(found);
    this.drawReplicated();
    this.mark();
  }

  private absence(): HTMLElement {
    const { variant } = this.context.local;
    if (!variant) return empty("No collectives yet", "Available once a variant is compiled.");
    if (variant.state === "failed") return failure(variant.error, "No collectives: this variant failed");
    if (variant.state === "cancelled") return empty("No collectives", "This variant was canceled.");
    return awaited(
      this.context.synced,
      variant.state === "done" ? "Reading collectives" : "Compiling",
      "Collectives not received",
      variant,
    );
  }

  private drawTable(found: messages.CollectivesMessage): void {
    this.drawn = found;
    this.table = withUnitsInHeads(withoutEmpty(found, "measured_s", "executions"));
    this.sorting.show(columnsOf(this.table.columns, VALUES), "measured_s");
    this.drawRows(this.table);
    const table = h("table", { class: "insp-table" }, h("thead", {}, this.sorting.head), this.body);
    const note = found.note && h("div", { class: "insp-note" }, found.note);
    const list = h("div", { class: "insp-collective-list insp-scroll" }, note, this.replicated, table);
    const sticky = new StickyColumns(table);
    sticky.show(this.sorting.head);
    list.addEventListener("scroll", () => sticky.place(list));
    fill(this.element, list, this.border, this.side);
  }

  /** Draws XLA's warnings about arrays that are copied whole to every device. */
  private drawReplicated(): void {
    const warnings = this.context.synced.latest("full_rematerializations", { variant: this.context.local.active });
    this.replicated.hidden = !warnings?.rows.length && !warnings?.unheard;
    this.replicated.classList.toggle("insp-replicated", Boolean(warnings?.rows.length));
    if (!warnings) return;
    if (!warnings.rows.length) {
      const unknown = `Unknown whether arrays are copied whole to every device: ${warnings.unheard}.`;
      return fill(this.replicated, h("div", { class: "insp-note" }, warnings.unheard && unknown));
    }
    const title = `${plural(warnings.rows.length, "array")} copied whole to every device (full rematerialization)`;
    const row = (each: messages.ReshardingMessage): HTMLElement => {
      const size = each.operand_bytes === null ? "" : `, ${format(each.operand_bytes, "bytes")} per device before`;
      const way = `: from ${each.had} to ${each.needed}${size} `;
      return h("li", {}, h("code", {}, each.name), way, each.source && sourceLink(this.context, each.source));
    };
    const [first, rest] = [warnings.rows.slice(0, 3), warnings.rows.slice(3)];
    fill(
      this.replicated,
      h("strong", {}, title),
      h("ul", {}, ...first.map(row)),
      rest.length > 0 && h("details", {}, h("summary", {}, `${rest.length} more`), h("ul", {}, ...rest.map(row))),
      h("div", { class: "insp-dim" }, warnings.rows[0]!.advice),
    );
  }

  private drawRows(found: messages.CollectivesMessage): void {
    this.focused = 0;
    this.sideRow = null;
    this.listed = this.sorting.sorted(found.rows);
    this.rows = this.listed.map((row, i) => this.row(row, i));
    fill(this.body, ...this.rows);
  }

  private sort(): void {
    if (!this.table) return;
    this.drawRows(this.table);
    this.mark();
  }

  private row(row: messages.CollectiveMessage, index: number): HTMLTableRowElement {
    const onkeydown = ((e: KeyboardEvent) => this.key(e, index)) as EventListener;
    return h(
      "tr",
      { tabindex: index === 0 ? 0 : -1, "aria-selected": "false", onclick: () => this.select(index), onkeydown },
      ...this.table!.columns.map((head, i) => CELLS[head.name]?.(row, row.cells[i]!) ?? cellOf(head, row.cells[i]!)),
    );
  }

  private key(e: KeyboardEvent, index: number): void {
    const step = { ArrowDown: 1, ArrowUp: -1, Enter: 0, " ": 0 }[e.key];
    if (e.key === "Escape") this.context.local.select(null);
    if (step === undefined) return;
    e.preventDefault();
    const next = Math.max(0, Math.min(this.rows.length - 1, index + step));
    this.rows[next]!.focus();
    this.select(next);
  }

  private select(index: number): void {
    this.focused = index;
    this.context.local.selectInstruction("collectives", this.stage, this.listed[index]!.name);
  }

  /** Highlights the rows that belong to the selection and shows the groups of one of them. */
  private mark(): void {
    const levelOf = this.context.local.levelsOfInstructions(this.stage);
    const levels = this.listed.map(({ name }) => levelOf(name));
    const nearest = [CHOSEN, STRONG].map((level) => levels.indexOf(level)).find((i) => i >= 0);
    if (nearest !== undefined) this.focused = nearest;
    this.rows.forEach((row, i) => {
      update(row, { class: LEVEL_CLASSES[levels[i]!]!, "aria-selected": String(i === this.focused) });
    });
    const row = nearest === undefined ? null : this.rows[nearest]!;
    if (row) whenLaidOut(row, () => scrollWithin(row));
    const shown = this.listed[this.focused]!;
    this.observed.show(shown, this.stage, this.drawn!.mesh);
    this.drawReason(shown);
    const { mesh, exchanges, networks } = this.drawn!;
    if (networks?.length) this.price.show(shown, this.stage, networks);
    if (shown !== this.sideRow) {
      const drawn = meshDrawing(shown, mesh, describe(shown, this.reason));
      const player = exchangePlayer(shown, exchanges ?? []);
      fill(this.side, ...drawn, ...player, this.observed.element, networks?.length ? this.price.element : null);
    }
    this.sideRow = shown;
  }

  /** Shows which instruction the partitioner inserted a collective for, or how to find out. */
  private drawReason({ resharding }: messages.CollectiveMessage): void {
    const { synced, local } = this.context;
    const { variant } = local;
    if (!resharding || resharding.needed_by === undefined) return fill(this.reason); // older recordings lack this field
    if (resharding.needed_by.length) return fill(this.reason, ...neededBy(resharding));
    if (synced.isAlone || variant?.state !== "done") return fill(this.reason);
    const recording = synced.latest("recording", { variant: variant.variant, product: "passes" });
    if (recording && goesOn(recording)) return fill(this.reason, spinner(), " Recording the compiler passes.");
    const words =
      recording?.state === "done"
        ? ["The instruction that needs it is unknown: the compiler merged several instructions, or named none."]
        : [
            "Record the compiler passes to see which instruction needs it. ",
            recordButton(this.context, variant, "passes", "Record"),
          ];
    fill(this.reason, h("span", { class: "insp-dim" }, ...words));
  }

  private drawStages(): void {
    fill(this.stages, ...segments(STAGES, this.stage, (stage) => this.setStage(stage)));
  }

  private setStage(stage: messages.Stage): void {
    this.stage = stage;
    this.drawing.request();
  }
}

/** Phases of a differentiated program. Other instructions have no phase. */
const PHASES: Record<string, string> = {
  forward: "forward pass",
  backward: "backward pass",
  recomputed: "recomputed for the backward pass",
};
const NONE_NOTE = "No instruction at this stage communicates between devices.";

/** Values of cells with names that Python's description lacks: a notebook cell is `In [3]`. */
const VALUES: Record<string, (row: messages.CollectiveMessage) => string | null> = {
  source: ({ source, inserted_by }) => (source ? `${source.file}:${source.line ?? ""}` : inserted_by || null),
};

/** Cells that are more than text. */
const CELLS: Record<string, (row: messages.CollectiveMessage, content: messages.TableCell) => HTMLElement> = {
  name: ({ opcode, name, computation }, content) =>
    h(
      "th",
      { scope: "row", title: `${name} in ${computation}` },
      h("span", { class: "insp-tok-op" }, opcode),
      h("span", { class: "insp-dim" }, ` ${textOf(content)}`),
    ),
  axes: ({ axes, axes_reason }) =>
    h(
      "td",
      {},
      axes === null
        ? h("span", { class: "insp-unavailable", title: axes_reason }, axes_reason || "none")
        : h("span", { class: "insp-axis-used" }, axes.join(", ") || "–"),
    ),
  replica_groups: (row) => h("td", { title: groupsText(row, 64) }, groupsText(row)),
  operand_shapes: ({ operand_shapes }) => h("td", {}, h("code", {}, operand_shapes.join(", "))),
  source: ({ source, source_from, inserted_by }) =>
    h(
      "td",
      { title: [source ? wholeSource(source) : "", source_from].filter(Boolean).join(": ") },
      source ? shortSource(source) : h("span", { class: "insp-dim" }, inserted_by ? `by ${inserted_by}` : "unknown"),
    ),
};

function describe(row: messages.CollectiveMessage, reason: HTMLElement): HTMLElement[] {
  const facts = [
    row.group_mode.replaceAll("_", " "),
    row.context,
    row.inserted_by && `inserted by ${row.inserted_by}`,
    row.phases
      .map((phase) => PHASES[phase])
      .filter(Boolean)
      .join(" and "),
    row.source && row.source_from !== "itself" ? `source of ${row.source_from}` : "",
  ].filter(Boolean);
  const changed = row.resharding && [
    h(
      "div",
      {},
      "Sharding ",
      h("strong", {}, row.resharding.had),
      ", needed: ",
      h("strong", {}, row.resharding.needed),
    ),
    wholeArray(row.resharding),
    reason,
    h("details", { class: "insp-dim" }, h("summary", {}, "Advice"), row.resharding.advice),
  ];
  const shapes = `${row.operand_shapes.join(", ")} → ${row.result_shapes.join(", ")}`;
  return [
    h("div", { class: "insp-side-title" }, h("span", { class: "insp-tok-op" }, row.opcode), ` ${row.name}`),
    h("div", { class: "insp-side-shapes" }, h("code", {}, shapes)),
    h("div", { class: "insp-dim" }, facts.join(" · ")),
    ...(changed ?? []).filter((each) => each !== null),
  ];
}

/** Returns the name of the argument or result that is resharded, with the sharding of the whole array. */
function wholeArray({ arrays, before, after }: messages.SplitChange): HTMLElement | null {
  if (!arrays?.length) return null; // older recordings lack this field
  const split = [before, after].filter(Boolean).map((text) => h("code", {}, text));
  const way = split.length > 1 ? [split[0]!, " → ", split[1]!] : before ? [split[0]!] : ["becomes ", split[0]!];
  return h("div", {}, `${arrays.join(" → ")}: `, ...way);
}

function neededBy({ needed_by: instructions }: messages.SplitChange): (HTMLElement | string)[] {
  const each = instructions.slice(0, MOST_NEEDING).map((text) => h("li", {}, h("code", {}, text)));
  const rest = instructions.length - each.length;
  const title = instructions.length > 1 ? "Needed by one of these instructions of its source line:" : "Needed by";
  return [title, h("ul", {}, ...each, rest > 0 && h("li", {}, plural(rest, "more")))];
}

/** Scrolls the list only, not the notebook around it. */
function scrollWithin(row: HTMLElement): void {
  const list = row.closest<HTMLElement>(".insp-scroll");
  if (!list) return;
  const frame = list.getBoundingClientRect();
  const box = row.getBoundingClientRect();
  const head = row.closest("table")?.tHead?.offsetHeight ?? 0;
  if (box.top < frame.top + head) list.scrollTop -= frame.top + head - box.top;
  else if (box.bottom > frame.bottom) list.scrollTop += box.bottom - frame.bottom;
}

export const pane = (context: Context): Pane => new CollectivesPane(context);
