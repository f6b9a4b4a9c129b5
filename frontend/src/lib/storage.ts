// What the browser remembers from one page to the next.

const PREFIX = "inspector.explorer.";

// Storage may be forbidden (a sandboxed frame): what is remembered then lives as long as the page.
export function recall(name: string): unknown {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + name) ?? "null");
  } catch {
    return null;
  }
}

export function remember(name: string, value: unknown): void {
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // see recall
  }
}
