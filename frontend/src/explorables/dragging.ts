// Things that are dragged onto places, with the pointer or the keyboard. Enter or a click picks a thing up or puts it down.

/** Largest movement in pixels of a click. */
const LEAST_PX = 6;

/**
 * Lets the reader move elements with `data-thing` onto elements with `data-place`. Both names are given to `drop`.
 *
 * An element may be both. Without a pointer, Enter on a thing picks it up, Enter on a place puts it there, and Escape lets go.
 */
export function dragThings(root: HTMLElement, drop: (thing: string, place: string) => void): void {
  let picked: string | null = null;
  const pick = (thing: string | null): void => {
    picked = thing;
    root.querySelectorAll<HTMLElement>("[data-thing]").forEach((each) => {
      each.classList.toggle("insp-picked", thing !== null && each.dataset["thing"] === thing);
    });
    root.classList.toggle("insp-picking", thing !== null);
  };
  const at = (target: EventTarget | null, name: "thing" | "place"): string | null =>
    (target instanceof Element ? target.closest<HTMLElement>(`[data-${name}]`) : null)?.dataset[name] ?? null;
  const press = (target: EventTarget | null): boolean => {
    const [thing, place] = [at(target, "thing"), at(target, "place")];
    if (picked !== null && place !== null && picked !== thing) {
      const moved = picked;
      pick(null);
      drop(moved, place);
      return true;
    }
    if (thing === null) return false;
    pick(picked === thing ? null : thing);
    return true;
  };
  root.addEventListener("keydown", (e) => {
    if (e.key === "Escape" && picked !== null) return (pick(null), e.stopPropagation());
    if ((e.key === "Enter" || e.key === " ") && press(e.target)) e.preventDefault();
  });
  root.addEventListener("pointerdown", (down) => {
    const thing = at(down.target, "thing");
    const place = at(down.target, "place");
    if (down.button !== 0 || (thing === null && (picked === null || place === null))) return;
    if (down.pointerType !== "touch") down.preventDefault(); // no selection of text
    (down.target as Element).closest<HTMLElement>("[tabindex], button")?.focus({ preventScroll: true });
    let isDragged = false;
    const move = (e: PointerEvent): void => {
      if (thing === null || isDragged || Math.hypot(e.clientX - down.clientX, e.clientY - down.clientY) < LEAST_PX)
        return;
      isDragged = true;
      pick(thing);
    };
    const end = (e: PointerEvent): void => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", end);
      removeEventListener("pointercancel", cancel);
      const page = root.getRootNode() as Document | ShadowRoot;
      const target = page.elementsFromPoint(e.clientX, e.clientY).find((each) => root.contains(each)) ?? null;
      if (!isDragged) return void press(down.target);
      const found = at(target, "place");
      pick(null);
      if (thing !== null && found !== null) drop(thing, found);
    };
    const cancel = (): void => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", end);
      pick(null);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
    addEventListener("pointercancel", cancel);
  });
}
