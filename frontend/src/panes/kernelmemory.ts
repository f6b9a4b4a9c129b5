// Fast memory of a kernel: a bar of its allocations and the limit, and the compiler's error if it rejected the kernel.

import { h } from "../lib/dom.ts";
import { baseName, format } from "../lib/format.ts";
import type * as messages from "../messages.ts";

const COLORS = 8;

export function memoryBudget(row: messages.KernelMessage): HTMLElement {
  const { memory } = row;
  const title = h("h4", {}, memory ? `VMEM on ${memory.chip}` : "Fast memory");
  if (!memory) return h("section", {}, title, h("p", { class: "insp-unavailable" }, row.memory_reason));
  const kind = memory.fits === null ? "insp-dim" : memory.fits ? "insp-good" : "insp-bad";
  return h(
    "section",
    { class: "insp-memory" },
    title,
    h(
      "p",
      {},
      memory.how_sure,
      h("strong", {}, format(memory.total_bytes, "bytes")),
      ` of ${format(memory.limit_bytes, "bytes")} (${memory.limit_source}; the core has ${format(memory.capacity_bytes, "bytes")}): `,
      h("span", { class: kind }, memory.verdict),
    ),
    bar(memory.allocations, memory.limit_bytes),
    table(memory.allocations),
    h("p", { class: "insp-dim" }, memory.remark),
  );
}

/** Draws the allocations to scale, with the limit as a line. */
function bar(allocations: readonly messages.KernelAllocation[], limit: number): HTMLElement {
  const total = allocations.reduce((sum, a) => sum + bytesOf(a), 0);
  const scale = Math.max(total, limit) || 1;
  const parts = allocations.map((a, i) =>
    h("span", {
      style: `width:${(100 * bytesOf(a)) / scale}%;background:var(--insp-group-${i % COLORS})`,
      title: `${a.name}: ${format(bytesOf(a), "bytes")}`,
    }),
  );
  const line = h("i", {
    class: "insp-limit",
    style: `left:${(100 * limit) / scale}%`,
    title: `Limit: ${format(limit, "bytes")}`,
  });
  return h("div", { class: "insp-memory-bar", role: "img", "aria-label": "Memory use and limit" }, ...parts, line);
}

function table(allocations: readonly messages.KernelAllocation[]): HTMLElement {
  const rows = allocations.map((a, i) =>
    h(
      "tr",
      {},
      h(
        "th",
        { scope: "row" },
        h("i", { class: "insp-key", style: `background:var(--insp-group-${i % COLORS})`, "aria-hidden": "true" }),
        a.name,
      ),
      h("td", { class: "insp-dim" }, a.what),
      h(
        "td",
        { class: "insp-number insp-dim" },
        a.buffers > 1 ? `${a.buffers} × ${format(a.size_bytes, "bytes")}` : "",
      ),
      h("td", { class: "insp-number" }, format(bytesOf(a), "bytes")),
    ),
  );
  return h("table", { class: "insp-table" }, h("tbody", {}, ...rows));
}

function bytesOf(allocation: messages.KernelAllocation): number {
  return allocation.buffers * allocation.size_bytes;
}

/** Summarizes the rejection with its numbers, followed by the compiler's own message. */
export function troubleBox(trouble: messages.KernelTrouble, error: messages.Error | null): HTMLElement {
  const { asked_bytes: asked, limit_bytes: limit, source } = trouble;
  return h(
    "div",
    { class: "insp-trouble", role: "alert" },
    h(
      "div",
      { class: "insp-trouble-title" },
      h("span", { class: "insp-bad" }, "✗ "),
      "Rejected by the compiler: ",
      trouble.summary,
    ),
    asked !== null && limit !== null && bar([{ name: "Requested", what: "", buffers: 1, size_bytes: asked }], limit),
    source && h("div", { title: source.file }, `at ${baseName(source.file)}:${source.line}`),
    trouble.advice.length > 0 && h("ul", {}, ...trouble.advice.map((sentence) => h("li", {}, sentence))),
    trouble.allocations.length > 0 && table(trouble.allocations),
    trouble.help_url && h("div", { class: "insp-dim" }, `Compiler documentation: ${trouble.help_url}`),
    error && h("details", {}, h("summary", {}, "Compiler message"), h("pre", {}, error.message)),
  );
}
