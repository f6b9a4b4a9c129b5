"""A matplotlib figure that notebooks display even if pyplot has not been imported."""

from __future__ import annotations

import base64
import html
import io

from matplotlib.figure import Figure

_DOTS_PER_INCH = 96
_DARK_THEMES = (
    "[data-jp-theme-light=false]",
    "[data-theme=dark]",
    ".vscode-dark",
    ".vscode-high-contrast:not(.vscode-high-contrast-light)",
)
"""Selectors of pages with a dark theme: JupyterLab and Notebook, documentation pages, VS Code."""
_STYLE = (
    ",".join(f"{theme} .inspector-picture" for theme in _DARK_THEMES)
    + "{filter:invert(.93) hue-rotate(180deg)}"  # white becomes JupyterLab's dark background; hues stay
)


class Picture(Figure):
    """A `Figure` that is not registered with pyplot, so any thread may create one.

    IPython shows plain figures as pictures only after `%matplotlib inline` or an import of pyplot.

    The picture follows the theme of a notebook. Pages that do not use its HTML show it on white.
    """

    @property
    def alternative_text(self) -> str:
        """Returns the text alternative for screen readers: the titles and the axis labels."""
        texts = [self.get_suptitle()]
        for axes in self.axes:
            texts += [axes.get_title(loc) for loc in ("left", "center", "right")]
            texts += [axes.get_ylabel(), axes.get_xlabel()]
        return "; ".join(dict.fromkeys(" ".join(text.split()) for text in texts if text.strip()))

    def __repr__(self) -> str:
        return f"<Picture: {self.alternative_text or 'without a title'}>"

    def _repr_png_(self) -> tuple[bytes, dict[str, str]]:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=_DOTS_PER_INCH, bbox_inches="tight")
        return buffer.getvalue(), {"alt": self.alternative_text}

    def _repr_html_(self) -> str:
        content, _ = self._repr_png_()
        source = f"data:image/png;base64,{base64.b64encode(content).decode()}"
        text = html.escape(self.alternative_text)
        return f'<style>{_STYLE}</style><img class="inspector-picture" alt="{text}" src="{source}">'
