// A text field with a list of suggestions below it, for keyboard and mouse.
//
// The field keeps the focus. `aria-activedescendant` announces the list to assistive technology.

import { fill, h } from "./dom.ts";
import { MARGIN_PX, visiblePart } from "./overlay.ts";

export interface Suggestion {
  /** The value of the field after this suggestion is chosen. */
  readonly value: string;
  readonly content: (Node | string)[];
  /** The heading above this suggestion, if a section begins here. */
  readonly heading?: string;
}

/** The contents of the list. */
export interface Offer {
  readonly suggestions: readonly Suggestion[];
  /** Returns the details below the list, for the active suggestion or none (-1). */
  readonly detail?: (active: number) => Node | string | null;
  /** Whether the first suggestion is active, so that Enter chooses it. */
  readonly isFirstActive?: boolean;
}

interface Settings {
  readonly label: string;
  readonly placeholder: string;
  /** The element that bounds the list. */
  readonly frame: () => HTMLElement;
  /** The width of the list, which is at least as wide as the field. */
  readonly width_px?: number;
  /** Called when the user changes the text or opens the list. */
  readonly onInput: (text: string) => void;
  readonly onChoose?: (value: string) => void;
  /** Called on Enter if no suggestion is active. */
  readonly onEnter: () => void;
}

const PAGE = 8;
const LEAST_HEIGHT_PX = 90;
let count = 0;

export class Combobox {
  readonly element: HTMLElement;
  readonly input: HTMLInputElement;
  private readonly id = `insp-list-${count++}`;
  private readonly list = h("div", { class: "insp-suggestions insp-scroll", role: "listbox", id: this.id });
  private readonly detail = h("div", { class: "insp-suggestion-detail insp-scroll" });
  private readonly popup = h("div", { class: "insp-popup", hidden: true }, this.list, this.detail);
  private offer: Offer = { suggestions: [] };
  private active = -1;
  private isDismissed = false;

  constructor(private readonly settings: Settings) {
    this.input = h("input", {
      type: "text",
      role: "combobox",
      spellcheck: "false",
      autocomplete: "off",
      placeholder: settings.placeholder,
      "aria-label": settings.label,
      "aria-autocomplete": "list",
      "aria-expanded": "false",
      "aria-controls": this.id,
      title: settings.label,
      oninput: () => this.ask(),
      onkeydown: ((e: KeyboardEvent) => this.onKey(e)) as EventListener,
      onblur: () => this.close(),
      onclick: () => !this.isOpen && this.ask(),
    });
    this.list.setAttribute("aria-label", settings.label);
    // Clicks on the list do not take the focus from the field.
    this.popup.addEventListener("pointerdown", (e) => e.preventDefault());
    this.popup.addEventListener("mousedown", (e) => e.preventDefault());
    this.element = h("div", { class: "insp-combobox" }, this.input, this.popup);
  }

  get value(): string {
    return this.input.value;
  }

  set value(text: string) {
    this.input.value = text;
  }

  get isOpen(): boolean {
    return !this.popup.hidden;
  }

  private ask(): void {
    this.isDismissed = false;
    this.settings.onInput(this.value);
  }

  /** Opens the list with suggestions, or closes it if there is nothing to show or Escape was pressed since they were asked for. */
  show(offer: Offer): void {
    if (document.activeElement !== this.input || this.isDismissed) return this.close();
    this.offer = offer;
    const rows = offer.suggestions.map((suggestion, index) => this.row(suggestion, index));
    fill(this.list, ...rows.flat());
    this.list.hidden = !rows.length;
    this.list.scrollTop = 0;
    this.activate(offer.isFirstActive && rows.length ? 0 : -1);
    const isEmpty = !rows.length && this.detail.hidden;
    if (isEmpty) return this.close();
    this.popup.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    this.place();
  }

  close(): void {
    this.popup.hidden = true;
    this.activate(-1);
    this.input.setAttribute("aria-expanded", "false");
  }

  private row({ value, content, heading }: Suggestion, index: number): HTMLElement[] {
    const option = h(
      "div",
      {
        class: "insp-suggestion",
        role: "option",
        id: `${this.id}-${index}`,
        "aria-selected": "false",
        onclick: () => this.choose(value),
        onpointermove: () => this.active !== index && this.activate(index),
      },
      ...content,
    );
    return heading ? [h("div", { class: "insp-menu-title", role: "presentation" }, heading), option] : [option];
  }

  private activate(index: number): void {
    this.option(this.active)?.setAttribute("aria-selected", "false");
    this.active = index;
    const option = this.option(index);
    option?.setAttribute("aria-selected", "true");
    if (option) this.input.setAttribute("aria-activedescendant", option.id);
    else this.input.removeAttribute("aria-activedescendant");
    const detail = this.offer.detail?.(index) ?? null;
    this.detail.hidden = !detail;
    this.detail.scrollTop = 0;
    fill(this.detail, detail);
  }

  private option(index: number): HTMLElement | null {
    return this.list.querySelector<HTMLElement>(`#${this.id}-${index}`);
  }

  private choose(value: string): void {
    this.close();
    this.value = value;
    this.settings.onChoose?.(value);
  }

  private onKey(e: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: PAGE, PageUp: -PAGE }[e.key];
    if (step !== undefined) {
      e.preventDefault();
      if (this.isOpen) this.move(step);
      else this.ask();
    } else if (e.key === "Enter") {
      e.preventDefault();
      const chosen = this.isOpen ? this.offer.suggestions[this.active] : undefined;
      if (chosen) this.choose(chosen.value);
      else this.settings.onEnter();
    } else if (e.key === "Escape") {
      this.isDismissed = true;
      if (!this.isOpen) return;
      e.preventDefault();
      this.close();
    }
  }

  private move(step: number): void {
    const last = this.offer.suggestions.length - 1;
    if (last < 0) return;
    const isJump = Math.abs(step) > 1;
    const wanted = this.active < 0 && step < 0 ? last : this.active + step;
    const wrapped = wanted > last ? 0 : wanted < 0 ? last : wanted;
    this.activate(isJump ? Math.max(0, Math.min(last, wanted)) : wrapped);
    this.option(this.active)?.scrollIntoView({ block: "nearest" });
  }

  /** Places the list below the field, within the visible part of the frame. Its height is limited by the free space. */
  private place(): void {
    const frame = visiblePart(this.settings.frame());
    const box = this.input.getBoundingClientRect();
    const width = Math.min(frame.right - frame.left - 2 * MARGIN_PX, Math.max(box.width, this.settings.width_px ?? 0));
    const left = Math.min(box.left, frame.right - MARGIN_PX - width);
    this.popup.style.width = `${width}px`;
    this.popup.style.left = `${Math.max(left, frame.left + MARGIN_PX) - box.left}px`;
    this.popup.style.maxHeight = `${Math.max(LEAST_HEIGHT_PX, frame.bottom - box.bottom - 2 * MARGIN_PX)}px`;
  }
}
