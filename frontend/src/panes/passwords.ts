// Lists in words: the changes that a pass made, and the history of a followed instruction.

import { fill, h, update, whenLaidOut } from "../lib/dom.ts";
import { grouped, plural } from "../lib/format.ts";
import { toolButton } from "../lib/controls.ts";
import type * as messages from "../messages.ts";

const NAMES = 6;

/** @param choose is called with the name of an instruction after the pass, or before it if the pass removed it. */
export function eventList(change: messages.PassChangeMessage, choose: (name: string) => void): HTMLElement {
  const rows = change.events.map((event) => {
    const isSame =
      event.before.length === event.after.length && event.before.every((name, i) => name === event.after[i]);
    const sides = isSame
      ? [names(event.after, event.after_count, choose)]
      : [
          event.before.length ? names(event.before, event.before_count, choose) : null,
          event.before.length && event.after.length ? h("span", { class: "insp-dim" }, " → ") : null,
          event.after.length ? names(event.after, event.after_count, choose) : null,
        ];
    const sure = event.certainty.startsWith("same name") || event.certainty === "removed" ? "" : event.certainty;
    return h(
      "li",
      {},
      h("span", { class: "insp-pass-word", "data-word": event.word }, event.word),
      h(
        "span",
        {},
        ...sides,
        event.note && h("span", { class: "insp-dim" }, `  ${event.note}`),
        sure && h("span", { class: "insp-pass-sure", title: `Certainty: ${sure}` }, sure),
      ),
    );
  });
  const more = change.event_count - change.events.length;
  return h(
    "ul",
    { class: "insp-pass-events", tabindex: 0, "aria-label": "Changes by this pass" },
    ...rows,
    more > 0 && h("li", { class: "insp-dim" }, `and ${plural(more, "more change")}`),
  );
}

function names(listed: readonly string[], count: number, choose: (name: string) => void): HTMLElement {
  const shown = listed.slice(0, NAMES);
  const buttons = shown.flatMap((name, i) => [
    i ? ", " : "",
    h("button", { type: "button", class: "insp-pass-name", onclick: () => choose(name) }, name),
  ]);
  const more = count - shown.length;
  const rest =
    more > 0
      ? h("span", { class: "insp-dim", title: listed.slice(NAMES).join(", ") }, ` and ${grouped(more)} more`)
      : null;
  return h("span", {}, ...buttons.map((b) => (typeof b === "string" ? document.createTextNode(b) : b)), rest);
}

/** The history of a followed instruction. Clicking an entry goes to its pass. */
export class StoryList {
  readonly element = h("div", { class: "insp-pass-story", role: "group", "aria-label": "Instruction history" });
  private rows: { touch: messages.PassTouch; element: HTMLElement }[] = [];

  constructor(
    private readonly choose: (touch: messages.PassTouch) => void,
    private readonly end: () => void,
  ) {}

  show(story: messages.Story): void {
    this.rows = story.touches.map((touch) => ({ touch, element: this.row(touch) }));
    fill(
      this.element,
      h(
        "div",
        { class: "insp-pass-fate" },
        h("span", {}, h("b", {}, story.what), ` ${story.fate}`),
        h("span", { class: "insp-pass-sure", title: "Lowest certainty of all steps" }, story.certainty),
        toolButton("close", "Stop following", this.end),
      ),
      story.note && h("div", { class: "insp-note" }, story.note),
      h("ol", {}, ...this.rows.map(({ element }) => element)),
    );
  }

  /** Marks the entries of the selected pass and scrolls to the first of them. */
  look(index: number): void {
    let first: HTMLElement | null = null;
    for (const { touch, element } of this.rows) {
      const isHere = touch.index === index;
      element.classList.toggle("insp-chosen", isHere);
      update(element.firstElementChild!, { "aria-current": String(isHere) });
      if (isHere) first ??= element;
    }
    const row = first;
    if (row) whenLaidOut(row, () => this.reveal(row));
  }

  private reveal(row: HTMLElement): void {
    const scroller = this.element.parentElement!;
    const frame = scroller.getBoundingClientRect();
    const box = row.getBoundingClientRect();
    if (box.top < frame.top || box.bottom > frame.bottom)
      scroller.scrollTop += box.top - frame.top - (frame.height - box.height) / 2;
  }

  private row(touch: messages.PassTouch): HTMLElement {
    const isSure = touch.certainty.startsWith("same name") || touch.certainty === "removed";
    const where = touch.index === null ? "start" : `${touch.index} ${touch.name}`;
    return h(
      "li",
      {},
      h(
        "button",
        { type: "button", onclick: () => this.choose(touch) },
        h("span", { class: "insp-pass-where", title: where }, where),
        h("span", { class: "insp-pass-word", "data-word": touch.word }, touch.word),
        h(
          "span",
          { class: "insp-pass-text" },
          touch.text,
          !isSure && h("span", { class: "insp-pass-sure", title: touch.certainty }, touch.certainty),
        ),
      ),
    );
  }
}
