"""User files and library files, distinguished by their paths alone."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import jax
import pytest

import inspector
from inspector.hlo.source import Frame, Origin, library_text, line_text, own_first, own_line
from inspector.support.packages import is_library_file, package_path

OWN = [
    __file__,
    "/home/me/train.py",
    "/tmp/ipykernel_41/2718281828.py",
    "<ipython-input-3-abcdef>",
    "<stdin>",
    "<string>",
    "<command-2718>",
    "/tmp/marimo_41/__marimo__cell_Hbol_.py",
    "C:\\Users\\me\\project\\model.py",
    "/home/me/envs/cartpole/lib/policy.py",  # no environment of conda: those of Unix have lib/python3.x
    "/home/me/project/src/mymodel/layers.py",  # a package of the user's, installed as editable
    "/home/me/equinox_experiments/train.py",
    "/home/me/equinox/experiments/train.py",  # beside a library's clone
    "model.py",
]
LIBRARY = {
    "/w/.venv/lib/python3.11/site-packages/equinox/nn/_linear.py": "equinox/nn/_linear.py",
    "/usr/lib/python3/dist-packages/numpy/core/x.py": "numpy/core/x.py",
    "C:\\Users\\me\\venv\\Lib\\site-packages\\flax\\linen\\linear.py": "flax/linen/linear.py",
    "C:\\Python311\\Lib\\functools.py": "functools.py",
    "C:\\Users\\me\\miniconda3\\envs\\jax\\Lib\\contextlib.py": "contextlib.py",
    "/usr/lib/python3.13/contextlib.py": "contextlib.py",
    "/opt/homebrew/lib/python3.13t/functools.py": "functools.py",
    "/home/me/src/equinox/equinox/nn/_linear.py": "equinox/nn/_linear.py",
    "/home/me/dm-haiku/haiku/_src/basic.py": "haiku/_src/basic.py",
    "/home/me/flax-0.10/flax/linen/linear.py": "flax/linen/linear.py",
    "/deps/equinox-0.1-py3-none-any.whl/equinox/nn/_mlp.py": "equinox/nn/_mlp.py",
    "<frozen importlib._bootstrap>": None,
    "<@beartype(model.f) at 0x7f>": None,
}


@pytest.mark.parametrize("file", OWN)
def test_scripts_cells_and_own_packages_are_the_users(file: str) -> None:
    assert not is_library_file(file)
    assert package_path(file) == file


@pytest.mark.parametrize("file", LIBRARY)
def test_installed_packages_and_python_are_libraries(file: str) -> None:
    assert is_library_file(file)
    if LIBRARY[file] is not None:
        assert package_path(file) == LIBRARY[file]


def test_installed_files_are_library_files() -> None:
    for module in (jax.__file__, str(Path(sysconfig.get_path("stdlib")) / "functools.py"), inspector.__file__):
        assert is_library_file(module), module


FLAX = Frame("/v/lib/python3.11/site-packages/flax/linen/linear.py", 287, "Dense.__call__")
MINE, CALLER = Frame("/home/me/model.py", 31, "M.__call__"), Frame("/home/me/train.py", 4)


def test_the_line_is_the_users_innermost_and_the_librarys_follows() -> None:
    called = Origin("jit(f)/dot", (FLAX, MINE, CALLER))
    assert (called.line, called.innermost, called.library_line) == (MINE, FLAX, FLAX)
    assert library_text(called.frames) == "flax/linen/linear.py:287"
    assert line_text(called.frames) == "/home/me/model.py:31 (flax/linen/linear.py:287)"
    assert line_text(called.frames, is_short=True) == "model.py:31 (flax/linen/linear.py:287)"
    assert own_first(called.frames) == [MINE, CALLER, FLAX]
    own = Origin("jit(f)/dot", (MINE, FLAX, CALLER))  # a callback that a library calls
    assert (own.line, own.library_line) == (MINE, None)


def test_where_no_frame_is_the_users_the_librarys_line_stands() -> None:
    only = Origin("jit(f)/dot", (FLAX,))
    assert (only.line, only.library_line) == (FLAX, None)
    assert (Origin("x").line, line_text(())) == (None, "")


def test_the_line_of_a_sentence() -> None:
    library = Frame("/usr/lib/python3/site-packages/flax/linen/linear.py", 287)
    assert own_line((library, Frame("/home/me/model.py", 31))) == "model.py:31"
    assert own_line((library, Frame("/tmp/ipykernel_3/2327693430.py", 13))) == "line 13 of a notebook cell"
    assert own_line(()) == ""
