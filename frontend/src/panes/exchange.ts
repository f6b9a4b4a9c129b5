// A step-by-step player of a textbook algorithm for one group of a collective: the blocks of each member, and the
// messages between them.

import { segments, Switcher } from "../lib/controls.ts";
import { fill, h, svg, update } from "../lib/dom.ts";
import { blockName, columnOf, type MemberBlocks, permutation, statesOf } from "../lib/exchange.ts";
import { plural } from "../lib/format.ts";
import type * as messages from "../messages.ts";
import { groupLabel } from "./mesh.ts";

const COLORS = 8;
const CELL = 30;
const WIDE = CELL + 4;
const LEFT = 64;
const ROW = CELL + 8;
const MOST_PERMUTED = 16;
const STEP_MS = 1400;
const SPEEDS = [0.5, 1, 2];
const NOTE =
  "A textbook algorithm. Runtimes do not document which algorithm they use; all of them produce the same values.";

/** The part of a collective that can be played. */
type Playable = Pick<messages.CollectiveMessage, "opcode" | "groups" | "is_pairs">;

/** Returns the player of a collective, or an empty list if no textbook algorithm applies. */
export function exchangePlayer(
  row: messages.CollectiveMessage,
  known: readonly messages.ExchangeMessage[],
): HTMLElement[] {
  if (row.groups_cut || !row.groups.length) return [];
  const own = exchangesOf(row, known);
  return own.length ? [new Player(row, own).element] : [];
}

/** Returns the algorithms for a collective. */
export function exchangesOf(row: Playable, known: readonly messages.ExchangeMessage[]): messages.ExchangeMessage[] {
  if (!row.is_pairs)
    return known.filter(({ opcode, members }) => opcode === row.opcode && members === row.groups[0]!.length);
  const count = 1 + Math.max(...row.groups.flat());
  return count > MOST_PERMUTED ? [] : [permutation(row.groups, count)];
}

