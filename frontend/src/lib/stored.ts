// What a notebook keeps of the app stands below it as another output; the page hides it while the app is there.

/** Hides elements of a class, and the output around them; gives the function that shows them again. */
export function hideStored(name: string): () => void {
  const style = document.createElement("style");
  const own = `.${CSS.escape(name)}`;
  // Two rules: a browser that cannot read the second one still hides the element itself. It says how deep the element
  // is: else whatever is drawn inside of the app's own output would be looked through for it.
  const output = `.jp-OutputArea-child:has(> .jp-OutputArea-output > ${own})`;
  style.textContent = `${own} { display: none } ${output} { display: none }`;
  document.head.append(style);
  return () => style.remove();
}
