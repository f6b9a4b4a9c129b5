"""A matplotlib figure that notebooks draw, also where nothing has imported pyplot."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

_DOTS_PER_INCH = 96


class Picture(Figure):
    """A `Figure` of its own: in no pyplot registry, so any thread may make one.

    IPython shows plain figures as pictures only after `%matplotlib inline` or an import of pyplot.
    """

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=_DOTS_PER_INCH, bbox_inches="tight")
        return buffer.getvalue()
