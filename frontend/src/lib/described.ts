// Tables whose columns Python describes once for all views (`inspector/support/columns.py`).

import type * as messages from "../messages.ts";
import { h } from "./dom.ts";
import type { Column } from "./sorting.ts";

/** A row with its cells in the order of the headings. */
interface Described {
  readonly cells: readonly messages.TableCell[];
}

/**
 * Returns the columns of a described table.
 *
 * @param values are the values, for sorting and copying, of columns whose cells the browser draws itself.
 */
export function columnsOf<Row extends Described>(
  heads: readonly messages.TableHead[],
  values: Record<string, Column<Row>["value"]> = {},
): Column<Row>[] {
  return heads.map(({ name, title, tooltip, is_number }, i) => ({
    name,
    text: title,
    title: tooltip,
    isNumber: is_number,
    value: values[name] ?? (({ cells }) => cells[i]!.value),
  }));
}

/** Returns the text of a cell as Python formatted it; "" if the cell is empty. */
export function textOf({ value, text }: messages.TableCell): string {
  return text || String(value ?? "");
}

/** Returns a cell as Python formatted it: gray if unknown, with the reason as tooltip. */
export function cellOf(head: messages.TableHead, cell: messages.TableCell): HTMLElement {
  const { value, note } = cell;
  const text = textOf(cell);
  const attributes = { class: head.is_number ? "insp-number" : "", title: note || head.tooltip };
  const isUnknown = value === null && note !== "";
  return h("td", attributes, isUnknown ? h("span", { class: "insp-unavailable" }, text) : text || "–");
}
