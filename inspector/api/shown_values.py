"""How values of this room are shown in a cell: as an Explorer, or as a table."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any

from inspector.errors import needs_jax

if TYPE_CHECKING:
    from inspector.api.exploration import Exploration
    from inspector.widgets.explorer import Explorer


class ShownAsExplorer(abc.ABC):
    """A value with an `exploration`, which an Explorer shows."""

    @property
    @abc.abstractmethod
    def exploration(self) -> Exploration:
        """The value as an `Exploration`, which can be saved to a file."""

    @needs_jax("An Explorer")
    def explorer(self, height_px: int | None = None) -> Explorer:
        """Returns an Explorer with the panes that need no compiling.

        Args:
          height_px: initial height in CSS pixels; None for 85 % of the window, at most 900.
        """
        return self.exploration.explorer(height_px)

    def _ipython_display_(self, **kwargs: Any) -> None:
        """Shows the Explorer in a cell; called by IPython."""
        self.explorer()._ipython_display_(**kwargs)


class ShownAsTable(abc.ABC):
    """A value that a cell shows as its HTML form."""

    @abc.abstractmethod
    def _repr_html_(self) -> str: ...

    def _ipython_display_(self, **kwargs: Any) -> None:
        """Shows the HTML form in a cell; called by IPython."""
        from IPython.display import HTML, display

        display(HTML(self._repr_html_()), **kwargs)  # type: ignore[no-untyped-call]
