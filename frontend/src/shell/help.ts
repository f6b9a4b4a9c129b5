// Every key, in one place.

import { toolButton } from "../lib/controls.ts";
import { h } from "../lib/dom.ts";
import { keepOnScreen } from "../lib/overlay.ts";
import type { Command } from "./commands.ts";

const OF_TEXTS: readonly (readonly [string, string])[] = [
  ["↑ ↓", "Select the line above or below"],
  ["Ctrl+F", "Find in this text"],
  ["F3", "Next place that was found"],
  ["Double click, Ctrl+click", "Go to the definition of a name"],
  ["Tab", "Next control; in a row of tabs ← → choose one"],
  ["Ctrl+wheel", "Zoom a picture"],
];
const OF_GRAPHS: readonly (readonly [string, string])[] = [
  ["← → ↑ ↓", "Go from node to node"],
  ["Enter, Esc", "Open or select a node, close the box that it is in"],
  ["+ − 0", "Zoom in, zoom out, show all"],
];

export function openHelp(root: HTMLElement, commands: readonly Command[]): void {
  root.querySelector(".insp-help")?.remove();
  const before = document.activeElement;
  const close = (): void => {
    release();
    element.remove();
    if (before instanceof HTMLElement && root.contains(before)) before.focus({ preventScroll: true });
  };
  const row = (key: string, name: string): HTMLElement =>
    h("tr", {}, h("th", { scope: "row" }, h("kbd", {}, key)), h("td", {}, name));
  const button = toolButton("close", "Close (Esc)", close);
  const element = h(
    "div",
    { class: "insp-help insp-scroll", role: "dialog", "aria-label": "Keys" },
    h("div", { class: "insp-help-head" }, h("b", {}, "Keys"), button),
    h("table", {}, ...commands.filter(({ key }) => key).map(({ key, name }) => row(key, name))),
    h("b", {}, "In a text"),
    h("table", {}, ...OF_TEXTS.map(([key, name]) => row(key, name))),
    h("b", {}, "In the graph"),
    h("table", {}, ...OF_GRAPHS.map(([key, name]) => row(key, name))),
    h(
      "p",
      { class: "insp-dim" },
      "A click on a line lights what belongs to it in every pane: strongly what is of the same operation, weakly what is" +
        " of the same source line (≈). What carries no source location was made by the compiler, which did not say from what.",
    ),
  );
  element.addEventListener("keydown", (e) => {
    if (e.key !== "Escape") return;
    e.preventDefault();
    e.stopPropagation();
    close();
  });
  root.append(element);
  const release = keepOnScreen(root, element);
  button.focus();
}
