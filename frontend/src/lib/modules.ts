// The app's code: one copy a page, whoever brought it.

import { gunzip } from "./transport.ts";

type App = typeof import("../explorer.ts");

/** By the name of the code, so that a page never runs what another version of inspector brought. */
const apps = ((globalThis as { jaxInspector?: Record<string, Promise<App>> }).jaxInspector ??= {});

/** The app, once it is there: on this page already, or in an output of the notebook that has it. */
export function appOnPage(name: string): Promise<App> | null {
  if (name in apps) return apps[name]!;
  const scripts = document.querySelectorAll<HTMLElement>("script[data-code]");
  const code = [...scripts].find(({ dataset }) => dataset["code"] === name);
  return code ? runApp(name, decoded(code)) : null;
}

/** Runs the code, gzip, if nobody has. */
export function runApp(name: string, code: DataView | Uint8Array): Promise<App> {
  return (apps[name] ??= importCode(code));
}

/** What a script element with base64 holds. */
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
