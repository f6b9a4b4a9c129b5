// Helpers for DOM elements.

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | EventListener>;

/** Creates an element. Functions (`onclick` etc.) become listeners, and `true` becomes an empty attribute. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  setAttributes(element, attributes);
  append(element, children);
  return element;
}

/** Creates an SVG element in the same way. */
export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  setAttributes(element, attributes);
  append(element, children);
  return element;
}

/**
 * Replaces the contents of an element. If they have the keyboard focus, it moves to the same control in the new contents,
 * or to the nearest one.
 */
export function fill(element: Element, ...children: Child[]): void {
  const focused = focusIn(element);
  const place = focused && placeIn(element, focused);
  element.replaceChildren();
  append(element, children);
  if (focused) refocus(element, focused, place!);
}

/** Sets attributes whose values have changed. Setting an equal value would also recompute styles. */
export function update(element: Element, attributes: Record<string, string>): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  }
}

/**
 * Calls `look` in the next frame if the element is still on the page. For code that reads sizes or positions: reading
 * them now would force a layout of all changes.
 */
export function whenLaidOut(element: Element, look: () => void): void {
  requestAnimationFrame(() => {
    if (element.isConnected) look();
  });
}

/** Returns a function that runs a task in the next frame, once for several calls. */
export function oncePerFrame(task: () => void): () => void {
  let isWaiting = false;
  return () => {
    if (isWaiting) return;
    isWaiting = true;
    requestAnimationFrame(() => {
      isWaiting = false;
      task();
    });
  };
}

/** Returns whether an element should handle a wheel event. Without focus or Ctrl, the event scrolls the notebook. */
export function isForElement(e: WheelEvent, element: Element): boolean {
  return e.ctrlKey || e.metaKey || element.contains(document.activeElement);
}

function setAttributes(element: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      element.addEventListener(name.slice(2), value);
    } else if (value === true) {
      element.setAttribute(name, "");
    } else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, String(value));
    }
  }
}

function append(element: Element, children: Child[]): void {
  for (const child of children) {
    if (child) element.append(child);
  }
}

/** Tracks a pointer from press to release, for example for a splitter. Coordinates are in CSS pixels. */
export function drag(handle: HTMLElement, start: (e: PointerEvent) => ((e: PointerEvent) => void) | null): void {
  handle.addEventListener("pointerdown", (down) => {
    const move = down.button === 0 ? start(down) : null;
    if (!move) return;
    down.preventDefault();
    handle.setPointerCapture(down.pointerId);
    const end = (): void => {
      handle.removeEventListener("pointermove", move);
      handle.removeEventListener("pointerup", end);
      handle.removeEventListener("pointercancel", end);
    };
    handle.addEventListener("pointermove", move);
    handle.addEventListener("pointerup", end);
    handle.addEventListener("pointercancel", end);
  });
}

const FOCUSABLE = "button, input, select, textarea, summary, a[href], [tabindex]";

/** Where the focus was: the label of the control, its place among those with this label, and among all. */
interface FocusPlace {
  readonly label: string;
  readonly amongEqual: number;
  readonly amongAll: number;
}

function focusIn(element: Element): HTMLElement | SVGElement | null {
  if (!element.hasChildNodes() || !element.isConnected) return null;
  const focused = (element.getRootNode() as Document | ShadowRoot).activeElement;
  return focused && focused !== element && element.contains(focused) ? (focused as HTMLElement) : null;
}

function placeIn(element: Element, focused: Element): FocusPlace {
  const all = [...element.querySelectorAll(FOCUSABLE)];
  const label = labelOf(focused);
  const equal = all.filter((each) => each.tagName === focused.tagName && labelOf(each) === label);
  return { label, amongEqual: equal.indexOf(focused), amongAll: all.indexOf(focused) };
}

function labelOf(element: Element): string {
  return element.getAttribute("aria-label") ?? element.getAttribute("placeholder") ?? element.textContent ?? "";
}

function refocus(element: Element, focused: HTMLElement | SVGElement, place: FocusPlace): void {
  const all = [...element.querySelectorAll<HTMLElement>(FOCUSABLE)];
  const equal = all.filter((each) => each.tagName === focused.tagName && labelOf(each) === place.label);
  const near = all.slice(0, place.amongAll + 1).reverse();
  const around = element.closest<HTMLElement>("[tabindex]");
  const tab = element.closest(".insp-group, .insp")?.querySelector<HTMLElement>("[role=tab][aria-selected=true]");
  const others = [equal[place.amongEqual], equal[0], ...near, ...all, around, tab];
  for (const each of element.contains(focused) ? [focused, ...others] : others) {
    each?.focus({ preventScroll: true });
    if (each && (element.getRootNode() as Document | ShadowRoot).activeElement === each) return;
  }
}
