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

/** Replaces the contents of an element. */
export function fill(element: Element, ...children: Child[]): void {
  element.replaceChildren();
  append(element, children);
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
