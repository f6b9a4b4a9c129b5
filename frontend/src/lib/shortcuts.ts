// Sharing of keys between the app and the notebook around it. JupyterLab ignores keys if the focused element has this
// attribute. A listener in an earlier phase therefore sets or removes it at each key.

const MARK = "data-lm-suppress-shortcuts";
/** Keys with Ctrl or Command for text editing in the browser and the editors. */
const OF_TEXTS = new Set(["a", "c", "v", "x", "y", "z", "f", "g"]);
const MOVES = /^(Arrow|Page|Home|End|Backspace|Delete|Tab|Insert)/;

/** Leaves letters to the app and key combinations to the notebook. Returns a function that stops this. */
export function shareKeys(root: HTMLElement): () => void {
  const focus = (e: FocusEvent): void => {
    if (e.target instanceof Element) e.target.setAttribute(MARK, "true");
  };
  const press = (e: KeyboardEvent): void => {
    const target = e.composedPath()[0];
    if (!(target instanceof Element) || !root.contains(target)) return;
    if (isForNotebook(e, target.matches("input, textarea, select"))) target.removeAttribute(MARK);
    else target.setAttribute(MARK, "true");
  };
  root.addEventListener("focusin", focus);
  window.addEventListener("keydown", press, true);
  return () => {
    root.removeEventListener("focusin", focus);
    window.removeEventListener("keydown", press, true);
  };
}

type Key = Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey" | "shiftKey" | "getModifierState">;

/** Returns whether a key belongs to the notebook, such as those that save it, run a cell or open its palette. */
export function isForNotebook(e: Key, isField: boolean): boolean {
  const isCommand = e.ctrlKey || e.metaKey;
  if (e.getModifierState("AltGraph") || MOVES.test(e.key)) return false;
  if (e.key === "Enter") return !isField && (isCommand || e.shiftKey || e.altKey);
  if (/^F\d+$/.test(e.key)) return e.key !== "F3"; // the next match
  if (isCommand) return e.altKey || e.shiftKey || !OF_TEXTS.has(e.key.toLowerCase());
  return e.altKey && !isField;
}
