// The times of the algorithms for a collective over the size of the array, on three networks. The reader predicts the size at
// which another algorithm becomes the fastest, and then sees the times, for any latency.

import { Switcher, textButton } from "../lib/controls.ts";
import { fill, h, svg, update } from "../lib/dom.ts";
import { format, formatRate, formatSeconds } from "../lib/format.ts";
import { regimesOf, secondsOf } from "../lib/linktime.ts";
import type * as messages from "../messages.ts";
import { COLORS } from "../panes/mesh.ts";
import type { Synced } from "../state/synced.ts";
import { titleOf } from "./parts.ts";

const [WIDTH, HEIGHT] = [360, 230];
const [LEFT, RIGHT, TOP, BOTTOM] = [44, 124, 8, 30];
const NAME_PX = 12;
/** Range of the latency slider, as powers of ten of seconds. */
const [LEAST_LATENCY, MOST_LATENCY] = [-8, -4];
/** A prediction within this factor is right. */
const CLOSE = 2;
const DASHES = ["", "6 3", "2 3", "8 3 2 3", "1 2", "12 4"];
const NOTE =
  "A model: the latency of the hops in sequence, plus the bytes on the busiest link over its speed. The size is that of the whole array.";

export function raceView(synced: Synced, root: HTMLElement): null {
  root.append(new Race(synced.latest("race")!).element);
  return null;
}

class Race {
  readonly element = h("div", { class: "insp-bench" });
  private readonly plots = h("div", { class: "insp-race-plots" });
  private readonly latency = h("input", {
    type: "range",
    min: LEAST_LATENCY,
    max: MOST_LATENCY,
    step: 0.05,
    value: -6,
    "aria-label": "Latency of a hop",
  });
  private readonly latencyText = h("span", { class: "insp-race-value" });
  private readonly algorithms = h("div", {
    class: "insp-segments",
    role: "group",
    "aria-label": "Algorithms in the race",
  });
  private readonly excluded = new Set<string>();
  private opcode: string;
  private lanes: Lane[] = [];

  constructor(private readonly content: messages.RaceMessage) {
    this.opcode = content.opcode;
    // At first only the algorithms of all networks race: the others are always the fastest on theirs.
    for (const { networks } of content.tables)
      for (const { algorithm } of networks.flatMap(({ costs }) => costs))
        if (!networks.every(({ costs }) => costs.some((cost) => cost.algorithm === algorithm)))
          this.excluded.add(algorithm);
    const choices = content.tables.map(({ opcode }) => ({ value: opcode, text: opcode }));
    const opcode = new Switcher("Collective", choices, content.opcode, () => this.show(opcode.value));
    this.latency.addEventListener("input", () => this.draw());
    this.element.append(
      titleOf(
        `Race of algorithms among ${content.members} devices`,
        "Predict the size at which another algorithm becomes the fastest, then check.",
      ),
      h(
        "div",
        { class: "insp-explorable-fields" },
        opcode.element,
        this.algorithms,
        h("label", { class: "insp-race-latency" }, "Latency of a hop", this.latency, this.latencyText),
      ),
      this.plots,
      h("div", { class: "insp-dim" }, NOTE),
    );
    this.show(content.opcode);
  }

  private show(opcode: string): void {
    this.opcode = opcode;
    const table = this.content.tables.find((each) => each.opcode === opcode)!;
    const names = [...new Set(table.networks.flatMap(({ costs }) => costs.map(({ algorithm }) => algorithm)))];
    const racing = names.filter((name) => !this.excluded.has(name));
    fill(
      this.algorithms,
      ...names.map((name) => {
        const toggle = (): void => {
          if (!this.excluded.delete(name) && racing.length > 1) this.excluded.add(name);
          this.show(this.opcode);
        };
        const title = `${name}: select to add it to the race or to take it out`;
        const isRacing = racing.includes(name);
        return h(
          "button",
          { type: "button", "aria-pressed": String(isRacing), title, onclick: toggle },
          shortName(name),
        );
      }),
    );
    const hasRacers = ({ costs }: messages.NetworkMessage): boolean =>
      costs.some(({ algorithm }) => racing.includes(algorithm));
    this.lanes = table.networks
      .filter(hasRacers)
      .map(
        (network) =>
          new Lane(
            { ...network, costs: network.costs.filter(({ algorithm }) => racing.includes(algorithm)) },
            this.content,
            names,
          ),
      );
    fill(this.plots, ...this.lanes.map(({ element }) => element));
    this.draw();
  }

  private draw(): void {
    const seconds = 10 ** Number(this.latency.value);
    this.latencyText.textContent = formatSeconds(seconds);
    update(this.latency, { "aria-valuetext": formatSeconds(seconds) });
    this.lanes.forEach((lane) => lane.setLatency(seconds));
  }
}

