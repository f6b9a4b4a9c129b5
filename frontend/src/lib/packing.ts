// Buffers as `inspector/widgets/packing.py` writes them: lines as templates, and what changes in their numbers.

import { gunzip } from "./transport.ts";

export type Packing = "gzip" | "lines" | "differences";

const HEAD_BYTES = 12;

/** What a message says. */
export async function unpack(bytes: Uint8Array, packing: Packing): Promise<ArrayBuffer> {
  const unzipped = await gunzip(bytes);
  if (packing === "gzip") return unzipped;
  return packing === "lines" ? decodeLines(unzipped) : decodeDifferences(unzipped);
}

/** The text, UTF-8. */
export function decodeLines(bytes: ArrayBuffer): ArrayBuffer {
  const head = new DataView(bytes, 0, HEAD_BYTES);
  const [size, lineCount, numberCount] = [0, 4, 8].map((at) => head.getUint32(at, true)) as [number, number, number];
  const templates = new TextDecoder()
    .decode(new Uint8Array(bytes, HEAD_BYTES, size))
    .split("\n")
    .map((template) => template.split("\0"));
  const lines = column(bytes, HEAD_BYTES + size, lineCount);
  const differences = column(bytes, HEAD_BYTES + size + 4 * lineCount, numberCount);
  const before = templates.map((parts) => new Int32Array(parts.length - 1));
  const text: string[] = [];
  let at = 0;
  for (const number of lines) {
    const parts = templates[number]!;
    const numbers = before[number]!;
    let line = parts[0]!;
    for (let i = 0; i < numbers.length; i++) {
      numbers[i] = numbers[i]! + signed(differences[at++]!);
      line += numbers[i]! + parts[i + 1]!;
    }
    text.push(line);
  }
  return new TextEncoder().encode(text.join("\n")).buffer;
}

function decodeDifferences(bytes: ArrayBuffer): ArrayBuffer {
  const values = column(bytes, 0, bytes.byteLength / 4);
  const view = new DataView(new ArrayBuffer(bytes.byteLength));
  let value = 0;
  values.forEach((difference, i) => view.setInt32(4 * i, (value = (value + signed(difference)) | 0), true));
  return view.buffer;
}

/** A number of either sign, which was written as one without: 0, -1, 1, -2, ... */
function signed(zigzag: number): number {
  return (zigzag >>> 1) ^ -(zigzag & 1);
}

/** Numbers of which all first bytes stand first. */
function column(bytes: ArrayBuffer, start: number, count: number): Int32Array {
  const from = new Uint8Array(bytes, start, 4 * count);
  const numbers = new Int32Array(count);
  for (let i = 0; i < count; i++)
    numbers[i] = from[i]! | (from[count + i]! << 8) | (from[2 * count + i]! << 16) | (from[3 * count + i]! << 24);
  return numbers;
}
