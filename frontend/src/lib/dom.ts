// Elements without a framework.

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | EventListener>;

/** An element: attributes (`onclick` and the like are listeners, `true` is an empty attribute) and children. */
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

/** The same for SVG. */
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

/** Puts `children` in the place of what is there. */
export function fill(element: Element, ...children: Child[]): void {
  element.replaceChildren();
  append(element, children);
}

/** Sets attributes that are others now: what is set again, even to the same, is styled again. */
export function update(element: Element, attributes: Record<string, string>): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  }
}

/**
 * Does what needs an element's place with the next frame, unless it is gone by then: before, the browser would lay out
 * for it all that was just changed.
 */
export function whenLaidOut(element: Element, look: () => void): void {
  requestAnimationFrame(() => {
    if (element.isConnected) look();
  });
}

/** Puts a task off until the next frame; asked for again before, it is done once. */
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

/** Whether the wheel is meant for an element: the notebook scrolls with it, and what is in its way must not catch it unasked. */
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

/** Follows a pointer from a press until its release, as for a splitter. Coordinates in CSS pixels. */
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
