// Units in the heads of tables: a column whose numbers fit one unit has the unit in its head, not in each cell.

import type * as messages from "../messages.ts";
import { format, threeDigits } from "./format.ts";

/** A described table, or a message that has one. */
interface Table {
  readonly columns: readonly messages.TableHead[];
  readonly rows: readonly { readonly cells: readonly messages.TableCell[] }[];
}

/** A unit that fits all numbers of a column. */
export interface Unit {
  readonly name: string;
  readonly size: number;
}

/** From the largest to the smallest. */
const SECONDS: readonly Unit[] = [
  { name: "s", size: 1 },
  { name: "ms", size: 1e-3 },
  { name: "µs", size: 1e-6 },
  { name: "ns", size: 1e-9 },
];
const BYTES: readonly Unit[] = ["PiB", "TiB", "GiB", "MiB", "KiB", "B"].map((name, i) => ({
  name,
  size: 1024 ** (5 - i),
}));
const KINDS = [SECONDS, BYTES];

/** Numbers in this range can be read in the same unit. */
const SMALLEST = 0.1;
const LARGEST = 10_000;

/** A number with a unit, as Python formats it, after a sign such as `≥`. */
const AMOUNT = /^(\D*)[\d.,]+ (s|ms|µs|ns|[KMGTP]iB|B)$/;

/** Returns the table with units in the heads of the columns where one unit fits all numbers. */
export function withUnitsInHeads<T extends Table>(table: T): T {
  const units = table.columns.map((_, i) => unitOf(table.rows.map(({ cells }) => cells[i]!)));
  if (!units.some(Boolean)) return table;
  const columns = table.columns.map((head, i) => {
    const unit = units[i];
    return unit ? { ...head, title: `${head.title} (${unit.name})` } : head;
  });
  const rows = table.rows.map((row) => ({
    ...row,
    cells: row.cells.map((cell, i) => (units[i] ? inUnit(cell, units[i]) : cell)),
  }));
  return { ...table, columns, rows };
}

/** Returns the table without those of the named columns that have no value in any row. */
export function withoutEmpty<T extends Table>(table: T, ...names: readonly string[]): T {
  const kept = table.columns.map(
    ({ name }, i) => !names.includes(name) || table.rows.some(({ cells }) => cells[i]!.value !== null),
  );
  if (!kept.includes(false)) return table;
  const columns = table.columns.filter((_, i) => kept[i]);
  const rows = table.rows.map((row) => ({ ...row, cells: row.cells.filter((_, i) => kept[i]) }));
  return { ...table, columns, rows };
}

/** Returns the largest unit in which all numbers of a column can be read; null if there is none. */
function unitOf(cells: readonly messages.TableCell[]): Unit | null {
  const amounts = cells.filter(({ value }) => typeof value === "number");
  const found = amounts.map(({ text }) => AMOUNT.exec(text)?.[2]);
  if (!amounts.length || found.includes(undefined)) return null;
  const kind = KINDS.find((units) => units.some(({ name }) => name === found[0]));
  return kind
    ? fitting(
        kind,
        amounts.map(({ value }) => value as number),
      )
    : null;
}

/** Returns the unit for a column of bytes; null if there is none. */
export function unitOfBytes(values: readonly number[]): Unit | null {
  return fitting(BYTES, values);
}

/** Returns a number of bytes in the unit of its column, or with a unit of its own. */
export function bytesIn(unit: Unit | null, value: number): string {
  return unit ? threeDigits(value / unit.size) : format(value, "bytes");
}

function fitting(kind: readonly Unit[], values: readonly number[]): Unit | null {
  const sizes = values.map(Math.abs).filter(Boolean);
  if (!sizes.length) return null;
  const [least, most] = [Math.min(...sizes), Math.max(...sizes)];
  return kind.find(({ size }) => least >= SMALLEST * size && most < LARGEST * size) ?? null;
}

function inUnit(cell: messages.TableCell, { size }: Unit): messages.TableCell {
  if (typeof cell.value !== "number") return cell;
  const sign = AMOUNT.exec(cell.text)?.[1] ?? "";
  return { ...cell, text: sign + threeDigits(cell.value / size) };
}
