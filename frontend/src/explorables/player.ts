// The player of a collective at full width: its messages step by step, the cost of each algorithm, and the values on each id.

import { fill, h, update } from "../lib/dom.ts";
import { Switcher } from "../lib/controls.ts";
import { format, formatSeconds, plural } from "../lib/format.ts";
import { secondsOf } from "../lib/linktime.ts";
import type * as messages from "../messages.ts";
import { exchangesOf, Player } from "../panes/exchange.ts";
import { COLORS, groupLabel } from "../panes/mesh.ts";
import type { Synced } from "../state/synced.ts";
import { Asking, sectionOf, titleOf } from "./parts.ts";

const GIGA = 1e9;
const MICRO = 1e-6;
const COST_NOTE =
  "A model: the latency of the hops in sequence, plus the bytes on the busiest link over its speed. The least time is bold. Select a row to play it.";

export function playerView(synced: Synced, root: HTMLElement): () => void {
  const content = synced.latest("player")!;
  const view = new PlayerView(synced, content);
  root.append(...view.elements);
  return () => view.receive();
}

class PlayerView {
  readonly elements: HTMLElement[];
  private readonly player: Player | null;
  private readonly costs = h("tbody", {});
  private readonly values = h("tbody", {});
  private readonly origin = h("div", { class: "insp-dim" });
  private readonly run: Asking<"player_run">;
  private readonly speed = numberField("Link speed in GB/s");
  private readonly latency = numberField("Latency of a hop in µs");
  private network: messages.NetworkMessage | undefined;

  constructor(
    private readonly synced: Synced,
    private readonly content: messages.PlayerMessage,
  ) {
    const exchanges = exchangesOf(content, content.exchanges);
    this.run = new Asking(
      synced,
      "player_run",
      "Run on virtual devices",
      "Runs the collective on virtual CPU devices in another process",
      () => ({ type: "run_player" }),
      (reply) => this.drawValues(reply.before, reply.after, `Measured on ${reply.device_kind}.`),
    );
    this.network = content.networks[0];
    this.player = exchanges.length ? new Player(content, exchanges, () => this.drawCosts()) : null;
    const operand = content.operand ? `operand ${content.operand}, ` : "";
    const groups = content.is_pairs ? plural(content.groups.length, "pair") : groupsText(content.groups);
    const bytes = format(content.array_bytes, "bytes");
    const remark = content.is_pairs ? groups : `${groups}, ${operand}${bytes} in the whole array`;
    this.elements = [
      titleOf(synced.session?.name ?? content.opcode, remark),
      h(
        "div",
        { class: "insp-explorable-columns" },
        h("div", { class: "insp-explorable-main" }, this.player?.element ?? null),
        h("div", { class: "insp-explorable-side" }, this.network ? this.costSection() : null, this.valueSection()),
      ),
    ];
    this.showNetwork();
    this.drawValues(content.before, content.after, "An example, by the definition of the collective.");
    // A page without a notebook kernel shows the run that it contains.
    if (synced.isRecorded) this.run.ask();
  }

  receive(): void {
    this.run.receive();
    this.run.button.hidden = this.synced.isAlone;
  }

  private costSection(): HTMLElement {
    const choices = this.content.networks.map((network) => ({ value: network, text: network.name }));
    const switcher = new Switcher("Links", choices, this.network!, () => {
      this.network = switcher.value;
      this.showNetwork();
    });
    for (const field of [this.speed, this.latency]) field.addEventListener("input", () => this.drawCosts());
    const heads = ["algorithm", "steps", "hops", "sent", "busiest link", "time"];
    return sectionOf(
      "Cost by algorithm",
      h(
        "div",
        { class: "insp-explorable-fields" },
        choices.length > 1 ? switcher.element : h("span", {}, choices[0]!.text),
        h("label", { class: "insp-field" }, this.speed, "GB/s"),
        h("label", { class: "insp-field" }, this.latency, "µs a hop"),
      ),
      h(
        "table",
        { class: "insp-table insp-explorable-table" },
        h(
          "thead",
          {},
          h("tr", {}, ...heads.map((head, i) => h("th", { scope: "col", class: i ? "insp-number" : "" }, head))),
        ),
        this.costs,
      ),
      h("div", { class: "insp-dim" }, COST_NOTE),
    );
  }

  private showNetwork(): void {
    if (!this.network) return;
    this.speed.value = String(this.network.bytes_per_s / GIGA);
    this.latency.value = String(Math.round(this.network.latency_s / MICRO / 1e-3) * 1e-3);
    this.speed.title = this.network.source;
    this.drawCosts();
  }

  private drawCosts(): void {
    if (!this.network || !this.player) return;
    const size = this.content.array_bytes;
    const links = { bytes_per_s: Number(this.speed.value) * GIGA, latency_s: Number(this.latency.value) * MICRO };
    const isKnown = links.bytes_per_s > 0 && links.latency_s >= 0;
    update(this.speed, { "aria-invalid": String(!isKnown) });
    const times = this.network.costs.map((cost) => secondsOf(cost, size, links));
    const least = Math.min(...times);
    const bytes = (share: number): string => format(Math.round(share * size), "bytes");
    fill(
      this.costs,
      ...this.network.costs.map((cost, i) => {
        const { algorithm } = cost;
        const isShown = algorithm === this.player!.algorithm;
        const choose = (): void => this.player!.chooseAlgorithm(algorithm);
        const time = isKnown ? formatSeconds(times[i]!) : "unknown";
        return h(
          "tr",
          { "aria-selected": String(isShown), onclick: choose },
          h(
            "th",
            { scope: "row" },
            h(
              "button",
              { type: "button", class: "insp-link", "aria-pressed": String(isShown), onclick: choose },
              algorithm,
            ),
          ),
          ...[String(cost.steps), String(cost.hops), bytes(cost.sent), bytes(cost.busiest)].map((text) =>
            h("td", { class: "insp-number" }, text),
          ),
          h("td", { class: times[i] === least ? "insp-number insp-explorable-best" : "insp-number" }, time),
        );
      }),
    );
  }

  private valueSection(): HTMLElement {
    return sectionOf(
      "Values",
      h("div", { class: "insp-explorable-fields" }, this.run.button, this.origin),
      this.run.status,
      h(
        "table",
        { class: "insp-table insp-explorable-table" },
        h("thead", {}, h("tr", {}, ...["id", "input", "output"].map((head) => h("th", { scope: "col" }, head)))),
        this.values,
      ),
    );
  }

  private drawValues(before: readonly string[], after: readonly string[], origin: string): void {
    this.origin.textContent = origin;
    const groupOf = new Map(this.content.groups.flatMap((group, i) => group.map((id) => [id, i] as const)));
    fill(
      this.values,
      ...before.map((value, id) => {
        const group = this.content.is_pairs ? undefined : groupOf.get(id);
        const isLabeled = group !== undefined && this.content.groups.length > 1;
        return h(
          "tr",
          { style: group === undefined ? "" : `--group:var(--insp-group-${group % COLORS})` },
          h("th", { scope: "row" }, isLabeled ? `${id} ${groupLabel(group)}` : String(id)),
          h("td", {}, h("code", {}, value)),
          h("td", {}, h("code", {}, after[id] || "takes no part")),
        );
      }),
    );
  }
}

function groupsText(groups: readonly (readonly number[])[]): string {
  return `{${groups.map((group) => `{${group.join(",")}}`).join(",")}}`;
}

function numberField(label: string): HTMLInputElement {
  return h("input", { type: "number", min: 0, step: "any", "aria-label": label });
}
