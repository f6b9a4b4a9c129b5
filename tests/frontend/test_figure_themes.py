"""Pictures of matplotlib in notebooks: dark in a dark theme, white in a light one."""

from __future__ import annotations

import io

import pytest
from PIL import Image
from playwright.sync_api import BrowserContext

from inspector.analysis.figures import Picture

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.mark.parametrize(
    ("body", "is_dark"),
    [
        ('data-jp-theme-light="false"', True),
        ('data-jp-theme-light="true"', False),
        ('class="vscode-dark"', True),
        ('class="vscode-high-contrast-light vscode-high-contrast"', False),
    ],
)
def test_a_picture_follows_the_theme(profile: BrowserContext, body: str, is_dark: bool) -> None:
    picture = Picture(figsize=(4, 3))
    picture.subplots().set_title("peak memory")
    page = profile.new_page()
    page.set_content(f"<html><body {body}>{picture._repr_html_()}</body></html>")
    shown = page.get_by_role("img", name="peak memory")
    with Image.open(io.BytesIO(shown.screenshot())) as image:
        pixels = image.convert("L")
        background, (darkest, lightest) = pixels.getpixel((2, 2)), pixels.getextrema()
    page.close()
    assert background == pytest.approx(18 if is_dark else 255, abs=3)
    text = lightest if is_dark else darkest
    assert abs(float(text) - float(background)) > 150  # type: ignore[arg-type]
