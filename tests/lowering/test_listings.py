from __future__ import annotations

import functools
import runpy
from pathlib import Path
from typing import Any

import jax
import pytest

import inspector
from inspector.errors import Unavailable
from inspector.lowering.listings import _code_of


def f(x: Any, y: Any = 0) -> Any:
    return x + y


class Holder:
    def method(self, x: Any) -> Any:
        return x


def test_the_code_behind_wrappers_is_found() -> None:
    partial = functools.partial(jax.jit(f), y=2)
    assert [_code_of(fun) for fun in (f, jax.jit(f), partial)] == [f.__code__] * 3
    assert _code_of(jax.jit(Holder().method)) is Holder.method.__code__
    assert _code_of(len) is None
    assert _code_of(functools.partial(len)) is None


@pytest.mark.parametrize(
    ("folder", "module", "heading"),
    [
        ("env/lib/python3.11/site-packages", "layers/dense.py", "layers/dense.py"),
        ("lib/python3/dist-packages", "layers/dense.py", "layers/dense.py"),
        ("project", "models/dense.py", "models/dense.py"),  # from a notebook beside it, with the project on the path
        ("here", "dense.py", "dense.py"),
        ("here-too", "dense.py", None),  # not below `here`
    ],
)
def test_a_file_is_named_as_its_reader_would(
    folder: str, module: str, heading: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.syspath_prepend(tmp_path / "project")
    file = tmp_path / folder / module
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("def dense(x):\n    return x @ x\n")
    dense = runpy.run_path(str(file))["dense"]
    source = inspector.lower(dense, jax.ShapeDtypeStruct((2, 2), "float32")).source
    assert not isinstance(source, Unavailable)
    assert source.text.split("\n")[0] == f"# {heading or file}"
