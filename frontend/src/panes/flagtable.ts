// A table of the effects of flags on a program, one row for each flag with a value.

import { toolButton } from "../lib/controls.ts";
import { h } from "../lib/dom.ts";
import { formatDelta, type Unit } from "../lib/format.ts";
import type * as messages from "../messages.ts";

type Column =
  "measured_s" | "estimated_s" | "exposed_s" | "peak_bytes" | "flops" | "bytes_accessed" | "kernels" | "collectives";

const COLUMNS: readonly { column: Column; text: string; title: string; unit: Unit }[] = [
  {
    column: "measured_s",
    text: "measured",
    title: "Median measured time of an execution, in turns with the others",
    unit: "seconds",
  },
  { column: "estimated_s", text: "estimated", title: "Estimated time of an execution", unit: "seconds" },
  {
    column: "exposed_s",
    text: "exposed",
    title: "Estimated time in which the device only waits for communication",
    unit: "seconds",
  },
  { column: "peak_bytes", text: "peak", title: "Peak memory", unit: "bytes" },
  { column: "bytes_accessed", text: "bytes", title: "Bytes read and written per execution", unit: "bytes" },
  { column: "flops", text: "flops", title: "FLOPs per execution", unit: "count" },
  { column: "kernels", text: "kernels", title: "Kernels that run per execution", unit: "count" },
  { column: "collectives", text: "collectives", title: "Collectives that run per execution", unit: "count" },
];
const OUTCOMES: Readonly<Record<string, string>> = {
  hlo: "The optimized HLO changes",
  memory: "Same HLO, different memory",
  cost: "Same HLO, different cost",
  code: "Same optimized HLO, different machine code",
  refused: "The compiler rejects the flag",
  crashed: "The compiler crashed in its own process; your session is unaffected",
  "timed out": "Stopped: compiling took much longer than without the flag",
  "not tried": "The time limit was reached",
};

export function flagTable(scan: messages.Scan, add: (row: messages.FlagRow) => void): HTMLElement {
  const columns = COLUMNS.filter(({ column }) => column !== "measured_s" || scan.measure);
  const head = [
    h("th", { scope: "col" }),
    h("th", { scope: "col" }, "flag"),
    h("th", { scope: "col" }, "effect"),
    h("th", { scope: "col" }, "details"),
    ...columns.map(({ text, title }) => h("th", { scope: "col", class: "insp-number", title }, text)),
  ];
  const rows = scan.rows.map((row) => rowOf(row, columns, add));
  return h(
    "table",
    { class: "insp-table insp-flag-table" },
    h("thead", {}, h("tr", {}, ...head)),
    h("tbody", {}, ...rows),
  );
}

function rowOf(row: messages.FlagRow, columns: typeof COLUMNS, add: (row: messages.FlagRow) => void): HTMLElement {
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
    ...columns.map(({ column, unit }) => deltaCell(row[column] ?? null, unit, row.unknown)),
  );
}

function deltaCell(value: number | null, unit: Unit, unknown: string): HTMLElement {
  const dim = value ? "" : " insp-dim";
  const worse = value ? (value > 0 ? " insp-worse" : " insp-better") : "";
  const text = value === null ? "–" : value ? formatDelta(value, unit) : "0";
  return h("td", { class: `insp-number${dim}${worse}`, title: value === null ? unknown : String(value) }, text);
}
