// What a notebook keeps of the app stands below it as another output; the page hides it while the app is there.

/** Hides elements of a class, and the output around them; gives the function that shows them again. */
export function hideStored(name: string): () => void {
  const style = document.createElement("style");
  const own = `.${CSS.escape(name)}`;
  // Two rules: a browser that cannot read the second one still hides the element itself.
  style.textContent = `${own} { display: none } .jp-OutputArea-child:has(${own}) { display: none }`;
  document.head.append(style);
  return () => style.remove();
}