/** The plot of one network, with the reader's prediction. */
class Lane {
  readonly element: HTMLElement;
  private readonly plot = h("div", {});
  private readonly guess: HTMLInputElement;
  private readonly guessText = h("span", { class: "insp-race-value" });
  private readonly verdict = h("div", { role: "status", class: "insp-race-verdict" });
  private latency = 1e-6;
  private isRevealed = false;

  constructor(
    private readonly network: messages.NetworkMessage,
    private readonly range: Pick<messages.RaceMessage, "smallest_bytes" | "largest_bytes">,
    /** All algorithms, whose order gives their colors and dashes. */
    private readonly names: readonly string[],
  ) {
    const [low, high] = [Math.log2(range.smallest_bytes), Math.log2(range.largest_bytes)];
    const label = `Predicted size on the ${network.name}`;
    this.guess = h("input", {
      type: "range",
      min: low,
      max: high,
      step: 1,
      value: (low + high) / 2,
      "aria-label": label,
    });
    this.guess.addEventListener("input", () => this.draw());
    const buttons = [
      textButton("Check", `Compares the predicted size on the ${network.name}`, () => this.check(false)),
      textButton("No change", "Predicts that one algorithm is the fastest for all sizes", () => this.check(true)),
    ];
    this.element = h(
      "section",
      { "aria-label": network.name },
      h("h3", { title: network.source }, `${network.name}, ${formatRate(network.bytes_per_s, "B/s")} a link`),
      this.plot,
      h("label", { class: "insp-explorable-fields" }, "Change at", this.guess, this.guessText),
      h("div", { class: "insp-explorable-fields" }, ...buttons),
      this.verdict,
    );
  }

  setLatency(seconds: number): void {
    this.latency = seconds;
    this.draw();
    if (this.isRevealed) this.tell("");
  }

  private get links(): { bytes_per_s: number; latency_s: number } {
    return { bytes_per_s: this.network.bytes_per_s, latency_s: this.latency };
  }

  private get regimes(): ReturnType<typeof regimesOf> {
    return regimesOf(this.network.costs, this.links, this.range.smallest_bytes, this.range.largest_bytes);
  }

  private number(cost: messages.AlgorithmCostMessage): number {
    return this.names.indexOf(cost.algorithm);
  }

  private check(predictsNone: boolean): void {
    const changes = this.regimes.slice(1).map(({ from }) => from);
    const guessed = 2 ** Number(this.guess.value);
    const factor = Math.min(...changes.map((from) => Math.max(from / guessed, guessed / from)));
    const isRight = predictsNone ? !changes.length : factor <= CLOSE;
    const off = Number.isFinite(factor) ? ` You are off by a factor of ${factor.toPrecision(2)}.` : "";
    this.isRevealed = true;
    update(this.verdict, { class: `insp-race-verdict ${isRight ? "insp-good" : "insp-bad"}` });
    this.tell(isRight ? "Right. " : `Not yet.${predictsNone ? "" : off} `);
    this.draw();
  }

  private tell(verdict: string): void {
    if (!verdict) update(this.verdict, { class: "insp-race-verdict" });
    const [first, ...rest] = this.regimes;
    const later = rest.map(({ cost, from }) => `from ${format(Math.round(from), "bytes")}: ${cost.algorithm}`);
    const fastest = later.length
      ? [first!.cost.algorithm, ...later].join("; ")
      : `${first!.cost.algorithm}, at all sizes`;
    this.verdict.textContent = `${verdict}Fastest: ${fastest}.`;
  }

