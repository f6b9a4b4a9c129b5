// The app's code, which is loaded once per page.

import { gunzip } from "./transport.ts";

type App = typeof import("../explorer.ts");

/** Loaded apps by name of the code, so that outputs of different versions of inspector use their own code. */
const apps = ((globalThis as { jaxInspector?: Record<string, Promise<App>> }).jaxInspector ??= {});

/** Returns the app if it is loaded or its code is on the page, else null. */
export function appOnPage(name: string): Promise<App> | null {
  if (name in apps) return apps[name]!;
  const scripts = document.querySelectorAll<HTMLElement>("script[data-code]");
  const code = [...scripts].find(({ dataset }) => dataset["code"] === name);
  return code ? runApp(name, decoded(code)) : null;
}

/** Runs gzip-compressed code unless it has run before. */
export function runApp(name: string, code: DataView | Uint8Array): Promise<App> {
  return (apps[name] ??= importCode(code));
}

/** Decodes the base64 content of a script element. */
export function decoded(element: Element): Uint8Array {
  const characters = atob(element.textContent!.trim());
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = characters.charCodeAt(i);
  return bytes;
}

async function importCode(code: DataView | Uint8Array): Promise<App> {
  const url = URL.createObjectURL(new Blob([await gunzip(code)], { type: "text/javascript" }));
  try {
    return (await import(url)) as App;
  } finally {
    URL.revokeObjectURL(url);
  }
}
