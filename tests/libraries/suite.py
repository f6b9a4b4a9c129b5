"""The libraries and their programs, and why some are left out."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import importlib.util
import warnings
from collections.abc import Sequence
from pathlib import Path

from tests.libraries.program import Program

HERE = Path(__file__).resolve().parent
OURS = ("program", "suite", "test_programs", "test_checks", "__main__")


@dataclasses.dataclass(frozen=True)
class Library:
    """A file of programs.

    Attributes:
      name: of the file, without its suffix.
      file: its path.
      programs: what it has; none where it cannot be imported.
      reason: why it cannot, or "".
    """

    name: str
    file: str
    programs: Sequence[Program] = ()
    reason: str = ""


def names() -> list[str]:
    """The files of programs, by name."""
    return sorted(path.stem for path in HERE.glob("*.py") if path.stem not in OURS)


def load(name: str) -> Library:
    """Imports a library's programs; what the import raised becomes the reason."""
    file = str(HERE / f"{name}.py")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the libraries' own
            module = importlib.import_module(f"tests.libraries.{name}")
    except Exception as error:  # a library may fail with anything where JAX is too new for it
        return Library(name, file, reason=f"{type(error).__name__}: {error}")
    return Library(name, file, module.PROGRAMS)
