// Downloads.

/** Makes the browser save a file. */
export function save(name: string, content: Blob | string): void {
  const blob = typeof content === "string" ? new Blob([content]) : content;
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
