// The app's interface to an anywidget model, and decoding of buffers.

/** The part of anywidget's model that the app uses. The demo page implements a fake one. */
export interface Model {
  on(name: string, callback: (...values: never[]) => void): void;
  off(name: string, callback?: ((...values: never[]) => void) | null): void;
  send(content: unknown): void;
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  save_changes(): void;
  /** For a model that replays a recording. */
  readonly recorded?: Recorded;
}

export interface Recorded {
  /** The date and version of the recording. */
  readonly about: string;
  /** Advice on how to get more. */
  readonly remedy: string;
  /** The number of the exploration on a saved page, for links into it; null in a notebook. */
  readonly number: number | null;
}

/** Buffers that are already unpacked. Recordings are packed in another way. */
export const unpacked = new WeakSet<object>();

/** Unpacks gzip, off the main thread in browsers. */
export async function gunzip(buffer: DataView | ArrayBuffer | Uint8Array): Promise<ArrayBuffer> {
  const bytes = ArrayBuffer.isView(buffer)
    ? new Uint8Array(buffer.buffer as ArrayBuffer, buffer.byteOffset, buffer.byteLength)
    : new Uint8Array(buffer);
  if (unpacked.has(buffer)) return bytes.buffer;
  const stream = new DecompressionStream("gzip");
  const writer = stream.writable.getWriter();
  const whole = new Response(stream.readable).arrayBuffer();
  await Promise.all([writer.write(bytes), writer.close(), whole]); // reports the first failure
  return await whole;
}

export function decodeText(bytes: ArrayBuffer): string {
  return new TextDecoder().decode(bytes);
}

export function decodeJson<T>(bytes: ArrayBuffer): T {
  return JSON.parse(decodeText(bytes)) as T;
}

/** Decodes little-endian int32 on any machine. */
export function decodeInt32(bytes: ArrayBuffer): Int32Array {
  const isLittleEndian = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;
  if (isLittleEndian) return new Int32Array(bytes);
  const view = new DataView(bytes);
  return Int32Array.from({ length: bytes.byteLength / 4 }, (_, i) => view.getInt32(i * 4, true));
}
