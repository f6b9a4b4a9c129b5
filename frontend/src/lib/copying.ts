// A button that copies the rows of a table.

import { toolButton } from "./controls.ts";
import { fill } from "./dom.ts";
import { plural } from "./format.ts";
import { icon, type IconName } from "./icons.ts";

const SHOWN_MS = 2000;

/**
 * @param rows the text of the table, as `tabbed` makes it; "" for none.
 * @param call what gives the whole table in Python.
 */
export function copyButton(rows: () => string, call: string): HTMLButtonElement {
  const label = `Copy the rows for pandas.read_clipboard(). All of them in Python: ${call}`;
  const button = toolButton("copy", label, () => void copy());
  let timer: ReturnType<typeof setTimeout> | undefined;
  const say = (name: IconName, said: string): void => {
    fill(button, icon(name));
    button.title = said;
    button.setAttribute("aria-label", said);
  };
  const copy = async (): Promise<void> => {
    const text = rows();
    const count = Math.max(0, text.split("\n").length - 1);
    try {
      await navigator.clipboard.writeText(text);
      say("done", `Copied ${plural(count, "row")}: pandas.read_clipboard() reads them`);
    } catch {
      // Browsers let pages write to the clipboard only over HTTPS or on this machine.
      say("failed", `The browser does not let this page copy. In Python: ${call}`);
    }
    clearTimeout(timer);
    timer = setTimeout(() => say("copy", label), SHOWN_MS);
  };
  return button;
}
