// What flags did to a program, one row a flag with a value.

import { toolButton } from "../lib/controls.ts";
import { h } from "../lib/dom.ts";
import { formatDelta, type Unit } from "../lib/format.ts";
import type * as messages from "../messages.ts";

type Column = "peak_bytes" | "flops" | "bytes_accessed" | "kernels" | "collectives";

const COLUMNS: readonly { column: Column; text: string; title: string; unit: Unit }[] = [
  { column: "peak_bytes", text: "peak", title: "Memory at the peak", unit: "bytes" },
  { column: "bytes_accessed", text: "bytes", title: "Bytes read and written in one execution", unit: "bytes" },
  { column: "flops", text: "flops", title: "Operations of one execution", unit: "count" },
  { column: "kernels", text: "kernels", title: "Kernels that run in one execution", unit: "count" },
  { column: "collectives", text: "collectives", title: "Collectives that run in one execution", unit: "count" },
];
const OUTCOMES: Readonly<Record<string, string>> = {
  hlo: "The optimized HLO is another one",
  memory: "The same HLO, with other memory",
  cost: "The same HLO, counted otherwise",
  code: "The same optimized HLO, other machine code",
  refused: "The compiler refuses it",
  crashed: "The compiler crashes; that cost a process of its own",
  "timed out": "It took much longer than without the flag, and was stopped",
  "not tried": "The time was over",
};

export function flagTable(scan: messages.Scan, add: (row: messages.FlagRow) => void): HTMLElement {
  const head = [
    h("th", { scope: "col" }),
    h("th", { scope: "col" }, "flag"),
    h("th", { scope: "col" }, "changes"),
    h("th", { scope: "col" }, "what changed"),
    ...COLUMNS.map(({ text, title }) => h("th", { scope: "col", class: "insp-number", title }, text)),
  ];
  const rows = scan.rows.map((row) => rowOf(row, add));
  return h(
    "table",
    { class: "insp-table insp-flag-table" },
    h("thead", {}, h("tr", {}, ...head)),
    h("tbody", {}, ...rows),
  );
}

function rowOf(row: messages.FlagRow, add: (row: messages.FlagRow) => void): HTMLElement {
  const name = `${row.flag}=${row.value}`;
  const isBad = ["refused", "crashed", "timed out"].includes(row.outcome);
  return h(
    "tr",
    { class: isBad ? "insp-flag-failed" : "" },
    h(
      "td",
      {},
      toolButton("plus", `Add ${name} as a variant`, () => add(row)),
    ),
    h("th", { scope: "row", title: row.warning || name }, h("code", {}, name)),
    h("td", { title: OUTCOMES[row.outcome] ?? "" }, h("span", { class: "insp-tag" }, row.outcome)),
    h("td", { class: "insp-flag-words", title: row.words }, row.words),
    ...COLUMNS.map(({ column, unit }) => deltaCell(row[column], unit, row.unknown)),
  );
}

function deltaCell(value: number | null, unit: Unit, unknown: string): HTMLElement {
  const dim = value ? "" : " insp-dim";
  const worse = value ? (value > 0 ? " insp-worse" : " insp-better") : "";
  const text = value === null ? "–" : value ? formatDelta(value, unit) : "0";
  return h("td", { class: `insp-number${dim}${worse}`, title: value === null ? unknown : String(value) }, text);
}
