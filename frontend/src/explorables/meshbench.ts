// A mesh over the chips of a slice. The reader orders the axes, places the chips, predicts the group of an id, and compares the
// prediction with the groups, their notation in HLO, and the links between the chips.

import { parseAxes, groupsOver } from "../lib/axisenv.ts";
import { textButton } from "../lib/controls.ts";
import { fill, h, update } from "../lib/dom.ts";
import { format, plural } from "../lib/format.ts";
import { iotaText } from "../lib/iota.ts";
import { coordinatesOf } from "../lib/meshgrid.ts";
import { linksOf, loadsOf, placeOfDevice, type Slice } from "../lib/torusroutes.ts";
import type * as messages from "../messages.ts";
import { COLORS, groupLabel } from "../panes/mesh.ts";
import { networkDrawing } from "../panes/network.ts";
import type { Synced } from "../state/synced.ts";
import { dragThings } from "./dragging.ts";
import { Asking, sectionOf, titleOf } from "./parts.ts";

const MOST_DEVICES = 32;
const MESSAGE_BYTES = 1 << 20;
const SLICES: Record<number, readonly [number, number]> = { 2: [2, 1], 4: [2, 2], 8: [4, 2], 16: [4, 4], 32: [8, 4] };

export function meshBenchView(synced: Synced, root: HTMLElement): () => void {
  const view = new MeshBench(synced, synced.latest("mesh_bench")!);
  root.append(view.element);
  return () => view.receive();
}

class MeshBench {
  readonly element = h("div", { class: "insp-bench" });
  private readonly title = h("div", {});
  private readonly axes = h("div", {
    class: "insp-explorable-fields",
    role: "group",
    "aria-label": "Order of the axes",
  });
  private readonly field = h("input", { type: "text", spellcheck: false, "aria-label": "Axis sizes" });
  private readonly fieldStatus = h("span", { class: "insp-bad", role: "status" });
  private readonly uses = h("div", { class: "insp-segments", role: "group", "aria-label": "Axes of the collective" });
  private readonly grid = h("div", { class: "insp-scroll" });
  private readonly question = h("div", { class: "insp-bench-question" });
  private readonly verdict = h("div", { role: "status", class: "insp-bench-verdict" });
  private readonly facts = h("div", { class: "insp-bench-facts" });
  private readonly picture = h("div", { class: "insp-scroll insp-bench-chips" });
  private readonly proof = h("div", {});
  private readonly reveal = textButton("Reveal groups", "Shows the groups, their notation in HLO and the links", () => {
    this.isRevealed = !this.isRevealed;
    this.draw();
  });
  private readonly run: Asking<"mesh_run">;
  private names: string[];
  private sizes: number[];
  private over: string[];
  private slice: Slice;
  /** The device of each logical id. */
  private devices: number[];
  private asked: number;
  private readonly chosen = new Set<number>();
  private isRevealed = false;

  constructor(synced: Synced, content: messages.MeshBenchMessage) {
    [this.names, this.sizes] = [[...content.axis_names], [...content.axis_sizes]];
    this.over = [...content.over];
    this.slice = content;
    this.devices = [...content.devices];
    this.asked = this.count > 5 ? 5 : 1;
    this.run = new Asking(
      synced,
      "mesh_run",
      "Run on virtual devices",
      "Compiles and runs a psum over these axes on virtual CPU devices",
      () => ({ type: "run_mesh", axis_names: this.names, axis_sizes: this.sizes, over: this.over }),
      (reply) => this.drawProof(reply),
    );
    this.field.addEventListener("change", () => this.setAxes());
    const another = textButton("Another id", "Asks for the group of another id", () => {
      this.asked = (this.asked * 5 + 3) % this.count;
      this.restart();
    });
    this.element.append(
      this.title,
      h(
        "div",
        { class: "insp-explorable-fields" },
        h("span", { class: "insp-dim" }, "Axes, drag to reorder"),
        this.axes,
        h("label", { class: "insp-field" }, "Sizes", this.field),
        h("span", { class: "insp-dim" }, "Collective over"),
        this.uses,
        this.fieldStatus,
      ),
      h(
        "div",
        { class: "insp-explorable-columns" },
        h(
          "div",
          { class: "insp-explorable-main" },
          sectionOf(
            "Mesh of logical ids",
            this.question,
            this.grid,
            h(
              "div",
              { class: "insp-explorable-fields insp-bench-buttons" },
              textButton("Check", "Compares your ids with the group", () => this.check()),
              another,
              this.reveal,
            ),
            this.verdict,
          ),
        ),
        h(
          "div",
          { class: "insp-explorable-side" },
          sectionOf("Chips of the slice, drag to swap", this.picture),
          this.facts,
        ),
      ),
    );
    this.element.append(
      sectionOf("Proof", h("div", { class: "insp-explorable-fields" }, this.run.button), this.run.status, this.proof),
    );
    dragThings(this.axes, (axis, place) => this.moveAxis(axis, place));
    dragThings(this.picture, (chip, place) => this.swap(Number(chip), Number(place)));
    this.restart();
  }

