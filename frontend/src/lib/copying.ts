// A button that copies the rows of a table.

import { toolButton } from "./controls.ts";
import { fill } from "./dom.ts";
import { plural } from "./format.ts";
import { icon, type IconName } from "./icons.ts";

const SHOWN_MS = 2000;

/**
 * @param rows returns the text of the table, in the format of `tabbed`; "" for none.
 * @param call the Python expression for the whole table.
 */
export function copyButton(rows: () => string, call: string): HTMLButtonElement {
  const label = `Copy rows for pandas.read_clipboard(). All rows in Python: ${call}`;
  const button = toolButton("copy", label, () => void copy());
  let timer: ReturnType<typeof setTimeout> | undefined;
  const say = (name: IconName, text: string): void => {
    fill(button, icon(name));
    button.title = text;
    button.setAttribute("aria-label", text);
  };
  const copy = async (): Promise<void> => {
    const text = rows();
    const count = Math.max(0, text.split("\n").length - 1);
    try {
      await navigator.clipboard.writeText(text);
      say("done", `Copied ${plural(count, "row")} for pandas.read_clipboard()`);
    } catch {
      // Browsers allow writing to the clipboard only on HTTPS pages or localhost.
      say("failed", `Copying is blocked by the browser. In Python: ${call}`);
    }
    clearTimeout(timer);
    timer = setTimeout(() => say("copy", label), SHOWN_MS);
  };
  return button;
}
