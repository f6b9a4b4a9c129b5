// The position among the lines that are linked to the selection, with buttons for the previous and next one.

import { h } from "../lib/dom.ts";
import { grouped, plural } from "../lib/format.ts";

interface Steps {
  /** The title of the text, for the button labels. */
  readonly title: string;
  /** The number of linked lines. */
  readonly count: number;
  /** The position among these, from 0; -1 for none. */
  readonly at: number;
  /** Whether the lines share only the source line with the selection. */
  readonly isWeak: boolean;
  readonly step: (delta: number) => void;
}

export function noMatch(): HTMLElement {
  return h("span", { class: "insp-none", title: "No line of this text is linked to the selection" }, "No match");
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
        title: isWeak ? "Same source line, different operation" : plural(count, "linked line"),
      },
      `${isWeak ? "≈" : ""}${at < 0 ? "–" : at + 1}/${grouped(count)}`,
    ),
    button("›", "Next", 1),
  ];
}