  receive(): void {
    this.run.receive();
  }

  private get count(): number {
    return this.sizes.reduce((a, b) => a * b, 1);
  }

  private get mesh(): messages.MeshMessage {
    return { axis_names: this.names, axis_sizes: this.sizes, kind: "replica", device_ids: null, physical_ids: null };
  }

  private get groups(): number[][] {
    return groupsOver(this.mesh, this.over);
  }

  /** Begins a new prediction. */
  private restart(): void {
    this.chosen.clear();
    this.chosen.add(this.asked);
    this.verdict.textContent = "";
    fill(this.proof);
    this.draw();
  }

  private draw(): void {
    const axes = this.names.map((name, i) => `${name} = ${this.sizes[i]}`).join(", ");
    fill(
      this.title,
      titleOf(`Mesh of ${axes}`, "Predict who is in a group before you reveal it. The last axis varies fastest."),
    );
    this.drawAxes();
    fill(
      this.question,
      "Which ids are in the group of ",
      h("strong", {}, `id ${this.asked}`),
      `, for a collective over ${this.over.join(" and ")}? Select them.`,
    );
    update(this.reveal, { "aria-pressed": String(this.isRevealed) });
    this.drawGrid();
    this.drawChips();
  }

  private drawAxes(): void {
    fill(
      this.axes,
      ...this.names.map((name, i) => {
        const chip = h(
          "button",
          {
            type: "button",
            class: "insp-button insp-bench-axis",
            "data-thing": name,
            "data-place": name,
            title: "Drag, or press the left and right arrow keys",
            "aria-label": `Axis ${name}, position ${i + 1} of ${this.names.length}`,
          },
          `${name} = ${this.sizes[i]}`,
        );
        chip.addEventListener("keydown", (e) => {
          const step = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
          const other = this.names[i + (step ?? 0)];
          if (!step || other === undefined) return;
          e.preventDefault();
          this.moveAxis(name, other);
          this.axes.querySelector<HTMLElement>(`[data-thing="${CSS.escape(name)}"]`)?.focus();
        });
        return chip;
      }),
    );
    if (document.activeElement !== this.field)
      this.field.value = this.names.map((n, i) => `${n}=${this.sizes[i]}`).join(", ");
    fill(
      this.uses,
      ...this.names.map((name) =>
        h(
          "button",
          { type: "button", "aria-pressed": String(this.over.includes(name)), onclick: () => this.toggle(name) },
          name,
        ),
      ),
    );
  }

  private moveAxis(axis: string, to: string): void {
    const target = this.names.indexOf(to);
    const from = this.names.indexOf(axis);
    const size = this.sizes[from]!;
    this.names.splice(from, 1);
    this.sizes.splice(from, 1);
    this.names.splice(target, 0, axis);
    this.sizes.splice(target, 0, size);
    this.restart();
  }

  private toggle(axis: string): void {
    const isUsed = this.over.includes(axis);
    if (isUsed && this.over.length === 1) return;
    this.over = isUsed
      ? this.over.filter((each) => each !== axis)
      : this.names.filter((n) => n === axis || this.over.includes(n));
    this.restart();
  }

