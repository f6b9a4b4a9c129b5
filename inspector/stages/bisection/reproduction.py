"""`Reproduction`: a part of a program that shows a difference, and the files to attach to an issue."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
from pathlib import Path
from typing import Any

import numpy as np

from inspector.compilation.options.options import Options
from inspector.execution.tolerances import TOLERANCES
from inspector.hlo.source import short_places
from inspector.stages.bisection.run_script import run_script
from inspector.stages.bisection.sides import Side
from inspector.support import files
from inspector.toolchain import flags as flag_types


@dataclasses.dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reproduction:
    """A part of a program that shows the difference by itself.

    Attributes:
      module: its StableHLO as MLIR bytecode.
      inputs: one array per parameter: values of the good side.
      outputs: shape and dtype of each result.
      good, bad: the sides between which it differs.
      by: the quantity that differs.
      difference: the difference in words.
      operations, whole_operations: number of StableHLO operations of its `main` and of the program's, with calls inlined.
      lines: the user's lines of its operations, such as `model.py:12`, in order.
      is_minimal: False if a limit ended the reduction early.
      rtol, atol: tolerances of values; None for the defaults.
    """

    module: bytes
    inputs: tuple[np.ndarray, ...]
    outputs: tuple[tuple[tuple[int, ...], str], ...]
    good: Side
    bad: Side
    by: str
    difference: str
    operations: int
    whole_operations: int
    lines: tuple[str, ...] = ()
    is_minimal: bool = True
    rtol: float | None = None
    atol: float | None = None

    @property
    def stablehlo(self) -> str:
        """The module as MLIR text."""
        from inspector._jax.modules import isolated_reading

        return isolated_reading.full_text(self.module)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes the files of an issue to a folder, which is created if needed.

        - `module.mlir`: StableHLO as text.
        - `module.mlirbc`: the same as a portable artifact, which other versions of JAX read.
        - `inputs.npz`: the inputs.
        - `run.py`: compiles and runs both sides with JAX alone, without inspector, and prints the difference. A side of another
          version of JAX needs the Python that has it: `run.py good=/path/to/python`.

        Raises:
          OSError: a file cannot be written.
          ModuleError: the module has no portable form.
        """
        from inspector._jax.modules import stablehlo

        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        files.write_text(place / "module.mlir", self.stablehlo)
        with files.writing(place / "module.mlirbc") as file:
            file.write(stablehlo.portable(self.module))
        with files.writing(place / "inputs.npz") as file:
            arrays: dict[str, Any] = {f"input{n}": _plain(value) for n, value in enumerate(self.inputs)}
            np.savez(file, **arrays)
        files.write_text(place / "run.py", run_script(self._facts()))

    def _facts(self) -> dict[str, object]:
        """Returns the constants of the script."""
        sides = {"good": self.good, "bad": self.bad}
        installed = importlib.metadata.version("jax")
        return {
            "DIFFERENCE": self.difference,
            "BY": self.by,
            "SIDES": {name: _settings(side) for name, side in sides.items()},
            "TARGETS": {name: str(side.target) for name, side in sides.items()},
            "PLATFORMS": {name: _platform(side) for name, side in sides.items()},
            "VERSIONS": {name: side.target.jax or installed for name, side in sides.items()},
            "ARE_VERSIONS_COMPARED": self.good.target.jax != self.bad.target.jax,
            "INPUT_TYPES": [value.dtype.name for value in self.inputs],
            "OUTPUT_TYPES": [(dtype, shape) for shape, dtype in self.outputs],
            "TOLERANCES": [TOLERANCES.get(dtype, 0.0) for _, dtype in self.outputs],
            "RTOL": self.rtol,
            "ATOL": self.atol,
        }

    def __str__(self) -> str:
        where = f" of {short_places(self.lines)}" if self.lines else ""
        early = "" if self.is_minimal else ", not minimal because a limit ended the reduction"
        return f"{self.operations:,} of {self.whole_operations:,} operations{where}{early}: {self.difference}"

    def __repr__(self) -> str:
        return f"<Reproduction {self}>"


def _settings(side: Side) -> dict[str, object]:
    """Returns the options of a side for JAX: flags of XLA as text for XLA_FLAGS, all others as options of JAX's `compile`."""
    flags = side.options.flags
    own = {name: value for name, value in flags.items() if flag_types.flag_type(name).home == "debug_options"}
    others = {name: value for name, value in flags.items() if name not in own}
    return {"xla_flags": str(Options(flags=own)) if own else "", "compiler_options": others}


def _platform(side: Side) -> str | None:
    """Returns JAX's name of the platform that runs a side; "" for JAX's default, None if none on this machine does."""
    if side.target.is_absent or (side.target.jax and side.target.kind != "cpu"):
        return None
    return "cpu" if side.target.kind == "cpu" else ""


def _plain(value: np.ndarray) -> np.ndarray:
    """Returns an array of a type that NumPy's files have: unsigned integers instead of the types of ml_dtypes."""
    return value if value.dtype.kind in "biufc" else value.view(f"u{value.dtype.itemsize}")
