// The compiler passes of the active variant: their durations and changes, and the history of an instruction.

import { type Choice, Switcher, textButton, toolButton } from "../lib/controls.ts";
import { fill, h } from "../lib/dom.ts";
import { formatSeconds, plural } from "../lib/format.ts";
import { nextOf, type Scale } from "../lib/passcurves.ts";
import { listSplitter } from "../lib/splitter.ts";
import type * as messages from "../messages.ts";
import type { Message } from "../state/synced.ts";
import { LinkedPane } from "./linked.ts";
import type { Context, Pane } from "./pane.ts";
import { PassDiff, type View } from "./passdiff.ts";
import { PassList } from "./passlist.ts";
import { PassStrip } from "./passstrip.ts";
import { eventList, StoryList } from "./passwords.ts";
import { absence } from "./recording.ts";
import { Replies } from "./replies.ts";
import { awaited, empty, failure } from "./states.ts";
import "../styles/passes.css";

type Extent = "changes" | "whole";

const VIEWS: Choice<View>[] = [
  { value: "unified", text: "Unified", title: "Before and after in one text" },
  { value: "split", text: "Split", title: "Before and after, side by side" },
];
const EXTENTS: Choice<Extent>[] = [
  { value: "changes", text: "Changes", title: "Changes with some context lines" },
  { value: "whole", text: "Whole", title: "Whole module" },
];
const SCALES: Choice<Scale>[] = [
  { value: "log", text: "Log", title: "Durations on a logarithmic scale" },
  { value: "linear", text: "Linear", title: "Durations on a linear scale" },
];
const WHAT = "Compiles this variant again with a snapshot of the HLO after each pass. Takes about 1.5 times as long.";
const ITSELF = "itself";
/** Heights in pixels below which the strip becomes smaller. */
const SHORT_PX = 330;
const TINY_PX = 180;

class PassesPane extends LinkedPane {
  readonly element = h("div", { class: "insp-recorded insp-passes", "data-pane": "passes" });
  private readonly scale = new Switcher<Scale>("Duration scale", SCALES, "log", () => this.relist());
  private readonly views = new Switcher<View>("Diff view", VIEWS, "unified", () => this.redraw());
  private readonly extent = new Switcher<Extent>("Diff extent", EXTENTS, "changes", this.drawing.request);
  private readonly strip = new PassStrip((index) => this.choose(index));
  private readonly list = new PassList(
    (index) => this.choose(index),
    () => this.relist(),
  );
  private readonly border = listSplitter("Pass list width", this.element, () => this.list.element);
  private readonly head = h("div", { class: "insp-summary insp-pass-head" });
  private readonly since = h("select", {
    class: "insp-select",
    "aria-label": "Compare with",
    title: "Module to compare with",
    onchange: this.drawing.request,
  });
  private readonly followButton = textButton("Follow", "", () => this.follow());
  private readonly withoutButton = textButton("Without pass", "", () => this.startVariant("without"));
  private readonly untilButton = textButton("Stop after pass", "", () => this.startVariant("until"));
  private readonly words = h("div", { class: "insp-pass-words" });
  private readonly side = h("div", { class: "insp-pass-side" }, this.words);
  private readonly diff = new PassDiff(this.context, (name) => (this.clicked = name));
  private readonly story = new StoryList(
    (touch) => this.goTo(touch),
    () => this.followNoMore(),
  );
  private readonly detail = h("div", { class: "insp-recorded-detail insp-editor" });
  private readonly follows: (() => void)[];
  private readonly changes: Replies<"pass_change">;
  private followed = { id: -1, variant: -1 };
  private shownStory: Message<"story"> | null = null;
  private listed: messages.PassList | null = null;
  private shown: Message<"pass_change"> | null = null;
  /** The instruction that was clicked last in this pane's text, while the selection comes from this pane. */
  private clicked: string | null = null;
  /** The instruction to scroll to when the pass arrives. */
  private sought = "";

  constructor(context: Context) {
    super(context, "passes");
    const find = toolButton("find", "Find (Ctrl-F)", () => this.diff.find());
    const { list, scale, views, extent } = this;
    const switchers = [list.which, scale, extent, views].map(({ element }) => element);
    this.tools.append(list.filter, ...switchers, list.copy, find);
    this.watch(this.element);
    this.changes = new Replies(context.synced, "pass_change");
    this.follows = [
      context.local.signal.on(["wrap", "details"], () => this.diff.applyOptions()),
      context.local.signal.on(["pass"], this.drawing.request),
    ];
  }

