"""Shows the modules of a dump in a notebook: a menu above the Explorer of one."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from inspector.errors import InspectorError
from inspector.support.units import format_bytes

if TYPE_CHECKING:
    from inspector.api.dumped_module import DumpedModule
    from inspector.widgets.explorer import Explorer

_MOST = 1000


def show(modules: Sequence[DumpedModule], table: str, **kwargs: Any) -> None:
    """Displays the largest module, and a menu that replaces it by another one.

    Args:
      modules: the modules.
      table: the HTML form of the dump, shown if the module cannot be opened.
      kwargs: arguments of IPython's `display`.
    """
    from IPython.display import HTML, display

    shown = sorted(modules, key=lambda module: -module.program_bytes)[:_MOST]
    if len(shown) > 1:
        _show_menu(shown, kwargs)
        return
    try:
        shown[0].explorer()._ipython_display_(**kwargs)
    except InspectorError as e:
        display(HTML(table + _failure(shown[0], e)), **kwargs)  # type: ignore[no-untyped-call]


def _show_menu(modules: Sequence[DumpedModule], kwargs: dict[str, Any]) -> None:
    import ipywidgets
    from IPython.display import HTML, display

    labels = [f"{module.label} ({format_bytes(module.program_bytes)})" for module in modules]
    menu = ipywidgets.Dropdown(
        options=list(zip(labels, range(len(modules)), strict=True)), description="Module", layout={"width": "auto"}
    )
    place = ipywidgets.Output()
    shown: list[Explorer] = []

    def draw(number: int) -> None:
        place.clear_output()
        while shown:
            shown.pop().close()
        with place:
            try:
                shown.append(modules[number].explorer())
                shown[0]._ipython_display_()
            except InspectorError as e:
                display(HTML(_failure(modules[number], e)))  # type: ignore[no-untyped-call]

    menu.observe(lambda change: draw(change["new"]), "value")
    display(menu, **kwargs)  # type: ignore[no-untyped-call]
    display(place)  # type: ignore[no-untyped-call]
    draw(0)


def _failure(module: DumpedModule, error: InspectorError) -> str:
    return f"<p>{html.escape(f'{module.label} has no Explorer: {error}')}</p>"
