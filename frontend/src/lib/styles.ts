// The app's styles, which are part of its code: put where its elements are, once a page or shadow root.

/** All of `styles/`, by the build. */
declare const STYLES: string;

const dressed = new WeakSet<Node>();

/** Styles the page, and the shadow root that the element turns out to be in. */
export function dress(element: Element): void {
  put(document, document.head);
  requestAnimationFrame(() => {
    const root = element.getRootNode();
    if (root instanceof ShadowRoot) put(root, root);
  });
}

function put(root: Node, parent: Node): void {
  if (dressed.has(root)) return;
  dressed.add(root);
  const style = document.createElement("style");
  style.textContent = STYLES;
  parent.appendChild(style);
}
