// Stored copies of the app, which a notebook shows below it as another output. They are hidden while the app runs.

/** Hides elements of a class and their outputs. Returns a function that shows them again. */
export function hideStored(name: string): () => void {
  const style = document.createElement("style");
  const own = `.${CSS.escape(name)}`;
  // Two rules, so that browsers without `:has` hide at least the element itself. The second one uses child combinators,
  // because otherwise every change inside the app's output would trigger a search for the element.
  const output = `.jp-OutputArea-child:has(> .jp-OutputArea-output > ${own})`;
  style.textContent = `${own} { display: none } ${output} { display: none }`;
  document.head.append(style);
  return () => style.remove();
}
