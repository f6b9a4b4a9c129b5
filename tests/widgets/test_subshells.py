"""Messages of a browser are handled where the front end asks for, beside a cell that runs."""

from __future__ import annotations

import comm
import pytest

from inspector.widgets.app import App
from inspector.widgets.subshells import leave_to_front_end


def test_kernels_that_hand_messages_elsewhere_do_not() -> None:
    class Handing:
        def _reply_subshell_for(self, data: object, default: str | None) -> str | None:
            return None

    handing = Handing()
    leave_to_front_end(handing)
    assert handing._reply_subshell_for({}, "of the front end") == "of the front end"


def test_other_kernels_are_left_as_they_are() -> None:
    other = object()
    leave_to_front_end(other)
    assert not hasattr(other, "_reply_subshell_for")


def test_the_app_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr("inspector.widgets.app.leave_to_front_end", asked.append)
    app = App("step")
    assert asked == [app.comm]
    assert isinstance(app.comm, comm.base_comm.BaseComm)
    app.close()
