// Where there is room for what lies over the panes: inside the Explorer, and on screen.

export interface Box {
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
  readonly left: number;
}

/** Distance to the edges, in CSS pixels. */
export const MARGIN_PX = 8;
/** Below the toolbar, where there is room enough. */
const USUAL_TOP_PX = 44;
const ROOMY_PX = 360;
/** Of a shorter part, nothing can be read: the whole element is used, and the browser scrolls to what has the focus. */
const LEAST_PX = 120;

/** The part of all boxes that they have in common. */
export function intersection(boxes: readonly Box[]): Box {
  return {
    top: Math.max(...boxes.map(({ top }) => top)),
    right: Math.min(...boxes.map(({ right }) => right)),
    bottom: Math.min(...boxes.map(({ bottom }) => bottom)),
    left: Math.max(...boxes.map(({ left }) => left)),
  };
}

/** The part of an element that is on screen: inside the window and everything around it that scrolls or clips. */
export function visiblePart(element: HTMLElement): Box {
  const frame = element.getBoundingClientRect();
  const { clientWidth: right, clientHeight: bottom } = document.documentElement;
  const boxes: Box[] = [frame, { top: 0, left: 0, right, bottom: Math.min(bottom || innerHeight, innerHeight) }];
  if (getComputedStyle(element).position !== "fixed")
    for (let parent = parentOf(element); parent; parent = parentOf(parent)) {
      const isPage = parent === document.body || parent === document.documentElement;
      const { overflowX, overflowY } = getComputedStyle(parent);
      if (!isPage && (overflowX !== "visible" || overflowY !== "visible")) boxes.push(parent.getBoundingClientRect());
    }
  const seen = intersection(boxes);
  return seen.bottom - seen.top < LEAST_PX || seen.right - seen.left < LEAST_PX ? frame : seen;
}

/**
 * Keeps an element that lies over `root` in the part of it that is on screen, as high as there is room.
 *
 * @returns what ends that.
 */
export function keepOnScreen(root: HTMLElement, element: HTMLElement): () => void {
  const place = (): void => {
    const frame = root.getBoundingClientRect();
    const seen = visiblePart(root);
    const top = seen.bottom - seen.top < ROOMY_PX ? MARGIN_PX : USUAL_TOP_PX;
    Object.assign(element.style, {
      top: `${seen.top - frame.top - root.clientTop + top}px`,
      left: `${seen.left - frame.left - root.clientLeft}px`,
      right: `${frame.right - seen.right - root.clientLeft}px`,
      maxWidth: `${seen.right - seen.left - 2 * MARGIN_PX}px`,
      maxHeight: `${seen.bottom - seen.top - top - MARGIN_PX}px`,
    });
  };
  const onScroll = (e: Event): void => {
    if (!(e.target instanceof Node && root.contains(e.target))) place();
  };
  const resizes = new ResizeObserver(place);
  resizes.observe(root);
  document.addEventListener("scroll", onScroll, { capture: true, passive: true });
  addEventListener("resize", place);
  place();
  return () => {
    resizes.disconnect();
    document.removeEventListener("scroll", onScroll, true);
    removeEventListener("resize", place);
  };
}

function parentOf(element: Element): Element | null {
  const root = element.getRootNode();
  return element.parentElement ?? (root instanceof ShadowRoot ? root.host : null);
}
