"""The lifetime of an Explorer: it exists as long as something refers to it or a notebook cell shows it.

ipywidgets keeps every widget until it is closed. A cell that runs again would therefore leave its
Explorer, with all texts, in the notebook kernel forever. This module makes ipywidgets' registry and comms refer to the
widgets weakly, and holds a displayed widget until its cell runs again.
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
_RESULT_NAME = re.compile(r"_+\d*")  # IPython's names for results of cells: _, __, _3


class DisplayedExplorer(Protocol):
    """A displayed widget that may be busy."""

    @property
    def is_busy(self) -> bool: ...
    def state_for_rerun(self) -> object: ...


_shown: dict[str, list[DisplayedExplorer]] = {}
_left: list[object] = []
"""The states of the widgets that the running cell showed before, in order."""
_released: list[weakref.ref[DisplayedExplorer]] = []
_hooked: weakref.WeakSet[Any] = weakref.WeakSet()


def hold_weakly(widget: Any) -> None:
    """Lets an open widget be collected once nothing else refers to it. It then closes itself."""
    registry._instances[widget.model_id] = weakref.proxy(widget)  # noqa: SLF001 - ipywidgets has no public way
    handle = weakref.WeakMethod(widget._handle_msg)  # noqa: SLF001 - as above

    def receive(message: Mapping[str, Any]) -> None:
        if (method := handle()) is not None:
            method(message)

    widget.comm.on_msg(receive)


def hold(widget: Any) -> None:
    """Keeps a widget alive as long as its comm, for front ends that close comms with their cells."""
    widget.comm.on_msg(widget._handle_msg)  # noqa: SLF001 - as above


def keep(widget: DisplayedExplorer) -> None:
    """Keeps a widget that the running cell shows alive until that cell runs again.

    Called by the cell, on the notebook kernel's main thread. Does nothing without IPython.
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


def left_state() -> object | None:
    """Returns the state of the next widget that the running cell showed before; None if there is none left."""
    return _left.pop(0) if _left else None


def _running_cell(shell: Any) -> str:
    parent: Mapping[str, Any] = shell.get_parent() if hasattr(shell, "get_parent") else {}
    return _cell(parent.get("metadata", {}).get("cellId"), shell.history_manager.input_hist_raw[-1])


def _cell(cell_id: str | None, source: str) -> str:
    """Returns the key of a cell: its id, or its text if the front end sends no id."""
    return cell_id or source.rstrip("\n")


def _on_run(info: Any) -> None:
    """Releases the widgets of a cell, which are about to leave the page. Called by IPython before the cell runs."""
    widgets = _shown.pop(_cell(info.cell_id, info.raw_cell), [])
    _left[:] = [widget.state_for_rerun() for widget in widgets]
    _release(widgets)
    del widgets
    _collect()  # before the cell asks for as much memory again


def _after_run(_: object) -> None:
    """Collects garbage, as the cell may have rebound its variables. Called by IPython after a cell ran."""
    _left.clear()
    _collect()
    _released[:] = [each for each in _released if (widget := each()) is not None and widget.is_busy]


def _release(widgets: list[DisplayedExplorer]) -> None:
    displayed = {id(each) for shown in _shown.values() for each in shown}
    for widget in widgets:
        if id(widget) not in displayed:
            _forget_results(sys.modules["IPython"].get_ipython(), widget)
            _released.append(weakref.ref(widget))


def _forget_results(shell: Any, widget: Any) -> None:
    """Removes a widget from IPython's results, `Out` and `_`; the user's variables stay."""
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
    """Frees released widgets, which form reference cycles and whose texts may take hundreds of megabytes.

    Busy widgets are kept alive by their work; the next cell tries again.
    """
    if any((widget := released()) is not None and not widget.is_busy for released in _released):
        widget = None
        collect()


def collect() -> None:
    """Collects garbage and returns the memory to the system.

    Repeats the collection while another thread is collecting, as `gc.collect()` then does nothing and returns 0.
    """
    for _ in range(_TRIES):
        cycle: list[object] = []
        cycle.append(cycle)  # so that there is garbage
        del cycle
        if gc.collect():
            memory_release.give_back()
            return
        time.sleep(_PAUSE_S)
