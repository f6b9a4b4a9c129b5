"""`targets`: for what can be compiled here, and what would make the rest so."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from inspector.compilation.chips import CUDA_VERSIONS, GPUS, TPU_GENERATIONS
from inspector.compilation.target import Target
from inspector.errors import Unavailable
from inspector.tables import Kind, make_table

if TYPE_CHECKING:
    import pandas as pd

_CPU_COUNTS = (1, 2, 4, 8)
_TPU_CHIPS = (1, 4, 8)
_GPU_COUNTS = (1, 8)


@dataclasses.dataclass(frozen=True, slots=True)
class TargetRow:
    """One row of `targets()`.

    Attributes:
      target: its text.
      platform: what programs are lowered for: "cpu", "tpu", "gpu".
      device_kind: as JAX names it.
      device_count: JAX devices.
      available: whether it can be compiled for here.
      reason: why not, or what its programs lack; "" when nothing.
      can_run: whether its programs can also run here.
    """

    target: str
    platform: str
    device_kind: str
    device_count: int
    available: bool
    reason: str
    can_run: bool


def targets() -> pd.DataFrame:
    """The targets that there are: what is attached, virtual CPU devices, TPU slices and GPUs that need not be here.

    Any other number of CPU devices, legal TPU topology or number of GPUs may be written too (see `Target`). Loads no
    compiler; starts JAX's default back-end, as JAX would.

    Returns:
      A table with the columns `target, platform, device_kind, device_count, available, reason, can_run`; `reason`
      ends with the command that makes the target available.
    """
    return make_table(_COLUMNS, (dataclasses.astuple(row) for row in target_rows()))


_COLUMNS: Mapping[str, Kind] = {
    "target": "text", "platform": "text", "device_kind": "text", "device_count": "int", "available": "bool",
    "reason": "text", "can_run": "bool",
}  # fmt: skip


def target_rows() -> Iterator[TargetRow]:
    """The rows of `targets()`."""
    from inspector._jax.attached import attached_device_count, attached_device_kind, attached_platform

    platform, count = attached_platform(), attached_device_count()
    yield TargetRow("attached", platform, attached_device_kind(), count, True, "", True)
    for devices in _CPU_COUNTS:
        yield TargetRow(str(Target(f"cpu:{devices}")), "cpu", "cpu", devices, True, "", True)
    yield from _tpu_rows()
    yield from _gpu_rows()


def offered_targets() -> tuple[str, ...]:
    """Texts for a menu: what is here, and of what is not the usual slices that can be compiled for."""
    from inspector._jax.absent import absent_platform

    tpu = ("tpu:v5e:2x4", "tpu:v6e:2x2", "tpu:v5p:2x2x1") if absent_platform("tpu") is None else ()
    gpu = ("gpu:h100:1", "gpu:h100:8", "gpu:b200:1") if absent_platform("gpu") is None else ()
    return ("attached", *(str(Target(f"cpu:{n}")) for n in _CPU_COUNTS), *tpu, *gpu)


def _tpu_rows() -> Iterator[TargetRow]:
    from inspector._jax.absent import absent_platform

    reason = _said(absent_platform("tpu"))
    for generation in TPU_GENERATIONS.values():
        for chips in _TPU_CHIPS:
            target = Target.parse(f"tpu:{generation.name}:{chips}")
            yield TargetRow(
                str(target), "tpu", generation.device_kind, target.device_count or 0, not reason, reason, can_run=False
            )


def _gpu_rows() -> Iterator[TargetRow]:
    from inspector._jax.absent import absent_platform
    from inspector._jax.cuda_plugin import ptxas_version, toolkit

    missing = absent_platform("gpu")
    tools = toolkit()
    without_code = _said(tools) if isinstance(tools, Unavailable) else ""
    for name, description in GPUS.items():
        reason = _said(missing) or without_code
        available = missing is None
        first, last = CUDA_VERSIONS.get(name, (0, ptxas_version()))
        if available and not first <= ptxas_version() <= last:
            available, reason = False, f"CUDA {ptxas_version()}, which is installed here, does not compile for it"
        for count in _GPU_COUNTS:
            target = Target.parse(f"gpu:{name}:{count}")
            yield TargetRow(str(target), "gpu", description, count, available, reason, can_run=False)


def _said(reason: Unavailable | None) -> str:
    return "" if reason is None else f"{reason.reason}. {reason.remedy}"
