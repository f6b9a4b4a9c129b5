// The reasons why calls were traced and compiled again while the process is watched.

import { textButton } from "../lib/controls.ts";
import { copyButton } from "../lib/copying.ts";
import { cellOf, columnsOf, textOf } from "../lib/described.ts";
import { fill, h, update } from "../lib/dom.ts";
import { plural } from "../lib/format.ts";
import { Sorting } from "../lib/sorting.ts";
import type * as messages from "../messages.ts";
import { type Context, Drawing, follow, type Pane } from "./pane.ts";
import { sourceLink } from "./sourcelink.ts";
import { awaited, empty, loading } from "./states.ts";
import "../styles/retraces.css";

const WATCH = "Start recording why JAX traces again in this notebook's process";
const HOW =
  "Choose Watch, then call the function again in another cell or run a program. Each call that JAX traces and compiles again is listed with the argument that differed.";
const WATCHING = "Watching. Call the function again in any cell; calls that JAX traces again are listed here.";

/** A difference from the closest earlier call, with its cells. */
interface Difference {
  readonly row: messages.RetraceRow;
  readonly cells: readonly messages.TableCell[];
}

class RetracesPane implements Pane {
  readonly element = h("div", { class: "insp-retraces insp-scroll", tabindex: 0, "aria-label": "Retraces" });
  readonly tools = h("div", { class: "insp-tools" });
  private readonly drawing = new Drawing(() => this.draw());
  private readonly watch = textButton("Watch", WATCH, () => this.toggle());
  private readonly count = h("span", { class: "insp-dim insp-retraces-count", role: "status" });
  private readonly sorting = new Sorting<Difference>(() => this.draw());
  private readonly body = h("tbody");
  private readonly table = h("table", { class: "insp-table" }, h("thead", {}, this.sorting.head), this.body);
  private readonly more = h("div", { class: "insp-note" });
  private readonly ends: (() => void)[];
  private shown: readonly Difference[] = [];

  constructor(private readonly context: Context) {
    const copied = (): string => (this.shown.length ? this.sorting.text(this.shown) : "");
    this.tools.append(this.count, this.watch, copyButton(copied, "explorer.retraces.table()"));
    this.ends = [follow(context, "retraces", this.drawing), context.local.signal.on(["active"], this.drawing.request)];
  }

  setVisible(visible: boolean): void {
    this.drawing.setVisible(visible);
  }

  destroy(): void {
    this.ends.forEach((end) => end());
  }

  private get latest(): messages.RetracesMessage | null {
    return this.context.synced.latest("retraces");
  }

  private get isWatching(): boolean {
    return Boolean(this.latest?.watching) && !this.context.synced.isAlone;
  }

  private toggle(): void {
    this.context.synced.send({ type: "watch_retraces", on: !this.isWatching });
  }

  private draw(): void {
    const { synced } = this.context;
    const { latest } = this;
    this.drawTools(latest);
    if (!latest) return fill(this.element, awaited(synced, "Lowering", "Retraces not received"));
    if (latest.note) return fill(this.element, empty("Watching is unavailable", latest.note));
    this.sorting.show(columnsOf(latest.columns));
    const differences = latest.rows.flatMap((row) => row.differences.map((cells) => ({ row, cells })));
    this.shown = this.sorting.sorted(differences);
    if (!this.shown.length) return fill(this.element, this.absence(latest));
    fill(this.body, ...this.shown.map((each) => this.row(latest.columns, each)));
    this.more.textContent = latest.left_out ? `${plural(latest.left_out, "earlier reason")} not shown.` : "";
    this.more.hidden = !latest.left_out;
    // The table stays in place while rows arrive, and so does the scroll position.
    if (this.table.parentElement !== this.element) fill(this.element, this.table, this.more);
  }

  private drawTools(latest: messages.RetracesMessage | null): void {
    const { synced } = this.context;
    this.watch.textContent = this.isWatching ? "Stop watching" : "Watch";
    this.watch.disabled = synced.isAlone || !latest || Boolean(latest.note);
    update(this.watch, { title: synced.remedy || latest?.note || WATCH, "aria-pressed": String(this.isWatching) });
    const again = latest?.rows.reduce((sum, { count }) => sum + count, 0) ?? 0;
    const since = latest?.since ? ` since ${latest.since}` : ""; // older recordings lack it
    this.count.textContent = latest?.was_watched
      ? `${plural(again, "retrace")}, ${plural(latest.first_calls, "first call")}${since}`
      : "";
  }

  private absence(latest: messages.RetracesMessage): HTMLElement {
    const { synced } = this.context;
    if (this.isWatching) return loading(WATCHING, null);
    if (latest.was_watched) return empty("No retraces while watching", synced.remedy || HOW);
    return empty(synced.isAlone ? "Not watched" : "Not watching yet", synced.remedy || HOW);
  }

  private row(heads: readonly messages.TableHead[], { row, cells }: Difference): HTMLElement {
    const texts = Object.fromEntries(heads.map(({ name }, i) => [name, textOf(cells[i]!)]));
    const value = (text: string | HTMLElement, columns = 1): HTMLElement =>
      h("td", { class: "insp-retraces-value", colspan: columns }, text);
    const special: Record<string, () => HTMLElement | null> = {
      function: () =>
        h(
          "th",
          { scope: "row", class: row.is_explored ? "insp-retraces-own" : "" },
          row.function,
          " ",
          this.definition(row),
        ),
      called_at: () =>
        h("td", {}, sourceLink(this.context, row.called_at), h("code", { class: "insp-retraces-call" }, row.call)),
      where: () => value(h("code", {}, texts["where"])),
      // An explanation takes the place of both values.
      now: () => (texts["before"] ? value(h("code", {}, texts["now"])) : value(texts["now"]!, 2)),
      before: () => (texts["before"] ? value(h("code", {}, texts["before"])) : null),
    };
    const drawn = heads.map((head, i) => (special[head.name] ?? (() => cellOf(head, cells[i]!)))());
    return h("tr", { title: row.explanation }, ...drawn);
  }

  private definition({ defined_at }: messages.RetraceRow): HTMLElement | null {
    return (
      defined_at && h("span", { class: "insp-dim insp-retraces-definition" }, sourceLink(this.context, defined_at))
    );
  }
}

export const pane = (context: Context): Pane => new RetracesPane(context);
