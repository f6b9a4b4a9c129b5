// A game: the reader drags mesh axes onto the dimensions of a product. The page computes the memory, and the bytes by the rules of
// sharded products. The compiler judges: it lists the collectives that it inserts.

import { textButton } from "../lib/controls.ts";
import { fill, h, update } from "../lib/dom.ts";
import { format } from "../lib/format.ts";
import { bestPlan, fewestBytes, heldBytes, type Shardings } from "../lib/productcost.ts";
import type * as messages from "../messages.ts";
import type { Synced } from "../state/synced.ts";
import { dragThings } from "./dragging.ts";
import { Asking, sectionOf, titleOf } from "./parts.ts";

const NAMES = ["A", "B", "C"];
const RULES =
  "By the rules of sharded products, of the plan that sends least. Compilers may send more: not all have reduce-scatter, and partitioners do not try all plans.";

export function shardingGameView(synced: Synced, root: HTMLElement): () => void {
  const game = new ShardingGame(synced, synced.latest("sharding_game")!);
  root.append(game.element);
  return () => game.receive();
}

interface Play {
  readonly text: string;
  readonly rules: number;
  readonly held: number;
  /** The compiler's numbers; null in a page without a notebook kernel. */
  readonly judged: messages.Judged | null;
}

class ShardingGame {
  readonly element = h("div", { class: "insp-bench" });
  private readonly board = h("div", { class: "insp-game-board" });
  private readonly axes = h("div", { class: "insp-explorable-fields", role: "group", "aria-label": "Mesh axes" });
  private readonly memory = h("div", { class: "insp-game-memory" });
  private readonly verdict = h("div", { role: "status", class: "insp-game-verdict" });
  private readonly collectives = h("div", {});
  private readonly plays: Play[] = [];
  private readonly history = h("tbody", {});
  private readonly goal = h("span", { role: "status" });
  private readonly judge: Asking<"judged">;
  /** The axes of each dimension of the operands and the result. */
  private arrays: string[][][];

  constructor(
    synced: Synced,
    private readonly game: messages.GameMessage,
  ) {
    this.arrays = [...game.operands, game.result].map((letters) => [...letters].map(() => []));
    this.judge = new Asking(
      synced,
      "judged",
      "Judge",
      "Compiles the product for virtual CPU devices, and lists the collectives",
      () => ({ type: "judge", ...this.shardings }),
      (reply) => this.score(reply),
      () => this.score(null),
    );
    this.judge.button.classList.add("insp-button-main");
    const devices = game.axis_sizes.reduce((a, b) => a * b, 1);
    const heads = ["shardings", "sent", "by the rules", "memory", "fits"];
    dragThings(this.element, (axis, place) => this.place(axis, place));
    this.element.append(
      titleOf(
        `${game.operands.join(",")}->${game.result} on ${devices} devices`,
        `Drag axes onto dimensions. The fewest bytes sent within ${format(game.memory_bytes, "bytes")} of a device win.`,
      ),
      h("div", { class: "insp-explorable-fields" }, h("span", { class: "insp-dim" }, "Mesh axes"), this.axes),
      this.board,
      this.memory,
      h(
        "div",
        { class: "insp-explorable-fields" },
        this.judge.button,
        textButton("Clear", "Removes all axes", () => this.clear()),
        textButton("Show goal", "Computes the fewest bytes of all shardings, by the rules", () => this.showGoal()),
        this.goal,
      ),
      this.judge.status,
      this.verdict,
      this.collectives,
      sectionOf(
        "Your plays",
        h(
          "table",
          { class: "insp-table insp-explorable-table" },
          h(
            "thead",
            {},
            h("tr", {}, ...heads.map((head, i) => h("th", { scope: "col", class: i ? "insp-number" : "" }, head))),
          ),
          this.history,
        ),
      ),
      h("div", { class: "insp-dim" }, RULES),
    );
    fill(
      this.axes,
      ...game.axis_names.map((axis, i) =>
        h(
          "button",
          {
            type: "button",
            class: "insp-button insp-bench-axis",
            "data-thing": axis,
            title: "Drag onto a dimension, or press Enter here and on a dimension",
            "aria-label": `Axis ${axis}, ${game.axis_sizes[i]} devices`,
          },
          `${axis} = ${game.axis_sizes[i]}`,
        ),
      ),
    );
    this.draw();
  }

  receive(): void {
    this.judge.receive();
  }

  private get shardings(): { operands: string[][][]; result: string[][] } {
    return { operands: this.arrays.slice(0, -1), result: this.arrays.at(-1)! };
  }

  /** Places an axis on a dimension, named "array.dimension". An axis shards one dimension of an array at most. */
  private place(axis: string, place: string): void {
    const [array, dimension] = place.split(".").map(Number) as [number, number];
    this.arrays[array] = this.arrays[array]!.map((axes, i) => {
      const others = axes.filter((each) => each !== axis);
      return i === dimension ? [...others, axis] : others;
    });
    this.draw();
  }

  private remove(axis: string, array: number): void {
    this.arrays[array] = this.arrays[array]!.map((axes) => axes.filter((each) => each !== axis));
    this.draw();
  }

  private clear(): void {
    this.arrays = this.arrays.map((axes) => axes.map(() => []));
    this.draw();
  }