  private setAxes(): void {
    const mesh = parseAxes(this.field.value);
    const count = typeof mesh === "string" ? 0 : mesh.axis_sizes.reduce((a, b) => a * b, 1);
    const isWrong = typeof mesh === "string" || count < 2 || count > MOST_DEVICES || mesh.axis_names.length > 4;
    update(this.field, { "aria-invalid": String(isWrong) });
    this.fieldStatus.textContent =
      typeof mesh === "string" ? mesh : isWrong ? `Expected 1 to 4 axes with 2 to ${MOST_DEVICES} ids.` : "";
    if (isWrong || typeof mesh === "string") return;
    if (count !== this.count) {
      this.slice = { shape: SLICES[count] ?? [count, 1], wraps: [false, false] };
      this.devices = Array.from({ length: count }, (_, id) => id);
    }
    [this.names, this.sizes] = [mesh.axis_names, mesh.axis_sizes];
    this.over = this.over.filter((axis) => this.names.includes(axis));
    if (!this.over.length) this.over = [this.names[0]!];
    this.asked %= this.count;
    this.restart();
  }

  private drawGrid(): void {
    const last = this.sizes.at(-1)!;
    const groupOf = new Map(this.groups.flatMap((group, i) => group.map((id) => [id, i] as const)));
    const head = Array.from({ length: last }, (_, i) => h("th", { scope: "col" }, `${this.names.at(-1)}=${i}`));
    const rows = Array.from({ length: this.count / last }, (_, row) => {
      const at = coordinatesOf(row, this.sizes.slice(0, -1));
      const label = at.map((index, axis) => `${this.names[axis]}=${index}`).join(", ");
      const cells = Array.from({ length: last }, (_, i) => this.cell(row * last + i, groupOf.get(row * last + i)!));
      return h("tr", {}, this.names.length > 1 && h("th", { scope: "row" }, label), ...cells);
    });
    fill(
      this.grid,
      h(
        "table",
        { class: "insp-bench-mesh" },
        h("thead", {}, h("tr", {}, this.names.length > 1 && h("td", {}), ...head)),
        h("tbody", {}, ...rows),
      ),
    );
  }

  private cell(id: number, group: number): HTMLElement {
    const isChosen = this.chosen.has(id);
    const label = this.isRevealed ? groupLabel(group) : "";
    const choose = (): void => {
      if (id === this.asked) return;
      if (!this.chosen.delete(id)) this.chosen.add(id);
      this.verdict.textContent = "";
      this.drawGrid();
    };
    return h(
      "td",
      {},
      h(
        "button",
        {
          type: "button",
          class: `insp-bench-id${this.isRevealed ? " insp-bench-grouped" : ""}`,
          style: `--group:var(--insp-group-${group % COLORS})`,
          "aria-pressed": String(isChosen),
          "aria-label": `id ${id}${label && `, group ${label}`}`,
          onclick: choose,
        },
        h("span", {}, String(id)),
        h("span", { class: "insp-bench-label" }, `${label}${isChosen ? " ✓" : ""}`),
      ),
    );
  }

  private check(): void {
    const group = this.groups.find((each) => each.includes(this.asked))!;
    const missing = group.filter((id) => !this.chosen.has(id)).length;
    const wrong = [...this.chosen].filter((id) => !group.includes(id));
    const isRight = !missing && !wrong.length;
    update(this.verdict, { class: `insp-bench-verdict ${isRight ? "insp-good" : "insp-bad"}` });
    const fixed = this.names.filter((axis) => !this.over.includes(axis));
    const rule = fixed.length
      ? `Members of a group differ along ${this.over.join(" and ")} only, and agree in ${fixed.join(" and ")}.`
      : "All axes vary, so all ids are in one group.";
    if (isRight) {
      this.verdict.textContent = `Right: {${group.join(",")}}. ${rule}`;
      return;
    }
    const first = wrong[0];
    const why =
      first === undefined
        ? `${plural(missing, "id")} missing.`
        : `id ${first} is not in it: it has another ${fixed.find((axis) => this.along(first, axis) !== this.along(this.asked, axis))}.`;
    this.verdict.textContent = `Not yet: ${why} ${rule}`;
  }

  private along(id: number, axis: string): number {
    return coordinatesOf(id, this.sizes)[this.names.indexOf(axis)]!;
  }

  private swap(a: number, b: number): void {
    const [first, second] = [this.devices.indexOf(a), this.devices.indexOf(b)];
    [this.devices[first], this.devices[second]] = [b, a];
    this.drawChips();
  }

