"""Writes the saved page and the picture of README: JAX_PLATFORMS=cpu python docs/make_picture.py (needs Chromium and the extra `test`)."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
from playwright.sync_api import sync_playwright

from inspector import explore

DOCS = Path(__file__).resolve().parent
PAGE = DOCS / "examples" / "train_step.html"


def loss(params: dict[str, jax.Array], x: jax.Array, y: jax.Array) -> jax.Array:
    """Returns the mean squared error of a small network."""
    hidden = jax.nn.gelu(x @ params["up"] + params["bias"])
    with jax.named_scope("output"):
        return jnp.mean((jax.nn.softmax(hidden @ params["down"]) - y) ** 2)


def train_step(params: dict[str, jax.Array], x: jax.Array, y: jax.Array) -> tuple[dict[str, jax.Array], jax.Array]:
    """Returns the updated parameters and the loss."""
    value, gradients = jax.value_and_grad(loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), value


def main() -> None:
    """Compiles two variants, saves their page and takes a picture of it."""
    f32 = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.float32)  # noqa: E731
    params = {"up": f32(256, 1024), "bias": f32(1024), "down": f32(1024, 256)}
    explorer = explore(
        train_step, params, f32(64, 256), f32(64, 256), target="cpu", compare=[{"xla_cpu_enable_fast_math": True}]
    )
    explorer.wait(120)
    explorer.save_html(PAGE)
    explorer.close()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme="light")
        page.goto(PAGE.as_uri())
        page.wait_for_selector(".cm-line")
        page.wait_for_timeout(2000)
        page.locator(".cm-line", has_text="jax.nn.gelu").first.click(position={"x": 60, "y": 6})
        page.wait_for_timeout(1500)
        page.screenshot(path=DOCS / "explorer.png")
        browser.close()


if __name__ == "__main__":
    main()
