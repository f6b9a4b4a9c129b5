"""How long an Explorer lives: as long as something refers to it, or a cell of the notebook shows it.

ipywidgets keeps every widget until it is closed, so that a cell that runs again would leave its
Explorer, with all texts, in the notebook kernel for ever. Here its registry and its comms have the widgets
weakly; what a cell shows is kept until that cell runs again.
"""

from __future__ import annotations

import gc
import re
import sys
import time
import weakref
from collections.abc import Mapping, MutableMapping
from typing import Any, Protocol

import ipywidgets.widgets.widget as registry

from inspector.support import memory_release

_TRIES, _PAUSE_S = 100, 0.01
_RESULT_NAME = re.compile(r"_+\d*")  # what IPython calls results of cells: _, __, _3


class DisplayedExplorer(Protocol):
    """What is kept: a widget that may be at work."""

    @property
    def is_busy(self) -> bool: ...


_shown: dict[str, list[DisplayedExplorer]] = {}
_released: list[weakref.ref[DisplayedExplorer]] = []
_hooked: weakref.WeakSet[Any] = weakref.WeakSet()


def hold_weakly(widget: Any) -> None:
    """Lets an open widget go once nobody else refers to it. It closes itself then."""
    registry._instances[widget.model_id] = weakref.proxy(widget)  # noqa: SLF001 - ipywidgets has no public way
    handle = weakref.WeakMethod(widget._handle_msg)  # noqa: SLF001 - as above

    def receive(message: Mapping[str, Any]) -> None:
        if (method := handle()) is not None:
            method(message)

    widget.comm.on_msg(receive)


def hold(widget: Any) -> None:
    """The opposite: lets it live as long as its comm, for a front end that closes comms with their cells."""
    widget.comm.on_msg(widget._handle_msg)  # noqa: SLF001 - as above


def keep(widget: DisplayedExplorer) -> None:
    """Keeps a widget that the running cell shows until that cell runs again.

    Called by the cell, on the notebook kernel's main thread. Without IPython nothing is shown.
    """
    ipython = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython else None
    if shell is None:
        return
    if shell not in _hooked:
        shell.events.register("pre_run_cell", _on_run)
        shell.events.register("post_run_cell", _after_run)
        _hooked.add(shell)
    shown = _shown.setdefault(_running_cell(shell), [])
    if not any(each is widget for each in shown):
        shown.append(widget)


def _running_cell(shell: Any) -> str:
    parent: Mapping[str, Any] = shell.get_parent() if hasattr(shell, "get_parent") else {}
    return _cell(parent.get("metadata", {}).get("cellId"), shell.history_manager.input_hist_raw[-1])


def _cell(cell_id: str | None, source: str) -> str:
    """What names a cell: its id, or its text where the front end sends none."""
    return cell_id or source.rstrip("\n")


def _on_run(info: Any) -> None:
    """Called by IPython before a cell runs: what it showed is about to leave the page."""
    _release(_shown.pop(_cell(info.cell_id, info.raw_cell), []))
    _collect()  # before the cell asks for as much memory again


def _after_run(_: object) -> None:
    """Called by IPython after a cell ran: it may have bound its variables anew."""
    _collect()
    _released[:] = [each for each in _released if (widget := each()) is not None and widget.is_busy]


def _release(widgets: list[DisplayedExplorer]) -> None:
    kept = {id(each) for shown in _shown.values() for each in shown}
    for widget in widgets:
        if id(widget) not in kept:
            _forget_results(sys.modules["IPython"].get_ipython(), widget)
            _released.append(weakref.ref(widget))


def _forget_results(shell: Any, widget: Any) -> None:
    """Takes a widget out of what IPython remembers of results, `Out` and `_`; variables of the user stay."""
    namespaces: tuple[MutableMapping[str, Any], ...] = (shell.user_ns, shell.user_ns_hidden)
    for names in namespaces:
        for name in [n for n, value in names.items() if value is widget and _RESULT_NAME.fullmatch(n)]:
            del names[name]
    results = shell.history_manager.output_hist
    for number in [n for n, value in results.items() if value is widget]:
        del results[number]
    for name in ("_", "__", "___"):
        if getattr(shell.displayhook, name, None) is widget:
            setattr(shell.displayhook, name, None)
    if getattr(shell.last_execution_result, "result", None) is widget:
        shell.last_execution_result = None


def _collect() -> None:
    """Frees what was released: it refers to itself, and its texts may be hundreds of megabytes.

    What is still at work is held by its work, and tried again when another cell runs.
    """
    if any((widget := released()) is not None and not widget.is_busy for released in _released):
        widget = None
        collect()


def collect() -> None:
    """Collects garbage, also where another thread is about it: `gc.collect()` then does nothing and returns 0.

    The system gets the memory back.
    """
    for _ in range(_TRIES):
        cycle: list[object] = []
        cycle.append(cycle)  # so that there is some
        del cycle
        if gc.collect():
            memory_release.give_back()
            return
        time.sleep(_PAUSE_S)
