// Settings that the browser stores across pages.

const PREFIX = "inspector.explorer.";

// Storage may be forbidden, as in a sandboxed frame. Settings are then not stored.
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