export class Player {
  readonly element = h("div", { class: "insp-exchange", role: "group", "aria-label": "Textbook algorithm" });
  private readonly choices = h("div", { class: "insp-exchange-choices" });
  private readonly start = button("Start", "Back to the beginning", () => this.stop(0, false));
  private readonly back = button("Back", "One step back", () => this.stop(this.step - 1, false));
  private readonly playing = button("Play", "Play all steps", () => (this.timer ? this.pause() : this.play()));
  private readonly forward = button("Step", "One step forward", () => this.stop(this.step + 1, true));
  private readonly all = button("Frames", "All steps below each other, also for printing", () => this.toggleFrames());
  private readonly position = h("strong", { class: "insp-exchange-position" });
  private readonly said = h("div", { class: "insp-exchange-said" });
  private readonly spoken = h("div", { class: "insp-exchange-spoken", "aria-live": "polite" });
  private readonly picture = h("div", {
    class: "insp-exchange-picture insp-scroll",
    tabindex: 0,
    role: "group",
    "aria-label": "Blocks. Arrow keys step",
  });
  private readonly frames = h("div", { class: "insp-exchange-frames", hidden: true });
  private exchange: messages.ExchangeMessage;
  private states: MemberBlocks[][] = [];
  private ids: readonly number[] = [];
  private group = 0;
  private step = 0;
  private speed = 1;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly row: Playable,
    private readonly exchanges: readonly messages.ExchangeMessage[],
    private readonly onAlgorithm: (algorithm: string) => void = () => {},
  ) {
    this.exchange = exchanges[0]!;
    const note = h("div", { class: "insp-dim insp-exchange-note" }, NOTE);
    const speeds = SPEEDS.map((value) => ({ value, text: value === 0.5 ? "Slow" : value === 1 ? "Normal" : "Fast" }));
    const speed = new Switcher("Speed", speeds, 1, () => (this.speed = speed.value));
    const buttons = h(
      "div",
      { class: "insp-exchange-buttons" },
      this.playing,
      this.start,
      this.back,
      this.forward,
      this.position,
      labeled("Speed", speed.element),
      this.all,
    );
    this.playing.classList.add("insp-button-main");
    this.picture.addEventListener("keydown", (e) => this.key(e));
    this.element.append(this.choices, buttons, this.said, this.spoken, this.picture, this.frames, note);
    this.choose(this.exchange, 0);
  }

  get algorithm(): string {
    return this.exchange.algorithm;
  }

  /** Shows another algorithm; does nothing if there is none of that name. */
  chooseAlgorithm(name: string): void {
    const found = this.exchanges.find(({ algorithm }) => algorithm === name);
    if (found && found !== this.exchange) this.choose(found, this.group);
  }

  private choose(exchange: messages.ExchangeMessage, group: number): void {
    this.pause();
    [this.exchange, this.group, this.step] = [exchange, group, 0];
    this.states = statesOf(exchange);
    this.ids = this.row.is_pairs ? this.states[0]!.map((_, id) => id) : this.row.groups[group]!;
    this.drawChoices();
    // All texts are in one cell of a grid, so that the longest one reserves its space and the picture stays in place.
    fill(this.said, ...this.states.map((_, step) => h("div", {}, this.words(step))));
    if (!this.frames.hidden) this.drawFrames();
    this.draw(false);
    this.onAlgorithm(exchange.algorithm);
  }

  private go(step: number, isMoving: boolean): void {
    this.step = Math.max(0, Math.min(this.exchange.steps.length, step));
    this.draw(isMoving);
  }

  private stop(step: number, isMoving: boolean): void {
    this.pause();
    if (step >= 0 && step <= this.exchange.steps.length && step !== this.step) this.go(step, isMoving);
  }

  private play(): void {
    if (this.step === this.exchange.steps.length) this.go(0, false);
    const next = (): void => {
      if (!this.element.isConnected || this.step === this.exchange.steps.length) return this.pause();
      this.timer = setTimeout(next, STEP_MS / this.speed);
      this.go(this.step + 1, true);
    };
    next();
  }

  private pause(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.drawButtons();
  }

  private key(e: KeyboardEvent): void {
    const step = { ArrowRight: this.step + 1, ArrowLeft: this.step - 1, Home: 0, End: this.exchange.steps.length }[
      e.key
    ];
    if (step === undefined) return;
    e.preventDefault();
    this.stop(step, e.key === "ArrowRight");
  }

  private draw(isMoving: boolean): void {
    this.drawButtons();
    [...this.said.children].forEach((text, step) => text.classList.toggle("insp-exchange-now", step === this.step));
    this.spoken.textContent = `Step ${this.step} of ${this.exchange.steps.length}. ${this.words(this.step)}`;
    const { scrollLeft } = this.picture;
    fill(this.picture, this.drawing(this.step, isMoving));
    this.picture.scrollLeft = scrollLeft;
  }

  private drawChoices(): void {
    const groups = this.row.is_pairs
      ? []
      : this.row.groups.slice(0, 8).map((_, i) => ({ value: i, text: `${i} (${groupLabel(i)})` }));
    fill(
      this.choices,
      this.exchanges.length > 1 && this.algorithms(),
      groups.length > 1 &&
        labeled(
          "Group",
          h(
            "div",
            { class: "insp-segments", role: "group", "aria-label": "Group" },
            ...segments(groups, this.group, (g) => this.choose(this.exchange, g)),
          ),
        ),
    );
  }

  private algorithms(): HTMLElement {
    const options = this.exchanges.map((exchange, i) =>
      h("option", { value: i, selected: exchange === this.exchange }, exchange.algorithm),
    );
    const select = h("select", { class: "insp-select", "aria-label": "Algorithm" }, ...options);
    select.addEventListener("change", () => this.choose(this.exchanges[select.selectedIndex]!, this.group));
    return h("label", { class: "insp-field" }, "Algorithm", select);
  }

  /** Buttons without an effect are marked only: a disabled button would lose the keyboard focus. */
  private drawButtons(): void {
    const last = this.exchange.steps.length;
    const isPlaying = this.timer !== undefined;
    if (this.playing.textContent !== (isPlaying ? "Pause" : "Play")) {
      this.playing.textContent = isPlaying ? "Pause" : "Play";
      this.playing.title = isPlaying ? "Pause" : "Play all steps";
    }
    update(this.start, { "aria-disabled": String(!this.step) });
    update(this.back, { "aria-disabled": String(!this.step) });
    update(this.forward, { "aria-disabled": String(this.step === last) });
    this.position.textContent = `Step ${this.step} of ${last}`;
  }

  private toggleFrames(): void {
    this.frames.hidden = !this.frames.hidden;
    update(this.all, { "aria-pressed": String(!this.frames.hidden) });
    if (!this.frames.hidden) this.drawFrames();
  }

  private drawFrames(): void {
    fill(
      this.frames,
      ...this.states.map((_, step) =>
        h(
          "figure",
          {},
          this.drawing(step, false),
          h("figcaption", {}, h("strong", {}, `Step ${step}. `), this.words(step)),
        ),
      ),
    );
  }

  private words(number: number): string {
    const step = this.exchange.steps[number - 1];
    if (!step) return "Before the first step: the inputs.";
    const some = step.slice(0, 4).map(({ sender, receiver, blocks, adds }) => {
      const named = blocks.slice(0, 4).map((block) => blockName(this.exchange, block, this.ids));
      const rest = blocks.length > 4 ? ` and ${blocks.length - 4} more` : "";
      const many = blocks.length > 1 ? "blocks" : "block";
      const added = adds ? `, which adds ${blocks.length > 1 ? "them" : "it"}` : "";
      return `id ${this.ids[sender]} sends ${many} ${named.join(", ")}${rest} to id ${this.ids[receiver]}${added}`;
    });
    return `${some.join("; ")}${step.length > 4 ? `; ${plural(step.length - 4, "more message")}` : ""}.`;
  }

  private drawing(step: number, isMoving: boolean): SVGElement {
    const held = this.states[step]!;
    const ends = this.states
      .flat()
      .flatMap((one) => [...one.keys()].map((block) => columnOf(this.exchange, one, block)));
    const columns = 1 + Math.max(0, ...ends);
    const width = LEFT + columns * WIDE + 8;
    const height = held.length * ROW + 4;
    const drawing = svg("svg", {
      class: "insp-exchange-svg",
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      style: `--width:${width}px`,
      role: "img",
      "aria-label": this.words(step),
    });
    held.forEach((_, member) => {
      drawing.append(
        svg(
          "text",
          { class: "insp-exchange-member", x: LEFT - 10, y: this.y(member) + CELL / 2 + 4 },
          `id ${this.ids[member]}`,
        ),
      );
      for (let column = 0; column < columns; column++) drawing.append(this.slot(member, column));
    });
    const blocks = held.flatMap((one, member) =>
      [...one].map(([block, sources]) => this.block(step, member, block, sources)),
    );
    if (step) drawing.append(...this.arrows(step));
    drawing.append(...blocks);
    if (isMoving && !matchMedia("(prefers-reduced-motion: reduce)").matches) drawing.append(...this.moving());
    return drawing;
  }

  private slot(member: number, column: number): SVGElement {
    return svg("rect", {
      class: "insp-exchange-slot",
      x: LEFT + column * WIDE,
      y: this.y(member),
      width: CELL,
      height: CELL,
      rx: 3,
    });
  }

  /** Draws a block: a stripe for each member whose values it contains, its name, and its source or their number. */
  private block(step: number, member: number, block: number, sources: readonly number[]): SVGElement {
    const name = blockName(this.exchange, block, this.ids);
    const from = sources.map((source) => this.ids[source]);
    const title = `block ${name} of ${from.length > 1 ? `the sum of ids ${from.join(", ")}` : `id ${from[0]}`}`;
    return svg(
      "g",
      { class: "insp-exchange-block", transform: `translate(${this.x(step, member, block)} ${this.y(member)})` },
      svg("title", {}, title),
      ...sources.map((source, i) =>
        svg("rect", {
          class: "insp-exchange-stripe",
          style: `--group:var(--insp-group-${source % COLORS})`,
          x: (i * CELL) / sources.length,
          y: 0,
          width: CELL / sources.length,
          height: CELL,
        }),
      ),
      svg("text", { x: CELL / 2, y: 11 }, name),
      svg(
        "text",
        { class: "insp-exchange-from", x: CELL / 2, y: 22 },
        from.length > 1 ? `Σ${from.length}` : `of ${from[0]}`,
      ),
    );
  }

  private arrows(step: number): SVGElement[] {
    return this.exchange.steps[step - 1]!.flatMap(({ sender, receiver, blocks }) =>
      sender === receiver
        ? []
        : blocks.map((block) => {
            const [x0, y0] = [this.x(step - 1, sender, block) + CELL / 2, this.middle(sender)];
            const [x1, y1] = [this.x(step, receiver, block) + CELL / 2, this.middle(receiver)];
            const down = y1 > y0 ? 1 : -1;
            const tip = y1 - (down * CELL) / 2;
            const bend = (x0 + x1) / 2 + down * CELL * 0.9;
            const d = `M${x0} ${y0}Q${bend} ${(y0 + y1) / 2} ${x1} ${tip}m-4 ${-5 * down}l4 ${5 * down}l4 ${-5 * down}`;
            return svg("path", { class: "insp-exchange-arrow", d });
          }),
    );
  }

  /** Animates the blocks that were sent in the last step. */
  private moving(): SVGElement[] {
    const before = this.states[this.step - 1]!;
    return this.exchange.steps[this.step - 1]!.flatMap(({ sender, receiver, blocks }) =>
      blocks.map((block) => {
        const chunk = this.block(this.step - 1, sender, block, before[sender]!.get(block) ?? []);
        const at = (x: number, member: number): Keyframe => ({ transform: `translate(${x}px, ${this.y(member)}px)` });
        chunk.classList.add("insp-exchange-moving");
        chunk.animate(
          [at(this.x(this.step - 1, sender, block), sender), at(this.x(this.step, receiver, block), receiver)],
          { duration: (STEP_MS * 0.75) / this.speed, easing: "ease-in-out" },
        ).onfinish = () => chunk.remove();
        return chunk;
      }),
    );
  }

  private x(step: number, member: number, block: number): number {
    return LEFT + columnOf(this.exchange, this.states[step]![member]!, block) * WIDE;
  }

  private y(member: number): number {
    return member * ROW + 2;
  }

  private middle(member: number): number {
    return this.y(member) + CELL / 2;
  }
}

function labeled(label: string, element: HTMLElement): HTMLElement {
  return h("div", { class: "insp-exchange-choice" }, h("span", { class: "insp-dim" }, label), element);
}

function button(text: string, label: string, onclick: () => void): HTMLButtonElement {
  return h("button", { type: "button", class: "insp-button", title: label, onclick }, text);
}
