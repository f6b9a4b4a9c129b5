// Decoding of buffers that `inspector/widgets/saving/packing.py` writes: templates of lines, and the changes of their
// numbers.

import { gunzip } from "./transport.ts";

export type Packing = "gzip" | "lines" | "differences";

const HEAD_BYTES = 12;
const [NEWLINE, MINUS, ZERO] = [10, 45, 48];
/** Largest number of characters of an int32, with its sign. */
const MOST_DIGITS = 11;

/** Unpacks a buffer. */
export async function unpack(bytes: Uint8Array, packing: Packing): Promise<ArrayBuffer> {
  const unzipped = await gunzip(bytes);
  if (packing === "gzip") return unzipped;
  return packing === "lines" ? decodeLines(unzipped) : decodeDifferences(unzipped);
}

/**
 * Decodes lines to UTF-8 text. Writes bytes, because joining strings of so many parts is slow due to garbage
 * collection.
 */
export function decodeLines(bytes: ArrayBuffer): ArrayBuffer {
  const head = new DataView(bytes, 0, HEAD_BYTES);
  const [size, lineCount, numberCount] = [0, 4, 8].map((at) => head.getUint32(at, true)) as [number, number, number];
  const source = new Uint8Array(bytes, HEAD_BYTES, size);
  const templates = templatesOf(source);
  const lines = column(bytes, HEAD_BYTES + size, lineCount);
  const differences = column(bytes, HEAD_BYTES + size + 4 * lineCount, numberCount);
  let text = new Uint8Array(4 * bytes.byteLength);
  let [end, at] = [0, 0];
  for (let i = 0; i < lineCount; i++) {
    const { parts, before, room } = templates[lines[i]!]!;
    if (end + room > text.length) text = grown(text, end + room);
    if (i > 0) text[end++] = NEWLINE;
    for (let place = 0; place < before.length; place++) {
      end = copied(source, parts[place]!, text, end);
      before[place] = before[place]! + signed(differences[at++]!);
      end = written(before[place]!, text, end);
    }
    end = copied(source, parts[before.length]!, text, end);
  }
  return text.slice(0, end).buffer;
}

/**
 * A line without its numbers: its parts in the source, the last values of its numbers, and its largest size in bytes.
 */
interface Template {
  readonly parts: readonly (readonly [start: number, end: number])[];
  readonly before: Int32Array;
  readonly room: number;
}

function templatesOf(source: Uint8Array): Template[] {
  const templates: Template[] = [];
  let parts: [number, number][] = [];
  let [first, start] = [0, 0];
  for (let i = 0; i <= source.length; i++) {
    const isLast = i === source.length || source[i] === NEWLINE;
    if (!isLast && source[i] !== 0) continue;
    parts.push([start, i]);
    start = i + 1;
    if (!isLast) continue;
    const room = 1 + i - first + MOST_DIGITS * (parts.length - 1);
    templates.push({ parts, before: new Int32Array(parts.length - 1), room });
    [parts, first] = [[], start];
  }
  return templates;
}

function grown(bytes: Uint8Array<ArrayBuffer>, least: number): Uint8Array<ArrayBuffer> {
  const larger = new Uint8Array(Math.max(2 * bytes.length, least));
  larger.set(bytes);
  return larger;
}

/** Copies a part to the end of a text. Returns the new end. */
function copied(source: Uint8Array, [start, stop]: readonly [number, number], text: Uint8Array, end: number): number {
  for (let i = start; i < stop; i++) text[end++] = source[i]!;
  return end;
}

/** Writes a number to the end of a text. Returns the new end. */
function written(value: number, text: Uint8Array, end: number): number {
  if (value < 0) text[end++] = MINUS;
  let rest = Math.abs(value);
  const start = end;
  do end++;
  while ((rest = Math.floor(rest / 10)) > 0);
  rest = Math.abs(value);
  for (let i = end - 1; i >= start; i--) {
    text[i] = ZERO + (rest % 10);
    rest = Math.floor(rest / 10);
  }
  return end;
}

function decodeDifferences(bytes: ArrayBuffer): ArrayBuffer {
  const values = column(bytes, 0, bytes.byteLength / 4);
  const view = new DataView(new ArrayBuffer(bytes.byteLength));
  let value = 0;
  values.forEach((difference, i) => view.setInt32(4 * i, (value = (value + signed(difference)) | 0), true));
  return view.buffer;
}

/** Decodes the zigzag encoding of signed numbers: 0, -1, 1, -2, ... */
function signed(zigzag: number): number {
  return (zigzag >>> 1) ^ -(zigzag & 1);
}

/** Reads int32 numbers that are stored by byte: first all lowest bytes, then the next ones. */
function column(bytes: ArrayBuffer, start: number, count: number): Int32Array {
  const from = new Uint8Array(bytes, start, 4 * count);
  const numbers = new Int32Array(count);
  for (let i = 0; i < count; i++)
    numbers[i] = from[i]! | (from[count + i]! << 8) | (from[2 * count + i]! << 16) | (from[3 * count + i]! << 24);
  return numbers;
}
