"""`Outcome`: the part of a run that can be compared and saved, with digests of its inputs. Loads without JAX."""

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
    """The part of a run that is kept for comparison and saving.

    Attributes:
      paths: paths of its outputs.
      outputs: its outputs, or why they were not kept.
      durations_s: durations of its executions, in seconds.
      inputs: a digest of each input, by path. The values are not kept.
      device_kind, num_replicas, warnings, series: see `Run`.
    """

    paths: tuple[str, ...]
    outputs: tuple[np.ndarray, ...] | Unavailable
    durations_s: tuple[float, ...]
    inputs: Mapping[str, bytes]
    device_kind: str
    num_replicas: int = 1
    warnings: tuple[str, ...] = ()
    series: str = ""

    @classmethod
    def of(cls, run: Run) -> Outcome:
        """Returns the outcome of a run. Reads all its inputs."""
        return cls(
            paths=tuple(result.path for result in run.program.results),
            outputs=tuple(map(np.asarray, run.outputs)),
            durations_s=run.durations_s,
            inputs={each.argument.path: _digest(np.asarray(each.value)) for each in run.inputs},
            device_kind=run.device_kind,
            num_replicas=run.num_replicas,
            warnings=run.warnings,
            series=run.series,
        )

    @property
    def byte_size(self) -> int:
        """Size of the outputs, in bytes."""
        return 0 if isinstance(self.outputs, Unavailable) else sum(array.nbytes for array in self.outputs)


def _digest(value: np.ndarray) -> bytes:
    digest = hashlib.sha256(f"{value.dtype.name} {value.shape} ".encode())
    digest.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
    return digest.digest()
