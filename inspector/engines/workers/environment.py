"""`Environment`: what a process must be to serve a request: whose compiler it loads, and what that reads only once."""

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
    """One device environment; requests of equal ones can share a process.

    Attributes:
      platform: "cpu" for virtual CPU devices; that of devices that are not here, such as "tpu" and "gpu".
      device_count: virtual CPU devices; 1 otherwise.
      xla_flags: flags that XLA reads once, when a CPU client starts; after those of the variable XLA_FLAGS.
      init_args: flags that libtpu reads once, when it is loaded; `platforms.platform.SCRATCH` in them stands for the
        process's directory.
      variables: names and values of environment variables that compilers read once, as they are here when a compile is
        requested. A variable that changes takes another process.
    """

    platform: str
    device_count: int = 1
    xla_flags: tuple[str, ...] = ()
    init_args: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, target: Target, options: Options, products: Collection[str] = ()) -> Environment:
        """The environment in which a target's programs compile with such options, and record such products.

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
    given = environ()
    return tuple((name, given.get(name, "")) for name in names)


def accelerator(target: Target) -> Platform | None:
    """The platform of a target's accelerator, attached or not; None for CPU devices."""
    from inspector._jax.compiling.attached_devices import attached_platform

    platform = platforms.named(target.platform or attached_platform())
    return None if platform is CPU else platform


def slice_of(target: Target) -> Slice | None:
    """The devices that a worker compiles for ahead of time: absent or attached accelerators; None for CPU devices."""
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
        raise TargetError(f"{target} cannot be compiled for here: {reason.reason}. {sentence(reason.remedy)}")


def _attached_count() -> int:
    from inspector._jax.compiling.attached_devices import attached_device_count

    return attached_device_count()


def check_here(target: Target) -> None:
    """Refuses to run on a device that is not here.

    Raises:
      TargetError: the target is only compiled for.
    """
    if target.is_absent:
        raise TargetError(
            f"{target} is not here: it is compiled for ahead of time, and its programs cannot run. Compile for"
            f" 'attached' or 'cpu:{target.device_count}' to run the function."
        )