  private draw(): void {
    const guessed = 2 ** Number(this.guess.value);
    this.guessText.textContent = format(guessed, "bytes");
    update(this.guess, { "aria-valuetext": format(guessed, "bytes") });
    const { smallest_bytes: low, largest_bytes: high } = this.range;
    const { costs } = this.network;
    const all = costs.flatMap((cost) => [secondsOf(cost, low, this.links), secondsOf(cost, high, this.links)]);
    const [least, most] = [Math.min(...all), Math.max(...all)];
    const x = (size: number): number => LEFT + (Math.log(size / low) / Math.log(high / low)) * (WIDTH - LEFT - RIGHT);
    const y = (time: number): number =>
      HEIGHT - BOTTOM - (Math.log(time / least) / Math.log(most / least)) * (HEIGHT - TOP - BOTTOM);
    const told = this.isRevealed ? this.verdict.textContent : "The times are hidden until you check a prediction.";
    const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": told ?? "" });
    drawing.append(...axes(low, high, least, most, x, y));
    if (this.isRevealed) drawing.append(...this.curves(x, y));
    else
      drawing.append(
        svg("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT / 2, "text-anchor": "middle" }, "Predict, then check"),
      );
    drawing.append(
      svg("line", { class: "insp-race-guess", x1: x(guessed), x2: x(guessed), y1: TOP, y2: HEIGHT - BOTTOM }),
    );
    fill(this.plot, drawing);
  }

  private curves(x: (size: number) => number, y: (time: number) => number): SVGElement[] {
    const { smallest_bytes: low, largest_bytes: high } = this.range;
    const sizes = Array.from({ length: 61 }, (_, i) => low * (high / low) ** (i / 60));
    const time = (cost: messages.AlgorithmCostMessage, size: number): number => secondsOf(cost, size, this.links);
    const path = (cost: messages.AlgorithmCostMessage, from = low, to = high): string =>
      [from, ...sizes.filter((size) => size > from && size < to), to]
        .map((size, i) => `${i ? "L" : "M"}${x(size).toFixed(1)} ${y(time(cost, size)).toFixed(1)}`)
        .join("");
    const { costs } = this.network;
    const style = (cost: messages.AlgorithmCostMessage): string =>
      `--line:var(--insp-group-${this.number(cost) % COLORS});stroke-dasharray:${DASHES[this.number(cost) % DASHES.length] || "none"}`;
    const lines = costs.map((cost) =>
      svg("path", { class: "insp-race-line", style: style(cost), d: path(cost) }, svg("title", {}, cost.algorithm)),
    );
    const { regimes } = this;
    const fastest = regimes.map(({ cost, from }, i) =>
      svg("path", {
        class: "insp-race-line insp-race-fastest",
        style: `--line:var(--insp-group-${this.number(cost) % COLORS})`,
        d: path(cost, from, regimes[i + 1]?.from ?? high),
      }),
    );
    const changes = regimes
      .slice(1)
      .map(({ cost, from }) =>
        svg("circle", { class: "insp-race-change", cx: x(from), cy: y(time(cost, from)), r: 4 }),
      );
    return [...fastest, ...lines, ...changes, ...this.labels(costs, (cost) => y(time(cost, high)), style)];
  }

  /** The names at the ends of the lines, apart from each other, each with a piece of its line. */
  private labels(
    costs: readonly messages.AlgorithmCostMessage[],
    end: (cost: messages.AlgorithmCostMessage) => number,
    style: (cost: messages.AlgorithmCostMessage) => string,
  ): SVGElement[] {
    const sorted = [...costs].sort((a, b) => end(a) - end(b));
    const places: number[] = [];
    for (const cost of sorted) places.push(Math.max(end(cost), (places.at(-1) ?? -Infinity) + NAME_PX));
    return sorted.flatMap((cost, i) => {
      const at = places[i]!;
      const begin = WIDTH - RIGHT;
      return [
        svg("path", { class: "insp-race-line", style: style(cost), d: `M${begin} ${end(cost)}L${begin + 5} ${at}h10` }),
        svg("text", { class: "insp-race-name", x: begin + 18, y: at + 3.5 }, shortName(cost.algorithm)),
      ];
    });
  }
}

function axes(
  low: number,
  high: number,
  least: number,
  most: number,
  x: (size: number) => number,
  y: (time: number) => number,
): SVGElement[] {
  const sizes = [low, 1 << 10, 1 << 20, high].filter(
    (size, i, all) => size >= low && size <= high && all.indexOf(size) === i,
  );
  const powers = Array.from({ length: 20 }, (_, i) => i - 12).filter((p) => 10 ** p >= least && 10 ** p <= most);
  const step = Math.ceil(powers.length / 5);
  return [
    svg("path", { class: "insp-race-axis", fill: "none", d: `M${LEFT} ${TOP}V${HEIGHT - BOTTOM}H${WIDTH - RIGHT}` }),
    ...sizes.slice(1).flatMap((size) => [
      svg("line", {
        class: "insp-race-axis",
        x1: x(size),
        x2: x(size),
        y1: HEIGHT - BOTTOM,
        y2: HEIGHT - BOTTOM + 4,
      }),
      svg("text", { x: x(size), y: HEIGHT - BOTTOM + 15, "text-anchor": "middle" }, format(size, "bytes")),
    ]),
    ...powers
      .filter((_, i) => i % step === 0)
      .flatMap((power) => [
        svg("line", { class: "insp-race-axis", x1: LEFT, x2: WIDTH - RIGHT, y1: y(10 ** power), y2: y(10 ** power) }),
        svg("text", { x: LEFT - 5, y: y(10 ** power) + 3.5, "text-anchor": "end" }, formatSeconds(10 ** power)),
      ]),
    svg("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 3, "text-anchor": "middle" }, "size of the array"),
  ];
}

function shortName(algorithm: string): string {
  return algorithm.startsWith("reduction") ? "in switches" : algorithm;
}
