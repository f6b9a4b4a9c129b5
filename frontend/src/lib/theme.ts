// The theme, light or dark: that of JupyterLab, Notebook or VS Code, the `color-scheme` of any other page, or the
// system's.

/** Keeps `data-theme` of `root` up to date. Returns a function that stops this. */
export function followTheme(root: HTMLElement): () => void {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = (): void => {
    root.dataset["theme"] = isDark(root.parentElement ?? document.body, system.matches) ? "dark" : "light";
  };
  const observer = new MutationObserver(apply);
  for (const element of [document.body, document.documentElement]) {
    observer.observe(element, {
      attributes: true,
      attributeFilter: ["data-jp-theme-light", "data-vscode-theme-kind", "data-theme", "data-md-color-scheme", "class"],
    });
  }
  system.addEventListener("change", apply);
  apply();
  return () => {
    observer.disconnect();
    system.removeEventListener("change", apply);
  };
}

function isDark(around: Element, systemIsDark: boolean): boolean {
  const { jpThemeLight, vscodeThemeKind } = document.body.dataset;
  if (jpThemeLight !== undefined) return jpThemeLight === "false";
  if (vscodeThemeKind !== undefined)
    return vscodeThemeKind.includes("dark") || vscodeThemeKind === "vscode-high-contrast";
  const { colorScheme } = getComputedStyle(around);
  return colorScheme === "dark" || (colorScheme !== "light" && systemIsDark);
}
