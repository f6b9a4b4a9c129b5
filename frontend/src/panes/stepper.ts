// Where a text stands among the lines that are linked to the selection, with steps to the next ones.

import { h } from "../lib/dom.ts";
import { grouped, plural } from "../lib/format.ts";

interface Steps {
  /** Of the text, for the names of the buttons. */
  readonly title: string;
  /** Linked lines. */
  readonly count: number;
  /** The place among these, from 0; -1 for none of them. */
  readonly at: number;
  /** Whether only the source line is the same. */
  readonly isWeak: boolean;
  readonly step: (delta: number) => void;
}

export function noMatch(): HTMLElement {
  return h("span", { class: "insp-none", title: "No line here is linked to the selection" }, "no match");
}

export function steps({ title, count, at, isWeak, step }: Steps): HTMLElement[] {
  const button = (text: string, label: string, delta: number): HTMLElement =>
    h("button", { type: "button", "aria-label": `${label} match in ${title}`, onclick: () => step(delta) }, text);
  return [
    button("‹", "Previous", -1),
    h(
      "span",
      {
        class: isWeak ? "insp-count-weak" : "insp-count",
        title: isWeak ? "Same source line, another operation" : plural(count, "linked line"),
      },
      `${isWeak ? "≈" : ""}${at < 0 ? "–" : at + 1}/${grouped(count)}`,
    ),
    button("›", "Next", 1),
  ];
}