  private drawChips(): void {
    const { groups, slice, devices } = this;
    const ring = groups.flatMap((group) =>
      group.length < 2
        ? []
        : group.map((id, i) => [devices[id]!, devices[group[(i + 1) % group.length]!]!] as [number, number]),
    );
    const { loads, hops } = loadsOf(slice, this.isRevealed ? ring : []);
    const groupOf = new Map(groups.flatMap((group, i) => group.map((id) => [id, i] as const)));
    const chips = devices.map((_, device) => {
      const id = devices.indexOf(device);
      return {
        place: placeOfDevice(slice, device),
        devices: [device],
        logical_ids: [id],
        groups: [this.isRevealed ? groupOf.get(id)! : null],
      };
    });
    const links = linksOf(slice).map(([from, to]): [number, number, number] => [
      from,
      to,
      (loads.get(`${from},${to}`) ?? 0) * MESSAGE_BYTES,
    ]);
    const most = Math.max(0, ...links.map(([, , bytes]) => bytes));
    const network = slice.shape.join("x");
    const sizes = [...slice.shape];
    const drawn = { network, sizes, wraps: [...slice.wraps], chips, links, most_bytes: most, link_count: links.length };
    const [drawing] = networkDrawing(drawn);
    if (drawing)
      drawing.style.cssText = `width:min(100%, ${1.5 * Number(drawing.getAttribute("width"))}px);height:auto`;
    fill(this.picture, drawing);
    drawing?.setAttribute("role", "group");
    [...this.picture.querySelectorAll<SVGElement>(".insp-chip")].forEach((chip, device) => {
      for (const [name, value] of Object.entries({
        "data-thing": String(device),
        "data-place": String(device),
        tabindex: "0",
        role: "button",
        "aria-label": `Chip ${device}, id ${devices.indexOf(device)}. Press Enter here and on another chip to swap`,
      }))
        chip.setAttribute(name, value);
    });
    this.drawFacts(hops, most, links.filter(([, , bytes]) => !bytes).length, links.length);
  }

  private drawFacts(hops: number, most: number, idle: number, all: number): void {
    if (!this.isRevealed)
      return fill(this.facts, h("div", { class: "insp-dim" }, "Each chip shows the logical id that it runs."));
    const groups = this.groups;
    const rows: [string, string][] = [
      ["groups", `{${groups.map((group) => `{${group.join(",")}}`).join(",")}}`],
      ["iota notation", iotaText(this.mesh, this.over)],
      ["hops to the next member", `at most ${hops}`],
      ["busiest link", `${format(most, "bytes")}, if each member sends 1 MiB to the next one in its group`],
      ["idle links", `${idle} of ${all}, each direction counts`],
    ];
    fill(
      this.facts,
      h("dl", {}, ...rows.flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, h("code", {}, text))])),
    );
  }

  private drawProof(reply: messages.MeshRun): void {
    const own = JSON.stringify(this.groups.map((group) => [...group].sort((a, b) => a - b)).sort());
    const theirs = JSON.stringify(reply.groups.map((group) => [...group].sort((a, b) => a - b)).sort());
    const isSame = own === theirs;
    this.isRevealed = true;
    this.draw();
    fill(
      this.proof,
      h(
        "div",
        {},
        "XLA's groups: ",
        h("code", {}, reply.replica_groups),
        isSame ? ", the same" : ", not those of this mesh",
      ),
      h("div", { class: "insp-dim" }, "Id r contributes 2 to the power of r, so every sum shows who contributed:"),
      h(
        "table",
        { class: "insp-table insp-explorable-table" },
        h("thead", {}, h("tr", {}, ...["id", "sum", "contributors"].map((head) => h("th", { scope: "col" }, head)))),
        h(
          "tbody",
          {},
          ...reply.after.map((sum, id) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, String(id)),
              h("td", {}, sum),
              h("td", {}, contributors(sum).join(", ")),
            ),
          ),
        ),
      ),
    );
  }
}

function contributors(sum: string): number[] {
  const bits = BigInt(sum);
  return Array.from({ length: MOST_DEVICES }, (_, id) => id).filter((id) => (bits >> BigInt(id)) & 1n);
}
