// The reasons for retraces as rows of a table, one for each difference.

import { shortSource } from "./format.ts";
import type { Column } from "./sorting.ts";
import type * as messages from "../messages.ts";

export interface Difference {
  readonly row: messages.RetraceRow;
  /** The kind of difference, or the cause if nothing else is known of a call. */
  readonly what: string;
  readonly where: string;
  readonly now: string;
  readonly before: string;
}

export function differences(rows: readonly messages.RetraceRow[]): Difference[] {
  return rows.flatMap((row) =>
    row.changes.length
      ? row.changes.map((change) => ({ row, ...change }))
      : [{ row, what: row.cause, where: "", now: row.remark, before: "" }],
  );
}

const place = (source: messages.SourceLine | null): string | null => source && shortSource(source);

export const COLUMNS: readonly Column<Difference>[] = [
  { name: "function", text: "function", title: "Sort by function", value: ({ row }) => row.function },
  { name: "called_at", text: "call", title: "Sort by line of the call", value: ({ row }) => place(row.called_at) },
  { name: "count", text: "times", title: "Number of calls", isNumber: true, value: ({ row }) => row.count },
  {
    name: "event",
    text: "event",
    title: "JAX traced again, or XLA compiled a trace again",
    value: ({ row }) => row.event,
  },
  { name: "what", text: "difference", title: "Shape, dtype, weak type, ...", value: ({ what }) => what },
  {
    name: "where",
    text: "argument",
    title: "Argument or JAX setting",
    value: ({ where }) => where || null,
  },
  { name: "now", text: "now", title: "Value in this call", value: ({ now }) => now || null },
  {
    name: "before",
    text: "before",
    title: "Value in the most similar earlier call",
    value: ({ before }) => before || null,
  },
];
