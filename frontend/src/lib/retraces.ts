// Why calls were traced again, as rows of a table: one for each thing that differed.

import { shortSource } from "./format.ts";
import type { Column } from "./sorting.ts";
import type * as messages from "../messages.ts";

export interface Difference {
  readonly row: messages.RetraceRow;
  /** What differed; of a call of which nothing is known but the cause, that. */
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
  { name: "function", text: "function", title: "By function", value: ({ row }) => row.function },
  { name: "called_at", text: "call", title: "By the line of the call", value: ({ row }) => place(row.called_at) },
  { name: "count", text: "times", title: "How often", isNumber: true, value: ({ row }) => row.count },
  { name: "event", text: "event", title: "JAX traced, or XLA compiled a trace again", value: ({ row }) => row.event },
  { name: "what", text: "what differed", title: "Shape, dtype, weak type, ...", value: ({ what }) => what },
  {
    name: "where",
    text: "argument",
    title: "The argument, or the setting of JAX",
    value: ({ where }) => where || null,
  },
  { name: "now", text: "now", title: "Of this call", value: ({ now }) => now || null },
  { name: "before", text: "before", title: "Of the closest call before", value: ({ before }) => before || null },
];
