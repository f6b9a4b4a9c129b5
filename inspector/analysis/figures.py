"""A matplotlib figure that notebooks draw, also where nothing has imported pyplot."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

_DOTS_PER_INCH = 96


class Picture(Figure):
    """A `Figure` of its own: in no pyplot registry, so any thread may make one.

    IPython shows plain figures as pictures only after `%matplotlib inline` or an import of pyplot.
    """

    @property
    def alternative_text(self) -> str:
        """What it says, for who cannot see it: its titles, and the labels of its axes."""
        said = [self.get_suptitle()]
        for axes in self.axes:
            said += [axes.get_title(loc) for loc in ("left", "center", "right")]
            said += [axes.get_ylabel(), axes.get_xlabel()]
        return "; ".join(dict.fromkeys(" ".join(text.split()) for text in said if text.strip()))

    def __repr__(self) -> str:
        return f"<Picture: {self.alternative_text or 'without a title'}>"

    def _repr_png_(self) -> tuple[bytes, dict[str, str]]:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=_DOTS_PER_INCH, bbox_inches="tight")
        return buffer.getvalue(), {"alt": self.alternative_text}
