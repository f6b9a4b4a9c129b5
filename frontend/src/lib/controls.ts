// Buttons with a consistent look.

import { h, update } from "./dom.ts";
import { icon, type IconName } from "./icons.ts";

/** A small button with an icon. `label` is its tooltip and accessible name. */
export function toolButton(name: IconName, label: string, onclick: (e: Event) => void): HTMLButtonElement {
  return h("button", { type: "button", class: "insp-tool", title: label, "aria-label": label, onclick }, icon(name));
}

/** A button with text. `title` is its tooltip. */
export function textButton(text: string, title: string, onclick: (e: Event) => void): HTMLButtonElement {
  return h("button", { type: "button", class: "insp-button", title, onclick }, text);
}

export interface Choice<T> {
  readonly value: T;
  readonly text: string;
  readonly title?: string;
}

/** Returns buttons of which one is pressed, for `.insp-segments`. */
export function segments<T>(
  choices: readonly Choice<T>[],
  current: T,
  choose: (value: T) => void,
): HTMLButtonElement[] {
  return choices.map(({ value, text, title }) =>
    h(
      "button",
      { type: "button", title, "aria-pressed": String(value === current), onclick: () => choose(value) },
      text,
    ),
  );
}

/** A choice of one of several values. Its buttons are kept when the choice changes, which keeps the keyboard focus. */
export class Switcher<T> {
  readonly element: HTMLElement;
  private readonly buttons: readonly HTMLButtonElement[];

  constructor(
    label: string,
    private readonly choices: readonly Choice<T>[],
    public value: T,
    private readonly changed: () => void,
  ) {
    this.buttons = segments(choices, value, (chosen) => this.choose(chosen));
    this.element = h("div", { class: "insp-segments", role: "group", "aria-label": label }, ...this.buttons);
  }

  choose(chosen: T): void {
    this.value = chosen;
    this.buttons.forEach((button, i) => update(button, { "aria-pressed": String(this.choices[i]!.value === chosen) }));
    this.changed();
  }
}
