// Foreign SVG made harmless: known elements and attributes, no scripts, no links to anywhere.

const ELEMENTS = new Set(
  "svg g path polygon polyline ellipse circle rect line text tspan title defs marker lineargradient stop clippath".split(
    " ",
  ),
);
const ATTRIBUTES = new Set(
  (
    "id class viewbox width height transform d points x y x1 y1 x2 y2 cx cy r rx ry dx dy fill stroke opacity " +
    "stroke-width stroke-dasharray stroke-opacity fill-opacity fill-rule text-anchor font-size font-weight " +
    "font-style font-family offset stop-color stop-opacity marker-end marker-start markerwidth markerheight " +
    "refx refy orient clip-path xmlns"
  ).split(" "),
);

/** The SVG element in `text`, cleaned; null when there is none. */
export function cleanSvg(text: string): SVGSVGElement | null {
  const start = text.indexOf("<svg");
  if (start < 0) return null;
  // Graphviz declares xlink on the root; parsed as HTML there are no namespaces to get wrong.
  const parsed = new DOMParser().parseFromString(text.slice(start), "text/html");
  const root = parsed.querySelector("svg");
  if (!root) return null;
  clean(root);
  return document.importNode(root, true);
}

function clean(element: Element): void {
  for (const attribute of [...element.attributes]) {
    if (!isHarmless(attribute)) element.removeAttribute(attribute.name);
  }
  for (const child of [...element.children]) {
    const name = child.localName.toLowerCase();
    if (name === "a") {
      child.replaceWith(...flattened(child));
    } else if (ELEMENTS.has(name)) {
      clean(child);
    } else {
      child.remove();
    }
  }
}

/** Graphviz wraps what has a tooltip or a link in `<a>`: its content stays. */
function flattened(link: Element): ChildNode[] {
  clean(link);
  return [...link.childNodes];
}

function isHarmless({ name, value }: Attr): boolean {
  if (!ATTRIBUTES.has(name.toLowerCase())) return false;
  return !/url\s*\(/i.test(value) || /^\s*url\(\s*["']?#[\w.\-]+["']?\s*\)\s*$/i.test(value);
}
