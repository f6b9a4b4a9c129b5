// Texts as `inspector/widgets/line_coding.py` writes them: lines as templates, and what changes in their numbers.

const HEAD_BYTES = 12;

/** The text, UTF-8. */
export function decodeLines(bytes: ArrayBuffer): Uint8Array {
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
    const [first, ...rest] = templates[number]!;
    const numbers = before[number]!;
    let line = first!;
    for (let i = 0; i < rest.length; i++) {
      const zigzag = differences[at++]!;
      numbers[i] = numbers[i]! + ((zigzag >>> 1) ^ -(zigzag & 1));
      line += numbers[i]! + rest[i]!;
    }
    text.push(line);
  }
  return new TextEncoder().encode(text.join("\n"));
}

/** Numbers of which all first bytes stand first. */
function column(bytes: ArrayBuffer, start: number, count: number): Int32Array {
  const from = new Uint8Array(bytes, start, 4 * count);
  return Int32Array.from(
    { length: count },
    (_, i) => from[i]! | (from[count + i]! << 8) | (from[2 * count + i]! << 16) | (from[3 * count + i]! << 24),
  );
}
