// The palette: one search field for commands, and for lines of all texts by words or by properties of instructions.

import { fill, h } from "../lib/dom.ts";
import type { TextDocument } from "../lib/documents.ts";
import { plural } from "../lib/format.ts";
import { keepOnScreen } from "../lib/overlay.ts";
import { isFiltered, parseQuery, type Query, search } from "../lib/search.ts";
import { type Context, TITLES } from "../panes/pane.ts";
import type { TextPane } from "../messages.ts";
import type { Command } from "./commands.ts";

const TEXTS: readonly TextPane[] = ["optimized", "source", "jaxpr", "stablehlo", "hlo"];
const MOST_LINES = 12;
const LONGEST = 140;
/** Duration of one turn of the search, so that the page stays responsive while 30 MB are searched. */
const TURN_MS = 8;
const HELP =
  "Find lines by words, and instructions with op:fusion  scope:attention  file:model.py  users:NAME  flops>1M  bytes>1MiB  time>1us";

interface Entry {
  readonly content: (HTMLElement | string)[];
  readonly run: () => void;
}

interface Section {
  readonly title: string;
  readonly entries: readonly Entry[];
}

export class Palette {
  private readonly input: HTMLInputElement;
  private readonly list = h("div", { class: "insp-palette-list insp-scroll", role: "listbox", id: "insp-palette" });
  private readonly element: HTMLElement;
  private entries: readonly Entry[] = [];
  private options: HTMLElement[] = [];
  private active = 0;
  private turn = 0;
  private isOpen = false;
  private before: Element | null = null;
  private release = (): void => undefined;
  private readonly end: () => void;

  constructor(
    private readonly root: HTMLElement,
    private readonly context: Context,
    private readonly commands: () => readonly Command[],
  ) {
    this.input = h("input", {
      type: "text",
      role: "combobox",
      spellcheck: "false",
      autocomplete: "off",
      "aria-expanded": "true",
      "aria-controls": "insp-palette",
      "aria-label": "Search all panes or run a command",
      placeholder: "Search all panes or run a command",
      oninput: () => void this.look(),
      onkeydown: ((e: KeyboardEvent) => this.onKey(e)) as EventListener,
      onblur: () => this.close(),
    });
    this.list.setAttribute("aria-label", "Search results");
    this.list.addEventListener("pointerdown", (e) => e.preventDefault()); // the field keeps the focus
    this.element = h(
      "div",
      { class: "insp-palette", role: "dialog", "aria-label": "Search and commands" },
      this.input,
      this.list,
      h("div", { class: "insp-palette-help" }, HELP),
    );
    // A filter by costs has results once the costs are computed.
    this.end = context.synced.signal.on(["line_costs"], () => () => void (this.isOpen && this.look()));
  }

  destroy(): void {
    this.end();
    this.close();
  }

  open(text = ""): void {
    if (!this.isOpen) this.before = document.activeElement;
    this.input.value = text;
    if (!this.isOpen) {
      this.root.append(this.element);
      this.release = keepOnScreen(this.root, this.element);
    }
    this.isOpen = true;
    this.input.focus();
    void this.look();
  }

  /** Closes the palette. Removing it from the page blurs the field, which calls this again. */
  close(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.turn += 1;
    this.release();
    this.element.remove();
  }

  /** Starts a search, canceling the one before, and shows results as they are found. */
  private async look(): Promise<void> {
    const turn = ++this.turn;
    const text = this.input.value.trim();
    const commands = { title: "Commands", entries: this.matching(text) };
    const sections: Section[] = commands.entries.length ? [commands] : [];
    this.active = 0;
    this.show(sections, text ? "Searching …" : "");
    if (!text) return;
    const query = parseQuery(text);
    for (const pane of TEXTS) {
      const document = this.context.synced.document(pane, this.context.local.active);
      if (!document || (isFiltered(query) && pane === "source")) continue;
      const lines = await this.linesOf(document, query, turn);
      if (!lines) return;
      if (lines.length) sections.push(this.section(document, lines));
      this.show(sections, "Searching …");
    }
    this.show(sections, this.waits(query) ? "Computing instruction costs …" : sections.length ? "" : "No results");
  }

