"""Source files that are notebook cells have the number that the reader sees."""

from __future__ import annotations

import pytest
from IPython.core.interactiveshell import InteractiveShell

from inspector.widgets.cells import cell_name, display_file


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("begin", ["", "\n"])
def test_a_cell_has_its_number(begin: str, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = InteractiveShell.instance()
    try:
        # As ipykernel names cells: after the code as it was typed.
        monkeypatch.setattr(
            shell.compile, "get_code_name", lambda raw, _code, _number: f"/tmp/ipykernel_1/{hash(raw)}.py"
        )
        typed = f"{begin}def f(x):\n    return x + 1{end}"
        for code in ("import math", typed):
            shell.run_cell(code, store_history=True)
        number = shell.execution_count - 1
        file = shell.user_ns["f"].__code__.co_filename
        assert file.startswith("/tmp/ipykernel_1/")
        assert (cell_name(file), display_file(file)) == (f"In [{number}]", f"In [{number}]")
        assert cell_name("/tmp/ipykernel_1/0.py") is None
        assert display_file("/home/user/model.py") == "/home/user/model.py"
    finally:
        InteractiveShell.clear_instance()


def test_each_cell_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    shell, named = InteractiveShell.instance(), list[int]()

    def name(raw: str, _code: str, number: int) -> str:
        named.append(number)
        return f"/tmp/ipykernel_2/{hash(raw)}.py"

    try:
        monkeypatch.setattr(shell.compile, "get_code_name", name)
        for number in range(3):
            shell.run_cell(f"def f(x):\n    return x + {number}", store_history=True)
            ran = len(named)
            for _ in range(5):
                assert cell_name(shell.user_ns["f"].__code__.co_filename) == f"In [{shell.execution_count - 1}]"
            assert len(named) - ran == 2  # with and without a line break at the end
    finally:
        InteractiveShell.clear_instance()
