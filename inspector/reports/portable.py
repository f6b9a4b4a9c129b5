"""StableHLO modules in a form that a JAX of another version reads: MLIR's own bytecode changes with every jaxlib."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from inspector.compilation.program import Program
from inspector.errors import ModuleError, Unavailable
from inspector.support import packages


@dataclasses.dataclass(frozen=True, slots=True)
class PortableModule:
    """A module for other versions of JAX.

    Attributes:
      jax: the version that made the module.
      artifact: its portable form, or why there is none.
    """

    jax: str
    artifact: bytes | Unavailable


PortableModules = Mapping[str, PortableModule]
"""By `Program.digest`."""


def installed_jax() -> str:
    """The version of the installed JAX, "" where there is none."""
    if not packages.folders("jax"):
        return ""
    from inspector._jax.compiling.attached_devices import installed_versions

    return installed_versions()["jax"]


def portable_modules(programs: Iterable[Program], known: PortableModules) -> PortableModules:
    """Of each program's module.

    Args:
      programs: those that are not known were lowered in this process.
      known: of programs that were loaded.
    """
    from inspector._jax.modules import stablehlo

    found: dict[str, PortableModule] = {}
    for program in programs:
        if program.digest in known:
            found[program.digest] = known[program.digest]
        elif program.digest not in found:
            artifact: bytes | Unavailable
            try:
                artifact = stablehlo.portable(program.module)
            except ModuleError as e:
                artifact = Unavailable(str(e))
            found[program.digest] = PortableModule(installed_jax(), artifact)
    return found


def ported(program: Program, portable: PortableModules) -> Program:
    """A program whose module this JAX reads: itself where this JAX made it.

    Any other is read in a process of its own, as it comes from outside.

    Raises:
      ModuleError: there is no form of it that this JAX reads.
    """
    from inspector._jax.modules import isolated_reading

    here = installed_jax()
    form = portable.get(program.digest, PortableModule("unknown", Unavailable("the file has no portable form of it")))
    if form.jax == here:
        return program
    said = f"The StableHLO of {program.name!r} was made by JAX {form.jax}, and JAX {here} cannot read"
    remedy = f"Replay it with JAX {form.jax}, or record it with JAX {here}."
    if isinstance(form.artifact, Unavailable):
        raise ModuleError(f"{said} it: {form.artifact.reason}. {remedy}")
    try:
        return dataclasses.replace(program, module=isolated_reading.read(form.artifact, "StableHLO").stablehlo)
    except ModuleError as e:
        raise ModuleError(f"{said} its portable form. {remedy} {e}") from e
