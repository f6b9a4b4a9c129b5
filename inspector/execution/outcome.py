"""`Outcome`: what is kept of a run, to be compared and saved: its inputs only as digests. Loads where JAX is not installed."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from inspector.errors import Unavailable

if TYPE_CHECKING:
    from inspector.execution.run import Run


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What is kept of a run.

    Attributes:
      paths: of its outputs.
      outputs: or why they are not here.
      durations_s: of its executions.
      inputs: a digest of each, by path; the values themselves are not held.
      device_kind, num_replicas, warnings: as of a `Run`.
    """

    paths: tuple[str, ...]
    outputs: tuple[np.ndarray, ...] | Unavailable
    durations_s: tuple[float, ...]
    inputs: Mapping[str, bytes]
    device_kind: str
    num_replicas: int = 1
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, run: Run) -> Outcome:
        """That of a run. Reads all its inputs."""
        return cls(
            paths=tuple(result.path for result in run.program.results),
            outputs=tuple(map(np.asarray, run.outputs)),
            durations_s=run.durations_s,
            inputs={given.argument.path: _digest(np.asarray(given.value)) for given in run.inputs},
            device_kind=run.device_kind,
            num_replicas=run.num_replicas,
            warnings=run.warnings,
        )

    @property
    def byte_size(self) -> int:
        """Bytes held."""
        return 0 if isinstance(self.outputs, Unavailable) else sum(array.nbytes for array in self.outputs)


def _digest(value: np.ndarray) -> bytes:
    found = hashlib.sha256(f"{value.dtype.name} {value.shape} ".encode())
    found.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
    return found.digest()
