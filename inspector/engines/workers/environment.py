"""`Environment`: the properties of a worker process: its platform, its devices, and the flags read at its start."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from inspector import platforms
from inspector._jax.compiling.slices import Slice
from inspector.compilation.options.flag_targets import start_flags
from inspector.compilation.options.options import Options
from inspector.compilation.target import Target
from inspector.engines.workers.process import environ
from inspector.errors import TargetError
from inspector.platforms import CPU, Platform
from inspector.support.install_commands import sentence
from inspector.toolchain.flags.libtpu import init_args


@dataclasses.dataclass(frozen=True, slots=True)
class Environment:
    """A device environment. Requests with equal environments can share a process.

    Attributes:
      platform: "cpu" for virtual CPU devices; the platform of ahead-of-time targets, such as "tpu" and "gpu".
      device_count: virtual CPU devices; 1 otherwise.
      xla_flags: flags that XLA reads once, when a CPU client starts; they follow those of the variable XLA_FLAGS.
      init_args: flags that libtpu reads once, when it is loaded; `platforms.platform.SCRATCH` in them stands for the
        process's directory.
      variables: names and values of environment variables that compilers read once, as set in the notebook kernel when a
        compile is requested. A changed variable needs another process.
    """

    platform: str
    device_count: int = 1
    xla_flags: tuple[str, ...] = ()
    init_args: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, target: Target, options: Options, products: Collection[str] = ()) -> Environment:
        """Returns the environment for a target, the options and the requested products.

        Raises:
          TargetError: the target's compiler is not installed.
        """
        platform = accelerator(target)
        if platform is None:
            count = target.device_count or _attached_count()
            return cls("cpu", count, start_flags(options), variables=_variables("XLA_FLAGS"))
        if target.is_absent:
            _check_installed(target)
        load_args = init_args(options.flags) + (platform.load_args if "assembly" in products else ())
        return cls(platform.name, init_args=load_args, variables=_variables("XLA_FLAGS", "LIBTPU_INIT_ARGS"))

    def __str__(self) -> str:
        return f"cpu-{self.device_count}" if self.platform == "cpu" else self.platform


def _variables(*names: str) -> tuple[tuple[str, str], ...]:
    variables = environ()
    return tuple((name, variables.get(name, "")) for name in names)


def accelerator(target: Target) -> Platform | None:
    """Returns the platform of a target's accelerator, attached or not; None for CPU devices."""
    from inspector._jax.compiling.attached_devices import attached_platform

    platform = platforms.named(target.platform or attached_platform())
    return None if platform is CPU else platform


def slice_of(target: Target) -> Slice | None:
    """Returns the devices that a worker compiles for ahead of time (accelerators, attached or not); None for CPU devices."""
    platform = accelerator(target)
    if platform is None:
        return None
    if not target.is_absent:
        from inspector._jax.compiling.ahead_of_time import attached_slice

        return attached_slice()
    return Slice(platform.name, target.chip, target.topology)


def _check_installed(target: Target) -> None:
    from inspector._jax.compiling.ahead_of_time import absent_platform

    reason = absent_platform(target.platform or "")
    if reason is not None:
        raise TargetError(f"Cannot compile for {target}: {reason.reason}. {sentence(reason.remedy)}")


def _attached_count() -> int:
    from inspector._jax.compiling.attached_devices import attached_device_count

    return attached_device_count()


def check_here(target: Target) -> None:
    """Checks that a target can run programs.

    Raises:
      TargetError: the target can only be compiled for.
    """
    if target.is_absent:
        raise TargetError(
            f"{target} is not attached: inspector compiles for it ahead of time, but cannot run its programs. To run the"
            f" function, compile for 'attached' or 'cpu:{target.device_count}'."
        )
