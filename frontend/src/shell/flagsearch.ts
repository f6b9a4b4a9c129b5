// Search results for flags in the controls: one row per match, and the details of the active one.

import type { Offer, Suggestion } from "../lib/combobox.ts";
import { h } from "../lib/dom.ts";
import { grouped } from "../lib/format.ts";
import type * as messages from "../messages.ts";

const TARGETS = ["cpu", "gpu", "tpu"];

/** Returns the suggestions for a search in the flag field. `target` is the target of the request. */
export function flagOffer(search: string, reply: messages.Flags, target: string): Offer {
  const { rows, total, note } = reply;
  const words = search
    .toLowerCase()
    .replace(/^--/, "")
    .split(/[\s_-]+/)
    .filter(Boolean);
  const firstIgnored = rows.findIndex((row) => !row.is_taken);
  const suggestions = rows.map((row, index): Suggestion => {
    const heading = index === firstIgnored ? { heading: `Not available for ${target}` } : {};
    return { value: row.name, content: flagRow(row, words), ...heading };
  });
  const more =
    total > rows.length ? `${grouped(total - rows.length)} more. Type more letters to narrow the search.` : "";
  const nothing = `No flag of the installed compilers matches “${search.trim()}”.`;
  return {
    suggestions,
    isFirstActive: search.trim() !== "",
    detail: (active) => {
      const row = rows[active];
      if (row) return flagDetail(row, [more, note]);
      return h("div", {}, ...remarks([rows.length ? more || "Choose a flag." : nothing, note]));
    },
  };
}

/** Returns the suggestions for the value field: the values of a flag, and its details. */
export function valueOffer(flag: messages.Flag): Offer {
  return {
    suggestions: flag.values.map((value) => ({
      value,
      content: [
        h("span", { class: "insp-flag-name" }, value),
        value === flag.default ? h("span", { class: "insp-dim" }, "default") : "",
      ],
    })),
    detail: () => flagDetail(flag, []),
  };
}

/** Joins flags that were copied from several lines, because a field has one line and would drop the line breaks. */
export function oneLine(text: string): string {
  return text
    .replace(/\\?[\r\n]+/g, " ")
    .replace(/\s+/g, " ")
    .trim();
}

/** Returns the value of a boolean flag that differs from its default; "" for other flags. */
export function turned(flag: messages.Flag): string {
  const isBoolean = flag.values.length === 2 && flag.values.includes("true");
  return isBoolean ? (flag.default === "true" ? "false" : "true") : "";
}

function flagRow(flag: messages.Flag, words: readonly string[]): HTMLElement[] {
  return [
    h(
      "div",
      { class: "insp-flag-head" },
      h("span", { class: "insp-flag-name" }, ...marked(flag.name, words)),
      flag.deprecated ? h("span", { class: "insp-flag-old" }, "deprecated") : null,
      h("span", { class: "insp-flag-type" }, `${flag.type} = ${said(flag.default)}`),
      badges(flag),
    ),
    ...(flag.described ? [h("div", { class: "insp-flag-text" }, flag.description)] : []),
  ];
}

function flagDetail(flag: messages.Flag, notes: readonly string[]): HTMLElement {
  const choices = flag.values.length > 2 ? h("p", {}, h("b", {}, "Values "), flag.values.join(", ")) : null;
  return h(
    "div",
    { class: flag.is_taken ? "" : "insp-flag-ignored" },
    h(
      "p",
      {},
      h("b", { class: "insp-flag-name" }, flag.name),
      h("span", { class: "insp-dim" }, ` ${flag.type} · default ${said(flag.default)}`),
      flag.channel ? h("span", { class: "insp-dim" }, ` · ${flag.channel}`) : null,
      h("span", { class: "insp-dim" }, ` · for ${flag.targets.join(", ")}`),
    ),
    h("p", { class: flag.described ? "insp-flag-said" : "insp-flag-said insp-dim" }, flag.description),
    choices,
    ...remarks(notes),
  );
}

function remarks(texts: readonly string[]): HTMLElement[] {
  return texts.filter(Boolean).map((text) => h("p", { class: "insp-dim" }, text));
}

/** Shows which compilers accept a flag, always in the same order, so that the rows align. */
function badges(flag: messages.Flag): HTMLElement {
  const badge = (target: string): HTMLElement =>
    h("span", { class: flag.targets.includes(target) ? "insp-badge" : "insp-badge insp-badge-off" }, target);
  return h(
    "span",
    { class: "insp-badges", title: `For ${flag.targets.join(", ")}`, "aria-label": `for ${flag.targets.join(", ")}` },
    ...TARGETS.map(badge),
  );
}

/** Returns a name with the search words marked. */
function marked(name: string, words: readonly string[]): (HTMLElement | string)[] {
  const isMarked = new Uint8Array(name.length);
  for (const word of words) {
    const at = name.indexOf(word);
    if (at >= 0) isMarked.fill(1, at, at + word.length);
  }
  const parts: (HTMLElement | string)[] = [];
  for (let start = 0, end = 0; start < name.length; start = end) {
    while (end < name.length && isMarked[end] === isMarked[start]) end++;
    const text = name.slice(start, end);
    parts.push(isMarked[start] ? h("mark", {}, text) : text);
  }
  return parts;
}

function said(value: string): string {
  return value || "(empty)";
}
