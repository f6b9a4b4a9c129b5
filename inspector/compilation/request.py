"""`CompileRequest` and `RunRequest`: what an engine is asked for. Values that cross processes."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import TYPE_CHECKING

import numpy as np

from inspector.compilation.options import Options
from inspector.compilation.program import Program
from inspector.compilation.target import Target

if TYPE_CHECKING:
    from inspector.compilation.compiled import Compiled


@dataclasses.dataclass(frozen=True, slots=True)
class CompileRequest:
    """A program, how to compile it and for what.

    Attributes:
      program: what is compiled.
      options: the user's options; those that `program.options` implies lie below them.
      target: for what.
    """

    program: Program
    options: Options
    target: Target

    @property
    def build_options(self) -> Options:
        """The program's implied options with the user's on top: what the compiler gets."""
        return self.program.options.merge(self.options)

    @property
    def digest(self) -> str:
        """SHA-256 over module, options and target, in hex."""
        text = f"{self.program.digest}\n{self.build_options.to_json()}\n{self.target}"
        return hashlib.sha256(text.encode()).hexdigest()


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class RunRequest:
    """An executable, its inputs and how often to run it.

    Attributes:
      compiled: what is run; its `executable` bytes, or a live one that the engine still holds.
      inputs: one array a program parameter, in parameter order. Under partitions, the global
        array. Under replicas, a leading axis of `num_replicas` when `per_replica`, else the value
        that every replica gets.
      per_replica: one boolean an input.
      repeat: measured executions, at least 1.
      warmup: executions before them, not measured.
    """

    compiled: Compiled
    inputs: tuple[np.ndarray, ...]
    per_replica: tuple[bool, ...]
    repeat: int = 10
    warmup: int = 2


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class RunReply:
    """What an engine measured.

    Attributes:
      outputs: one array a result. Global under partitions; with a leading axis of `num_replicas`
        under replicas (more than one).
      durations_s: one wall-clock duration an execution, call to outputs ready, inputs already on
        the device.
      device_kind: the device that ran, as JAX names it.
      warnings: what the compiler or runtime said.
    """

    outputs: tuple[np.ndarray, ...]
    durations_s: tuple[float, ...]
    device_kind: str
    warnings: tuple[str, ...] = ()
