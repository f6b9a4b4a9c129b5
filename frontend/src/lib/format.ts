// Numbers as text, in the same format as inspector/support/units.py.

export type Unit = "bytes" | "count" | "seconds";

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const DECIMAL = ["", "k", "M", "G", "T", "P", "E"];

/** `1536, "bytes"` -> `1.5 KiB`. */
export function format(value: number, unit: Unit): string {
  if (unit === "bytes") return scaled(value, 1024, BINARY, " ");
  if (unit === "count") return scaled(value, 1000, DECIMAL, "");
  return formatSeconds(value);
}

/** `197e12, "flop/s"` -> `197 Tflop/s`. */
export function formatRate(value: number, unit: string): string {
  const text = scaled(value, 1000, DECIMAL, " ");
  return text.includes(" ") ? text + unit : `${text} ${unit}`;
}

/** `0.00125` -> `1.25 ms`. */
export function formatSeconds(value: number): string {
  for (const [scale, unit] of [
    [1, "s"],
    [1e-3, "ms"],
    [1e-6, "µs"],
  ] as const) {
    if (Math.abs(value) >= scale * ROUNDS_UP) return `${significant(value / scale)} ${unit}`;
  }
  return value ? `${significant(value / 1e-9)} ns` : "0 s";
}

/** Returns the text of a running clock, with a stable number of digits: `4.2 s`, `1:05`. */
export function formatElapsed(value: number): string {
  if (value < 60) return `${value.toFixed(value < 9.95 ? 1 : 0)} s`;
  const whole = Math.floor(value);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

/** Returns a difference with its sign, such as `+1.5 KiB`, with a minus sign (not a hyphen). */
export function formatDelta(value: number, unit: Unit): string {
  return (value < 0 ? "−" : "+") + format(Math.abs(value), unit);
}

/** Returns the change from `base` to `value` in percent, such as `−12.5 %`; "from 0" if the base is zero. */
export function formatPercent(value: number, base: number): string {
  if (base === 0) return value === 0 ? "0 %" : "from 0";
  const percent = ((value - base) / Math.abs(base)) * 100;
  const digits = Math.abs(percent) < 9.95 ? 1 : 0;
  const text = Math.abs(percent).toFixed(digits);
  if (Number(text) === 0) return percent === 0 ? "0 %" : "<0.1 %";
  return `${percent < 0 ? "−" : "+"}${text} %`;
}

/** `1, "line"` -> `1 line`, with thousands separators. */
export function plural(count: number, word: string, many = `${word}s`): string {
  return `${grouped(count)} ${count === 1 ? word : many}`;
}

/** `1234567` -> `1,234,567`. Not `toLocaleString`, whose first call takes 50 ms. */
export function grouped(count: number): string {
  return String(count).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** Returns a short form of a source line, such as `model.py:12`. */
export function shortSource({ file, line, library }: { file: string; line: number | null; library?: string }): string {
  const own = line === null ? baseName(file) : `${baseName(file)}:${line}`;
  return library ? `${own} (${baseName(library)})` : own;
}

/** Returns a source line with its whole path, and the library line below it in the stack. */
export function wholeSource({ file, line, library }: { file: string; line: number | null; library?: string }): string {
  return `${file}:${line ?? "?"}${library ? `\ncalls ${library}` : ""}`;
}

/** Returns the last part of a path. */
export function baseName(path: string): string {
  return path.slice(Math.max(path.lastIndexOf("/"), path.lastIndexOf("\\")) + 1) || path;
}

/**
 * 999.6 rounded to three digits is 1000, which belongs to the next unit. The same as in `inspector/support/units.py`.
 */
const ROUNDS_UP = 0.9995;

function scaled(value: number, base: number, units: string[], separator: string): string {
  let power = 0;
  let rest = value;
  while (Math.abs(rest) >= base * ROUNDS_UP && power < units.length - 1) {
    if (power === 0 && Number.isInteger(rest) && Math.abs(rest) < base) break; // small integers are not rounded
    rest /= base;
    power += 1;
  }
  const text = power === 0 && Number.isInteger(rest) ? String(rest) : significant(rest);
  return (text + separator + units[power]).trim();
}

/** Returns a number with three significant digits: `1823` -> `1820`. */
export function threeDigits(value: number): string {
  return String(Number(value.toPrecision(3)));
}

function significant(value: number): string {
  return Math.abs(value) >= 1000 ? value.toFixed(0) : threeDigits(value);
}
