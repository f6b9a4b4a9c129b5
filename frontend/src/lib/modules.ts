// The app's code as a page gets it: gzip, to be unpacked and run.

import { gunzip } from "./transport.ts";

export async function importCode<T>(code: DataView | Uint8Array): Promise<T> {
  const url = URL.createObjectURL(new Blob([await gunzip(code)], { type: "text/javascript" }));
  try {
    return (await import(url)) as T;
  } finally {
    URL.revokeObjectURL(url);
  }
}
