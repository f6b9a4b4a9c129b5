// The app's styles, which are part of its code. They are added once per page or shadow root.

/** All styles in `styles/`, inserted by the build. */
declare const STYLES: string;

const styled = new WeakSet<Node>();

/** Adds the styles to the page, and to the shadow root of the element if there is one. */
export function addStyles(element: Element): void {
  put(document, document.head);
  requestAnimationFrame(() => {
    const root = element.getRootNode();
    if (root instanceof ShadowRoot) put(root, root);
  });
}

function put(root: Node, parent: Node): void {
  if (styled.has(root)) return;
  styled.add(root);
  const style = document.createElement("style");
  style.textContent = STYLES;
  parent.appendChild(style);
}
