// The space for overlays: inside the Explorer, and on screen.

interface Box {
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
  readonly left: number;
}

/** Distance to the edges, in CSS pixels. */
export const MARGIN_PX = 8;
/** Top of an overlay, below the toolbar, if the visible part is at least ROOMY_PX high. */
const USUAL_TOP_PX = 44;
const ROOMY_PX = 360;
/**
 * A smaller visible part is too small to read. Then the whole element is used, and the browser scrolls to the focus.
 */
const LEAST_PX = 120;

/** Returns the intersection of boxes. */
function intersection(boxes: readonly Box[]): Box {
  return {
    top: Math.max(...boxes.map(({ top }) => top)),
    right: Math.min(...boxes.map(({ right }) => right)),
    bottom: Math.min(...boxes.map(({ bottom }) => bottom)),
    left: Math.max(...boxes.map(({ left }) => left)),
  };
}

/** Returns the visible part of an element: inside the window and all ancestors that scroll or clip. */
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
 * Keeps an overlay in the visible part of `root`, and limits its height to the available space.
 *
 * @returns a function that stops this.
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
