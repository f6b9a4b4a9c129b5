import assert from "node:assert/strict";
import { test } from "node:test";
import { isForNotebook } from "../src/lib/shortcuts.ts";

/** A key such as "Ctrl+Shift+s". */
function key(text: string) {
  const parts = text.split("+");
  return {
    key: parts.at(-1)!,
    ctrlKey: parts.includes("Ctrl"),
    metaKey: parts.includes("Meta"),
    altKey: parts.includes("Alt"),
    shiftKey: parts.includes("Shift"),
    getModifierState: (name: string) => parts.includes(name),
  };
}

test("combinations are the notebook's, from a pane and from a field", () => {
  for (const each of ["Ctrl+s", "Meta+s", "Ctrl+Shift+S", "Ctrl+b", "Ctrl+Shift+C", "Ctrl+Shift+f", "F1", "F11"]) {
    assert.equal(isForNotebook(key(each), false), true, each);
    assert.equal(isForNotebook(key(each), true), true, each);
  }
});

test("a cell is run from a pane, and not from a field", () => {
  for (const each of ["Shift+Enter", "Ctrl+Enter", "Alt+Enter"]) {
    assert.equal(isForNotebook(key(each), false), true, each);
    assert.equal(isForNotebook(key(each), true), false, each);
  }
});

test("letters, moves, texts' own keys and what AltGr types are the app's", () => {
  const own = ["b", "a", "dd", "Shift+A", "Enter", "Escape", "ArrowDown", "Ctrl+ArrowDown", "Alt+ArrowLeft", "Tab"];
  for (const each of [...own, "Ctrl+f", "Meta+c", "Ctrl+a", "F3", "Ctrl+Alt+AltGraph+q", "Shift+Tab", "Delete"])
    assert.equal(isForNotebook(key(each), false), false, each);
  assert.equal(isForNotebook(key("Alt+e"), true), false, "a letter on a Mac");
});