  override destroy(): void {
    super.destroy();
    this.follows.forEach((end) => end());
    this.diff.clear();
  }

  private get passes(): messages.PassList | null {
    const { synced, local } = this.context;
    return synced.latest("passes", { variant: local.active });
  }

  private get index(): number {
    return this.context.local.passes.index;
  }

  protected draw(): void {
    const { passes } = this;
    const isThere = Boolean(passes?.rows.length);
    for (const tool of this.tools.children) (tool as HTMLElement).hidden = !isThere;
    if (!passes || !isThere) {
      this.forget();
      const nothing = passes ? empty("No passes", passes.note) : absence(this.context, "passes", "Passes", WHAT);
      return fill(this.element, nothing);
    }
    if (this.listed !== passes) this.drawList(passes);
    this.drawStory();
    this.drawDetail(passes);
  }

  /** Highlights the selection and updates the buttons. */
  protected mark(): void {
    if (!this.listed) return;
    if (this.context.local.selection?.pane !== "passes") this.clicked = null;
    this.diff.mark();
    this.drawButtons();
  }

  protected override resize(): void {
    const height = this.element.clientHeight;
    this.element.classList.toggle("insp-short", height < SHORT_PX);
    this.element.classList.toggle("insp-tiny", height < TINY_PX);
  }

  private relist(): void {
    if (this.listed) this.drawList(this.listed);
  }

  private redraw(): void {
    if (this.shown) this.diff.show(this.shown, this.views.value);
  }

  private drawList(passes: messages.PassList): void {
    const isNew = this.listed !== passes;
    this.listed = passes;
    const indices = this.list.indices(passes);
    this.list.show(passes);
    this.strip.show(passes, indices, this.scale.value);
    if (!isNew) return;
    const steps = [...passes.rows.entries()].filter(([, row]) => row.is_step);
    fill(
      this.since,
      h("option", { value: ITSELF }, "module before it"),
      h("option", { value: "-1" }, "module before all passes"),
      ...steps.map(([i, row]) => h("option", { value: i }, `module after ${i} ${row.name}`)),
    );
    fill(this.detail, this.head, this.side, this.diff.element);
    const body = h("div", { class: "insp-recorded-body" }, this.list.element, this.border, this.detail);
    fill(this.element, this.strip.element, body);
  }

  private choose(index: number): void {
    this.context.local.passes.choose(index);
  }

  /** Requests the chosen pass unless it is known or already requested, and shows it when it arrives. */
  private drawDetail(passes: messages.PassList): void {
    const { synced, local } = this.context;
    const [variant, index] = [local.active!, this.index];
    const row = passes.rows[index];
    this.list.select(index);
    this.strip.look(index);
    this.story.look(index);
    if (!row) return;
    const since = this.since.value === ITSELF || !this.since.value ? null : Number(this.since.value);
    const change = this.changes.of({ type: "pass", variant, index, since, whole: this.extent.value === "whole" });
    this.detail.classList.toggle("insp-counting", !change && this.shown !== null && !synced.isAlone);
    if (!change) {
      if (this.shown && !synced.isAlone) return; // the shown pass stays until the next one arrives
      this.diff.clear();
      this.shown = null;
      return fill(this.words, awaited(synced, `Reading ${row.name}`, `${row.name} not received`));
    }
    if (this.shown !== change) this.drawChange(row, change);
  }

  private drawChange(row: messages.PassRow, change: Message<"pass_change">): void {
    this.shown = change;
    this.drawHead(row, change);
    if (change.error) {
      this.diff.clear();
      return fill(this.words, failure(change.error, `${row.name} cannot be shown`));
    }
    const left = change.left_out ? `${plural(change.left_out, "more change")} not shown. Choose Whole to see all.` : "";
    const events = change.events.length ? eventList(change, (name) => this.reveal(name)) : null;
    fill(this.words, events, left && h("div", { class: "insp-note" }, left));
    this.diff.show(change, this.views.value);
    if (this.sought) this.diff.reveal(this.sought);
    this.sought = "";
  }

