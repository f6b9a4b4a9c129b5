"""StableHLO modules in a form for other versions of JAX, because MLIR's own bytecode changes with every jaxlib."""

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
      jax: version of JAX that created the module.
      artifact: the module in portable form, or why there is none.
    """

    jax: str
    artifact: bytes | Unavailable


PortableModules = Mapping[str, PortableModule]
"""Portable modules by `Program.digest`."""


def installed_jax() -> str:
    """Returns the version of the installed JAX, "" if it is not installed."""
    if not packages.folders("jax"):
        return ""
    from inspector._jax.compiling.attached_devices import installed_versions

    return installed_versions()["jax"]


def portable_modules(programs: Iterable[Program], known: PortableModules) -> PortableModules:
    """Returns the portable form of each program's module.

    Args:
      programs: the programs; those without an entry in `known` were lowered in this process.
      known: modules of loaded programs.
    """
    from inspector._jax.modules import stablehlo

    modules: dict[str, PortableModule] = {}
    for program in programs:
        if program.digest in known:
            modules[program.digest] = known[program.digest]
        elif program.digest not in modules:
            artifact: bytes | Unavailable
            try:
                artifact = program.no_stablehlo or stablehlo.portable(program.module)
            except ModuleError as e:
                artifact = Unavailable(str(e))
            modules[program.digest] = PortableModule(installed_jax(), artifact)
    return modules


def ported(program: Program, portable: PortableModules) -> Program:
    """Returns a program whose module this JAX can read: the program itself if this JAX created it.

    Modules of other versions come from outside, so they are read in a separate process.

    Raises:
      ModuleError: it has no form that this JAX can read.
    """
    from inspector._jax.modules import isolated_reading

    program.check_compilable()
    installed = installed_jax()
    form = portable.get(
        program.digest, PortableModule("unknown", Unavailable("the file has no portable form of the module"))
    )
    if form.jax == installed:
        return program
    problem = f"The StableHLO of {program.name!r} was created by JAX {form.jax}, and JAX {installed} cannot read"
    remedy = f"Replay it with JAX {form.jax}, or record it with JAX {installed}."
    if isinstance(form.artifact, Unavailable):
        raise ModuleError(f"{problem} it: {form.artifact.reason}. {remedy}")
    try:
        return dataclasses.replace(program, module=isolated_reading.read(form.artifact, "StableHLO").stablehlo)
    except ModuleError as e:
        raise ModuleError(f"{problem} its portable form. {remedy} {e}") from e
