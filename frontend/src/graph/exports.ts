// Exports of the shown graph: SVG and PNG with its appearance, DOT for Graphviz.

import type { Shown } from "./shown.ts";

const COPIED = [
  "fill",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "opacity",
  "font-family",
  "font-size",
  "font-weight",
];
const PIXELS = 2;
const MOST_PIXELS = 8000;

/** Returns a picture as SVG text, with the computed styles as attributes. */
export function svgText(picture: SVGSVGElement, { layout }: Shown): string {
  const copy = picture.cloneNode(true) as SVGSVGElement;
  const [from, to] = [picture.querySelectorAll("*"), copy.querySelectorAll("*")];
  from.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const name of COPIED) {
      if (element.tagName !== "g") to[i]!.setAttribute(name, style.getPropertyValue(name));
    }
    const { transform } = (element as SVGElement).style;
    if (transform) to[i]!.setAttribute("transform", transform.replaceAll("px", ""));
    for (const name of ["class", "style", "id", "role", "tabindex"]) to[i]!.removeAttribute(name);
  });
  const { width, height } = layout.size;
  copy.firstElementChild!.removeAttribute("transform");
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("viewBox", `0 0 ${width} ${height}`);
  copy.setAttribute("width", String(width));
  copy.setAttribute("height", String(height));
  copy.setAttribute("style", `background:${getComputedStyle(picture.parentElement!).backgroundColor}`);
  return new XMLSerializer().serializeToString(copy);
}

export async function pngBlob(text: string, { layout }: Shown): Promise<Blob> {
  const { width, height } = layout.size;
  const scale = Math.min(PIXELS, MOST_PIXELS / Math.max(width, height));
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = new OffscreenCanvas(Math.ceil(width * scale), Math.ceil(height * scale));
  const context = canvas.getContext("2d")!;
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  return await canvas.convertToBlob({ type: "image/png" });
}

/** Returns the graph in DOT, with open boxes as clusters. An edge to an open box ends at the border of its cluster. */
export function dotText({ folding, scene }: Shown): string {
  const { model } = folding;
  const quoted = (text: string): string => `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
  const body = (box: number, indent: string): string[] =>
    [...model.children(box)].flatMap((node) =>
      folding.isOpen(node)
        ? [
            `${indent}subgraph ${quoted(`cluster_${node}`)} {`,
            `${indent}  label=${quoted(model.title(node))};`,
            ...body(node, `${indent}  `),
            `${indent}}`,
          ]
        : [`${indent}n${node} [label=${quoted(model.title(node))}];`],
    );
  const endOf = (node: number): number => (folding.isOpen(node) ? endOf(model.children(node)[0]!) : node);
  const edges = [...scene.links, ...scene.hidden].map(({ from, to }) => {
    const ends = [
      folding.isOpen(from) ? `ltail=${quoted(`cluster_${from}`)}` : "",
      folding.isOpen(to) ? `lhead=${quoted(`cluster_${to}`)}` : "",
    ].filter(Boolean);
    return `  n${endOf(from)} -> n${endOf(to)}${ends.length ? ` [${ends.join(", ")}]` : ""};`;
  });
  return ["digraph {", "  compound=true;", "  node [shape=box];", ...body(scene.top, "  "), ...edges, "}", ""].join(
    "\n",
  );
}