  private draw(): void {
    this.verdict.textContent = "";
    fill(this.collectives);
    const all = [...this.game.operands, this.game.result];
    const signs = ["·", "→"];
    fill(
      this.board,
      ...all.flatMap((letters, array) => [
        this.array(letters, array),
        array < signs.length && h("span", { class: "insp-game-sign", "aria-hidden": "true" }, signs[array]!),
      ]),
    );
    const held = heldBytes(this.game, this.shardings);
    const { memory_bytes: limit } = this.game;
    const share = Math.min(1, held / Math.max(held, limit));
    update(this.memory, { class: `insp-game-memory${held > limit ? " insp-game-over" : ""}` });
    fill(
      this.memory,
      h(
        "span",
        {},
        `Parts on a device: ${format(held, "bytes")} of ${format(limit, "bytes")}${held > limit ? ", too much" : ""}`,
      ),
      h("div", {
        class: "insp-game-bar",
        "aria-hidden": "true",
        style: `--share:${share};--limit:${limit / Math.max(held, limit)}`,
      }),
    );
  }

  private array(letters: string, array: number): HTMLElement {
    const name = NAMES[array]!;
    const slots = [...letters].map((letter, dimension) => {
      const axes = this.arrays[array]![dimension]!;
      const label = `${name}, dimension ${letter} of ${this.game.sizes[letter]}: ${axes.join(", ") || "not sharded"}`;
      const chips = axes.map((axis) =>
        h(
          "button",
          {
            type: "button",
            class: "insp-game-chip",
            "aria-label": `Remove ${axis} from ${letter} of ${name}`,
            title: `Remove ${axis}`,
            onclick: () => this.remove(axis, array),
          },
          `${axis} ×`,
        ),
      );
      return h(
        "div",
        { class: "insp-game-slot", "data-place": `${array}.${dimension}` },
        h(
          "button",
          { type: "button", class: "insp-game-letter", "data-place": `${array}.${dimension}`, "aria-label": label },
          h("strong", {}, letter),
          h("span", { class: "insp-dim" }, String(this.game.sizes[letter])),
        ),
        h("div", { class: "insp-game-chips" }, ...chips),
      );
    });
    return h("div", { class: "insp-game-array", role: "group", "aria-label": name }, h("strong", {}, name), ...slots);
  }

  private score(judged: messages.Judged | null): void {
    const shardings: Shardings = this.shardings;
    const plan = bestPlan(this.game, shardings);
    const play = { text: this.text, rules: plan.bytes, held: heldBytes(this.game, shardings), judged };
    const before = this.best();
    this.plays.push(play);
    const fits = this.fits(play);
    const sent = format(this.sent(play), "bytes");
    const isBest = fits && (before === null || this.sent(play) < this.sent(before));
    update(this.verdict, { class: `insp-game-verdict ${fits ? "insp-good" : "insp-bad"}` });
    const whose = judged ? "The compiler sends" : "Without a notebook kernel, by the rules: sends";
    this.verdict.textContent = fits
      ? `${whose} ${sent}${isBest ? ", your best so far." : "."}`
      : `${whose} ${sent}, but a device needs ${format(this.needed(play), "bytes")}: too much.`;
    this.drawCollectives(judged, plan);
    this.drawPlays();
  }

  private get text(): string {
    const one = (letters: string, axes: readonly (readonly string[])[]): string =>
      `[${[...letters].map((letter, i) => `${letter}${axes[i]!.length ? `:${axes[i]!.join("")}` : ""}`).join(", ")}]`;
    const [a, b, c] = [...this.game.operands, this.game.result].map((letters, i) => one(letters, this.arrays[i]!));
    return `A${a} · B${b} → C${c}`;
  }

  private sent({ judged, rules }: Play): number {
    return judged ? judged.sent_bytes : rules;
  }

  /** The peak memory that the compiler reports; without it, the parts of the arrays. */
  private needed({ judged, held }: Play): number {
    return judged?.memory_bytes ?? held;
  }

  private fits(play: Play): boolean {
    return this.needed(play) <= this.game.memory_bytes;
  }

  private best(): Play | null {
    const fitting = this.plays.filter((play) => this.fits(play));
    return fitting.length ? fitting.reduce((a, b) => (this.sent(b) < this.sent(a) ? b : a)) : null;
  }

  private drawCollectives(judged: messages.Judged | null, plan: ReturnType<typeof bestPlan>): void {
    const rows: (readonly [string, string, string, number])[] = judged
      ? judged.collectives.map((each) => [each.opcode, each.axes, each.operand, each.sent_bytes] as const)
      : plan.sent.map((each) => [each.opcode, each.axis, `part of [${each.array}]`, each.bytes] as const);
    if (!rows.length) return fill(this.collectives, h("div", {}, "No collectives."));
    fill(
      this.collectives,
      h(
        "ul",
        { class: "insp-game-list" },
        ...rows.map(([opcode, axes, operand, bytes]) =>
          h(
            "li",
            {},
            h("strong", {}, opcode),
            ` over ${axes}, operand `,
            h("code", {}, operand),
            `: ${format(bytes, "bytes")}`,
          ),
        ),
      ),
    );
  }

  private drawPlays(): void {
    const best = this.best();
    fill(
      this.history,
      ...this.plays.map((play) => {
        const numbers = [
          play.judged ? format(play.judged.sent_bytes, "bytes") : "not judged",
          format(play.rules, "bytes"),
          format(this.needed(play), "bytes"),
          this.fits(play) ? "yes" : "no",
        ];
        return h(
          "tr",
          { class: play === best ? "insp-explorable-best" : "" },
          h("th", { scope: "row" }, h("code", {}, play.text), play === best ? " best" : ""),
          ...numbers.map((text) => h("td", { class: "insp-number" }, text)),
        );
      }),
    );
  }

  private showGoal(): void {
    const fewest = fewestBytes(this.game, this.game.memory_bytes);
    this.goal.textContent =
      fewest === null
        ? "No sharding fits into the memory."
        : `Fewest by the rules, without temporary memory: ${format(fewest, "bytes")}.`;
  }
}
