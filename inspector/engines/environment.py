"""`Environment`: what a process must be to serve a request: whose compiler it loads, and what that reads only once."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any, Literal

from inspector.compilation.chips import GPUS, TPU_GENERATIONS
from inspector.compilation.libtpu import init_args
from inspector.compilation.options import Options
from inspector.compilation.target import Target
from inspector.engines.recording import BACK_END_ARGS
from inspector.errors import TargetError


@dataclasses.dataclass(frozen=True, slots=True)
class Environment:
    """One device environment; requests of equal ones can share a process.

    Attributes:
      platform: "cpu" for virtual CPU devices; "tpu" and "cuda" for devices that are not here.
      device_count: virtual CPU devices; 1 otherwise.
      init_args: flags that libtpu reads once, when it is loaded; `recording.SCRATCH` in them stands for the
        process's directory.
    """

    platform: Literal["cpu", "tpu", "cuda"]
    device_count: int = 1
    init_args: tuple[str, ...] = ()

    @classmethod
    def of(cls, target: Target, options: Options, products: Collection[str] = ()) -> Environment:
        """The environment in which a target's programs compile with such options, and record such products.

        Raises:
          TargetError: only this process has the target's device.
        """
        if target.kind == "cpu":
            return cls("cpu", target.device_count or 1)
        if target.is_absent:
            _check_installed(target)
            if target.kind != "tpu":
                return cls("cuda")
            return cls("tpu", init_args=init_args(options) + (BACK_END_ARGS if "assembly" in products else ()))
        return cls("cpu", _attached_count(target))

    def __str__(self) -> str:
        return f"cpu-{self.device_count}" if self.platform == "cpu" else self.platform


def slice_of(target: Target) -> dict[str, Any] | None:
    """The fields of `_jax.absent.Slice` for a target that is not here; None for one that is."""
    if not target.is_absent:
        return None
    if target.kind == "gpu":
        return {"platform": "cuda", "chip": GPUS[target.chip], "topology": target.topology}
    config = TPU_GENERATIONS[target.chip].chip_config
    return {"platform": "tpu", "chip": target.chip, "topology": target.topology, "chip_config": config}


def _check_installed(target: Target) -> None:
    from inspector._jax.absent import absent_platform

    reason = absent_platform(target.platform or "")
    if reason is not None:
        raise TargetError(f"{target} cannot be compiled for here: {reason.reason}. Install it with: {reason.remedy}")


def _attached_count(target: Target) -> int:
    from inspector._jax.client import attached_device_count, attached_platform

    platform = attached_platform()
    if platform != "cpu" or target.kind != "attached":
        raise TargetError(
            f"The attached {platform if target.kind == 'attached' else target.kind} belongs to this process: a worker"
            " cannot use it. Use engine='inline', or the target 'cpu'."
        )
    return attached_device_count()


def check_can_run(target: Target) -> None:
    """Refuses to run on a device that is not here.

    Raises:
      TargetError: the target is only compiled for.
    """
    if target.is_absent:
        raise TargetError(
            f"{target} is not here: it is compiled for ahead of time, and its programs cannot run. Compile for"
            f" 'attached' or 'cpu:{target.device_count}' to run the function."
        )
