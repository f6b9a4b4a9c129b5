// A list of all keyboard shortcuts.

import { toolButton } from "../lib/controls.ts";
import { h } from "../lib/dom.ts";
import { keepOnScreen } from "../lib/overlay.ts";
import type { Command } from "./commands.ts";

const OF_TEXTS: readonly (readonly [string, string])[] = [
  ["↑ ↓", "Select the line above or below"],
  ["Ctrl+F", "Find in the text"],
  ["F3", "Next search result"],
  ["Double click, Ctrl+click", "Go to the definition of a name"],
  ["Tab", "Next control; ← → switch tabs"],
  ["Ctrl+wheel", "Zoom a graph or chart"],
];
const OF_GRAPHS: readonly (readonly [string, string])[] = [
  ["← → ↑ ↓", "Move between nodes"],
  ["Enter, Esc", "Open or select a node, close its box"],
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
    { class: "insp-help insp-scroll", role: "dialog", "aria-label": "Keyboard shortcuts" },
    h("div", { class: "insp-help-head" }, h("b", {}, "Keyboard shortcuts"), button),
    h("table", {}, ...commands.filter(({ key }) => key).map(({ key, name }) => row(key, name))),
    h("b", {}, "Texts"),
    h("table", {}, ...OF_TEXTS.map(([key, name]) => row(key, name))),
    h("b", {}, "Graph"),
    h("table", {}, ...OF_GRAPHS.map(([key, name]) => row(key, name))),
    h(
      "p",
      { class: "insp-dim" },
      "Clicking a line highlights related lines in every pane: strongly for the same operation, weakly for the same source" +
        " line (≈). Lines without a source location were created by the compiler.",
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
