// The inputs and outputs of a collective on every device, observed in a run on virtual devices.

import { type Choice, segments, textButton } from "../lib/controls.ts";
import { fill, h, update } from "../lib/dom.ts";
import { baseName, plural } from "../lib/format.ts";
import type * as messages from "../messages.ts";
import { goesOn, type Timed } from "../state/synced.ts";
import { COLORS, groupLabel } from "./mesh.ts";
import type { Context } from "./pane.ts";
import { failure, loading } from "./states.ts";
import "../styles/observed.css";

const HOW =
  "Runs the function once on virtual CPU devices in another process and shows the inputs and outputs of its collectives on each device.";

const APART = "Otherwise all replicas receive identical inputs and cannot be told apart.";

export class ObservedView {
  readonly element = h("section", { class: "insp-observed", "aria-label": "Observed values" });
  private readonly run = textButton("Run and observe", HOW, () => this.request());
  private readonly apart = h("input", { type: "checkbox", checked: true });
  private readonly apartField = h(
    "label",
    { class: "insp-field", title: APART },
    this.apart,
    "Add replica number to inputs",
  );
  private readonly kind = h("span", { class: "insp-dim" });
  private readonly body = h("div", { class: "insp-observed-body" });
  private row: messages.CollectiveMessage | null = null;
  private stage: messages.Stage = "hlo";
  private observation: Timed<messages.ObservedMessage> | null = null;
  private execution = 0;

  constructor(private readonly context: Context) {
    const head = h(
      "div",
      { class: "insp-observed-head" },
      h("strong", {}, "Observed values"),
      this.run,
      this.apartField,
      this.kind,
    );
    this.element.append(head, this.body);
  }

  /** Shows a collective. Redraws only if it or its observation has changed. */
  show(row: messages.CollectiveMessage, stage: messages.Stage, mesh: messages.MeshMessage | null): void {
    const { synced, local } = this.context;
    const observation = synced.latest("observed", { variant: local.active });
    update(this.run, { title: synced.remedy || HOW });
    this.run.disabled = synced.isAlone || (observation !== null && goesOn(observation));
    this.run.textContent = observation?.state === "done" ? "Run again" : "Run and observe";
    this.apartField.hidden = synced.isAlone || mesh?.kind !== "replica";
    const isSame = row === this.row && stage === this.stage && observation === this.observation;
    if (isSame && observation) return;
    [this.row, this.stage, this.observation, this.execution] = [row, stage, observation, 0];
    this.kind.textContent = observation?.state === "done" ? `on ${observation.device_kind}, before optimization` : "";
    this.draw();
  }

  private request(): void {
    const variant = this.context.local.active;
    if (variant !== null) this.context.synced.send({ type: "observe", variant, apart: this.apart.checked });
  }

  private draw(): void {
    const { observation, row } = this;
    if (!observation || !row)
      return fill(this.body, h("div", { class: "insp-dim" }, this.context.synced.remedy || HOW));
    if (observation.state === "failed") return fill(this.body, failure(observation.error, "The run failed"));
    if (observation.state === "cancelled") return fill(this.body, h("div", { class: "insp-dim" }, "Stopped."));
    if (goesOn(observation)) {
      const stop = textButton("Stop", "Stop the run", () =>
        this.context.synced.send({ type: "cancel", variant: observation.variant }),
      );
      return fill(this.body, loading("Running on virtual CPU devices", observation, stop));
    }
    const found = observation.items.filter((item) => item[this.stage] === row.name);
    if (!found.length) return fill(this.body, this.absence(observation));
    const most = Math.max(...found.flatMap(({ rows }) => rows.map(({ after }) => after.length)));
    fill(
      this.body,
      most > 1 && this.executions(most),
      ...found.flatMap((item, call) => [
        found.length > 1 && h("div", { class: "insp-dim" }, `call ${call + 1} of ${found.length}`),
        item.rows.length > 0 && this.table(item, row),
        item.note && h("div", { class: "insp-dim" }, item.note),
      ]),
    );
  }

  private executions(most: number): HTMLElement {
    const choices: Choice<number>[] = Array.from({ length: most }, (_, i) => ({ value: i, text: `${i + 1}` }));
    const choose = (execution: number): void => {
      this.execution = execution;
      this.draw();
      this.body.querySelectorAll<HTMLElement>(".insp-segments button")[execution]?.focus();
    };
    return h(
      "div",
      { class: "insp-observed-head" },
      h("span", { class: "insp-dim" }, "Execution"),
      h(
        "div",
        { class: "insp-segments", role: "group", "aria-label": "Execution" },
        ...segments(choices, this.execution, choose),
      ),
    );
  }

  private table(item: messages.ObservationMessage, row: messages.CollectiveMessage): HTMLElement {
    const groups = new Map(row.members.map(({ logical_id: id, group }) => [id, group]));
    const hasPlaces = item.rows.some(({ coordinates }) => Object.keys(coordinates).length > 0);
    const titles = ["device", hasPlaces && "position", "input", "output"].filter(Boolean) as string[];
    const head = h("tr", {}, ...titles.map((title) => h("th", { scope: "col" }, title)));
    const rows = item.rows.map((each) => {
      const group = each.logical_id === null ? null : (groups.get(each.logical_id) ?? null);
      const value = (texts: readonly string[]): HTMLElement =>
        h("td", { class: "insp-observed-value" }, h("code", {}, texts[this.execution] ?? "did not run"));
      return h(
        "tr",
        { style: group === null ? "" : `--group:var(--insp-group-${group % COLORS})` },
        h(
          "th",
          { scope: "row", class: group === null ? "" : "insp-observed-member" },
          each.device === null ? "several" : `${each.device}`,
          group !== null && h("span", { class: "insp-dim", title: `group ${group}` }, ` ${groupLabel(group)}`),
        ),
        hasPlaces && h("td", { class: "insp-dim" }, placeText(each.coordinates)),
        value(each.before),
        value(each.after),
      );
    });
    return h("table", { class: "insp-table insp-observed-table" }, h("thead", {}, head), h("tbody", {}, ...rows));
  }

  /** Explains why there are no values for an instruction that did not run in this form. */
  private absence(observation: messages.ObservedMessage): HTMLElement {
    const named = observation.items.filter(({ hlo }) => hlo);
    const places = observation.items
      .filter(({ hlo }) => !hlo)
      .map(({ primitive, source, unnamed }) => {
        const where = source ? ` in ${baseName(source.file)}:${source.line}` : "";
        return `${primitive}${where}: ${unnamed}`;
      });
    const why =
      this.stage === "optimized" && named.length
        ? `XLA inserted this collective or made it from others. The collectives of the function itself are under HLO: ${named.map(({ hlo }) => hlo).join(", ")}.`
        : `This is not one of the ${plural(observation.items.length, "collective")} that the function calls.`;
    return h("div", { class: "insp-dim" }, [why, ...new Set(places)].join(" "));
  }
}

function placeText(coordinates: Readonly<Record<string, number>>): string {
  return Object.entries(coordinates)
    .map(([axis, at]) => `${axis}=${at}`)
    .join(", ");
}