  private async linesOf(document: TextDocument, query: Query, turn: number): Promise<number[] | null> {
    const { synced, local } = this.context;
    const of = document.variant ?? local.active;
    const costs = query.least.map(({ measure }) => (of === null ? null : local.costs.of(document, of, measure)));
    if (costs.some((each) => !each)) return [];
    const amounts = new Map(query.least.map(({ measure }, i) => [measure, costs[i]!]));
    const task = search(
      document,
      query,
      synced.origins,
      (measure, line) => amounts.get(measure)?.of(line)?.amount ?? 0,
    );
    for (let end = performance.now() + TURN_MS; ;) {
      const { done, value } = task.next();
      if (done) return turn === this.turn ? value : null;
      if (performance.now() < end) continue;
      await new Promise(requestAnimationFrame);
      if (turn !== this.turn) return null;
      end = performance.now() + TURN_MS;
    }
  }

  private waits(query: Query): boolean {
    const { local } = this.context;
    return query.least.length > 0 && local.active !== null && !local.costs.reply(local.active);
  }

  private matching(text: string): Entry[] {
    const words = text.toLowerCase().split(/\s+/);
    return this.commands()
      .filter(({ name }) => words.every((word) => name.toLowerCase().includes(word)))
      .map(({ name, key, run }) => ({
        content: [h("span", {}, name), key ? h("kbd", {}, key) : ""],
        run,
      }));
  }

  private section(document: TextDocument, lines: readonly number[]): Section {
    const { local } = this.context;
    const entries = lines.slice(0, MOST_LINES).map((line) => {
      const text = document.lines[line]!.trim();
      const short = text.length > LONGEST ? `${text.slice(0, LONGEST)} …` : text;
      const run = (): void => {
        local.reveal(document.pane);
        local.goTo(document, line);
      };
      return { content: [h("span", { class: "insp-palette-line" }, document.label(line)), h("code", {}, short)], run };
    });
    const more = lines.length > MOST_LINES ? `, first ${MOST_LINES} shown` : "";
    return { title: `${TITLES[document.pane]}: ${plural(lines.length, "line")}${more}`, entries };
  }

  private show(sections: readonly Section[], note: string): void {
    this.entries = sections.flatMap(({ entries }) => entries);
    let index = 0;
    this.options = [];
    const children = sections.flatMap(({ title, entries }) => [
      h("div", { class: "insp-menu-title", role: "presentation" }, title),
      ...entries.map(({ content }) => this.option(content, index++)),
    ]);
    fill(this.list, ...children, note ? h("div", { class: "insp-dim insp-palette-note", role: "status" }, note) : null);
    this.activate(Math.min(this.active, this.entries.length - 1));
  }

  private option(content: (HTMLElement | string)[], index: number): HTMLElement {
    const option = h(
      "div",
      {
        class: "insp-suggestion",
        role: "option",
        id: `insp-palette-${index}`,
        "aria-selected": "false",
        onclick: () => this.choose(index),
        onpointermove: () => this.active !== index && this.activate(index),
      },
      ...content,
    );
    this.options.push(option);
    return option;
  }

  private activate(index: number): void {
    this.options[this.active]?.setAttribute("aria-selected", "false");
    this.active = Math.max(0, index);
    const option = this.options[this.active];
    option?.setAttribute("aria-selected", "true");
    if (option) this.input.setAttribute("aria-activedescendant", option.id);
    else this.input.removeAttribute("aria-activedescendant");
  }

  private choose(index: number): void {
    const entry = this.entries[index];
    if (!entry) return;
    const { before } = this;
    this.close();
    if (before instanceof HTMLElement && this.root.contains(before)) before.focus({ preventScroll: true });
    entry.run();
  }

  private onKey(e: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[e.key];
    if (step !== undefined) {
      const last = this.entries.length - 1;
      this.activate(Math.max(0, Math.min(last, this.active + step)));
      this.options[this.active]?.scrollIntoView({ block: "nearest" });
    } else if (e.key === "Enter") this.choose(this.active);
    else if (e.key === "Escape") {
      const { before } = this;
      this.close();
      if (before instanceof HTMLElement && this.root.contains(before)) before.focus({ preventScroll: true });
    } else return void e.stopPropagation();
    e.preventDefault();
    e.stopPropagation();
  }
}
