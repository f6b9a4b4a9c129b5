"""The contrast of the text on a page with its background, as WCAG 2.2 defines it, also where an opacity dims it."""

from __future__ import annotations

from typing import NamedTuple

from playwright.sync_api import Page

AA = 4.5
"""The least contrast of text of up to 18 points in level AA."""


class Contrast(NamedTuple):
    """The contrast of a piece of text: its ratio, the element and a part of the text."""

    ratio: float
    element: str
    text: str


CONTRAST = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const cache = new Map();
  const rgba = (color) => {
    if (!cache.has(color)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = color;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      cache.set(color, [r, g, b, a / 255]);
    }
    return cache.get(color);
  };
  const over = ([r, g, b, a], under) => [r, g, b].map((c, i) => c * a + under[i] * (1 - a));
  const luminance = (color) => {
    const [r, g, b] = color.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => {
    const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const first = (image) => /(?:rgba?|color|oklab|oklch)\\([^()]*\\)/.exec(image)?.[0];
  /** The backgrounds and the opacity at an element: plain colors, and the first color of gradients, which are bars. */
  const known = new Map();
  const at = (element) => {
    if (!element) return { bases: [[255, 255, 255]], opacity: 1 };
    if (!known.has(element)) {
      const before = at(element.parentElement);
      const { backgroundColor, backgroundImage, opacity } = getComputedStyle(element);
      let bases = before.bases.map((base) => over(rgba(backgroundColor), base));
      const bar = backgroundImage.includes("gradient") && first(backgroundImage);
      if (bar) bases = [...bases, ...bases.map((base) => over(rgba(bar), base))];
      if (opacity < 1) bases = bases.map((base, i) => over([...base, +opacity], before.bases[i % before.bases.length]));
      known.set(element, { bases, opacity: before.opacity * opacity });
    }
    return known.get(element);
  };
  const named = (element) => {
    const of = (e) => e.tagName.toLowerCase() + [...e.classList].map((c) => "." + c).join("");
    return `${element.parentElement ? of(element.parentElement) + " > " : ""}${of(element)}`;
  };
  const found = [];
  const walker = document.createTreeWalker(document.querySelector(".insp"), NodeFilter.SHOW_TEXT);
  const measured = new Set();
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || measured.has(element) || element.closest("style, script, title, desc")) continue;
    measured.add(element);
    const box = element.getBoundingClientRect();
    if (box.width < 2 || box.height < 2 || box.bottom < 0 || box.top > innerHeight) continue;
    if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const style = getComputedStyle(element);
    const paint = element instanceof SVGElement ? style.fill : style.color;
    const [r, g, b, a] = rgba(paint);
    const { bases, opacity: dimmed } = at(element);
    const opacity = a * dimmed;
    const least = Math.min(...bases.map((base) => ratio(over([r, g, b, opacity], base), base)));
    found.push([least, named(element), node.data.trim().slice(0, 40)]);
  }
  return found;
}"""


def contrasts(page: Page) -> list[Contrast]:
    """Returns the contrast of every visible piece of text in the Explorer; of the lower one where a bar is behind it."""
    return [Contrast(*each) for each in page.evaluate(CONTRAST)]