  private drawHead(row: messages.PassRow, change: messages.PassChangeMessage): void {
    const time = row.duration_s === null ? row.reason : formatSeconds(row.duration_s);
    fill(
      this.head,
      h(
        "div",
        { class: "insp-pass-said", title: `${row.pipeline}: ${change.summary}` },
        h("span", { class: "insp-tok-op" }, row.name),
        h("span", { class: "insp-dim" }, ` ${row.pipeline} · ${time} · `),
        change.summary,
      ),
      h(
        "div",
        { class: "insp-pass-actions" },
        h("label", { class: "insp-dim" }, "Compare with ", this.since),
        this.followButton,
        this.withoutButton,
        this.untilButton,
      ),
    );
    this.drawButtons();
  }

  private drawButtons(): void {
    const row = this.listed?.rows[this.index];
    const { isAlone, remedy } = this.context.synced;
    const enable = (button: HTMLButtonElement, reason: string, title: string): void => {
      button.disabled = isAlone || Boolean(reason);
      button.title = isAlone ? remedy : reason || title;
    };
    const selected = this.context.local.selection;
    const what = this.clicked ?? selected?.instruction ?? (selected ? "the selection" : "");
    const none = what ? "" : "Select an instruction or a line first, in this or another pane";
    enable(this.followButton, none, `Follow ${what} through all passes`);
    if (!row) return;
    const kept = row.kept.length ? ` These still run: ${row.kept.join(", ")}.` : "";
    enable(this.withoutButton, cannot(row.without), `Compile a variant without ${row.name}`);
    enable(
      this.untilButton,
      cannot(row.until),
      `Compile a variant without later passes that changed the program after ${row.name}, except those that the backend needs.${kept}`,
    );
  }

  private startVariant(which: "without" | "until"): void {
    const { synced, local } = this.context;
    synced.send({ type: "pass_variant", variant: local.active!, index: this.index, which });
  }

  /** Scrolls to an instruction if the text has it. */
  private reveal(name: string): void {
    const { local } = this.context;
    this.diff.reveal(name);
    if (local.hasInstruction("optimized", name)) local.selectInstruction("passes", "optimized", name);
    this.clicked = name;
    this.drawButtons();
  }

  // ------------------------------------------------------------------ following

  private follow(): void {
    const { synced, local } = this.context;
    const { selection } = local;
    const said = local.selectionMessage();
    const isCompiled = selection?.stage === "optimized";
    const instruction = this.clicked ?? (isCompiled ? (selection.instruction ?? "") : "");
    const isHere = this.clicked !== null;
    // A name that the pass removed belongs to the module before it.
    const isAfter =
      isHere &&
      (this.shown?.events.every(({ before, after }) => !before.includes(instruction) || after.includes(instruction)) ??
        true);
    const index = isHere ? (isAfter ? this.index : this.index - 1) : null;
    const id = synced.ask({
      type: "follow",
      variant: local.active!,
      instruction,
      index,
      op_name: said?.origin ?? "",
      file: said?.file ?? "",
      line: said?.line ?? 0,
    });
    this.followed = { id, variant: local.active! };
    this.drawing.request();
  }

  private followNoMore(): void {
    this.followed = { id: -1, variant: -1 };
    this.drawing.request();
  }

  private drawStory(): void {
    const { synced, local } = this.context;
    const { id, variant } = this.followed;
    const isWanted = id >= 0 && variant === local.active;
    if (!isWanted) {
      this.shownStory = null;
      this.story.element.remove();
      return this.strip.mark([]);
    }
    const story = synced.reply("story", id);
    if (!this.story.element.isConnected) this.side.prepend(this.story.element);
    if (story === this.shownStory && story) return;
    this.shownStory = story;
    if (!story)
      return fill(this.story.element, awaited(synced, "Following through all passes", "History not received"));
    if (story.error) return fill(this.story.element, failure(story.error, "Following failed"));
    this.story.show(story);
    this.strip.mark(story.touches.flatMap(({ index }) => (index === null ? [] : [index])));
  }

  private goTo(touch: messages.PassTouch): void {
    this.sought = touch.after[0] ?? touch.before[0] ?? "";
    this.since.value = ITSELF;
    const first = this.listed ? nextOf(this.list.indices(this.listed), -1, 1) : 0;
    const index = touch.index ?? first;
    if (index === this.index) {
      this.diff.reveal(this.sought);
      this.sought = "";
    } else this.choose(index);
  }

  private forget(): void {
    this.diff.clear();
    this.listed = this.shown = null;
    this.changes.clear();
    this.story.element.remove();
  }
}

/** Returns a reason as a sentence, or "" if there is none. */
function cannot(reason: string): string {
  return reason && `Unavailable: ${reason}.`;
}

export const pane = (context: Context): Pane => new PassesPane(context);
