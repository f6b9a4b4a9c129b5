"""A `Compiled`'s executable on the devices of this process, and from and to a file.

Only for devices that this process has: what runs in a worker stays there (`Compiled.run`).
"""

from __future__ import annotations

import functools
import os
from typing import Any

import jax

from inspector._jax.compiling.compiler import Compiler
from inspector._jax.compiling.configuration import read_config
from inspector._jax.compiling.runtime import Client
from inspector._jax.compiling.runtime import LoadedExecutable as LoadedExecutable
from inspector.compilation.compiled import CompiledProgram, engine_of
from inspector.compilation.files import saved_compiled
from inspector.compilation.machine_features import check_cpu
from inspector.compilation.request import CompileRequest
from inspector.engines.serving import callbacks_of, compiler_of
from inspector.engines.workers.environment import check_here
from inspector.engines.workers.messages import PlainCompile, plain_compile
from inspector.errors import ExecutionError, ParameterError, Unavailable


def load(compiled: CompiledProgram) -> LoadedExecutable:
    """See `Compiled.runtime_executable`."""
    target = compiled.target
    request = plain_compile(CompileRequest(compiled.program, compiled.options, target), read_config())
    check_here(target)
    compiler = compiler_of(target)
    compiler.check_platform(request.platform)
    if isinstance(compiled.executable, Unavailable):
        return _compile(compiled, request, compiler, compiled.executable)
    _check_versions(compiled, compiler)
    if compiler.platform == "cpu":
        check_cpu(compiled.executable, _local_executable())
    executable = compiler.load(compiled.executable, request.module, request.build_options, compiled.versions)
    return LoadedExecutable.of(executable)


def save_executable(compiled: CompiledProgram, path: str | os.PathLike[str]) -> None:
    """Writes a compiled program with its executable to one file, whole or not at all.

    The file is the one of `Compiled.save`: JSON and bytes with SHA-256 digests, never pickle.

    Args:
      compiled: a program whose back-end gave the executable's bytes.
      path: where to.

    Raises:
      ParameterError: `compiled` is none, such as a `jax.stages.Compiled`.
      ExecutionError: there are no bytes, such as of a program that calls back into this process.
      OSError: the place cannot be written.
    """
    given: Any = compiled  # a user's, whatever the annotation says
    if not isinstance(given, CompiledProgram):
        raise ParameterError(
            f"Expected a Compiled of inspector, got {given!r} ({type(given).__name__}). inspector.lower(fun,"
            " *args).compile() makes one."
        )
    if isinstance(compiled.executable, Unavailable):
        raise ExecutionError(
            f"The executable of {compiled.program.name!r} cannot be saved: {compiled.executable.reason}."
            " Compiled.save keeps everything else."
        )
    saved_compiled.save(compiled, path)


def load_executable(compiled: CompiledProgram | str | os.PathLike[str]) -> LoadedExecutable:
    """Loads the executable of a `Compiled`, or of a file of `save_executable`, on the devices of this process.

    The result has jaxlib's own methods (docs/runtime.md). It runs in this process, without the isolation of a worker.
    `Compiled.run` does not need it. A program without serialized executable, such as one with host callbacks, is
    compiled again, if this process compiled it.

    Before XLA reads a byte of a file, the digests are compared, and the jaxlib and platform that compiled it
    with those here, and the CPU's instructions. The digests find damage. They are no signature: an executable is machine code, and
    only a file from a source you trust may be run.

    Raises:
      FileNotFoundError: there is none.
      ModuleError: not such a file, or damaged.
      ExecutionError: compiled by another jaxlib or platform version, or for a CPU with instructions
        that this one lacks; or there is no executable.
      TargetError: this process lacks the platform, or has too few devices.
    """
    if isinstance(compiled, CompiledProgram):
        return load(compiled)
    path, compiled = compiled, saved_compiled.load(compiled)
    if isinstance(compiled.executable, Unavailable):
        raise ExecutionError(f"{os.fspath(path)!r} holds no executable: {compiled.executable.reason}.")
    return load(compiled)


def _compile(
    compiled: CompiledProgram, request: PlainCompile, compiler: Compiler, reason: Unavailable
) -> LoadedExecutable:
    """Compiles anew what has no bytes, where this process has compiled it before."""
    if engine_of(compiled) != "inline":
        raise ExecutionError(f"The executable of {compiled.program.name!r} cannot leave its process: {reason.reason}.")
    executable, _ = compiler.compile(
        request.module,
        request.build_options,
        platform=request.platform,
        callbacks=callbacks_of(compiled.program),
    )
    assert executable is not None, "a compiler of this process can run what it compiled"
    return LoadedExecutable.of(executable)


def _check_versions(compiled: CompiledProgram, compiler: Compiler) -> None:
    """XLA would load, or misread, what another compiler made."""
    ours = compiler.versions
    for name in ("jaxlib", "platform_version"):
        theirs = compiled.versions.get(name)
        if theirs != ours[name]:
            raise ExecutionError(
                f"The executable was compiled by {name} {theirs!r}, this is {ours[name]!r}, and executables do"
                f" not carry over. Install jaxlib {compiled.versions.get('jaxlib')}, or compile the program again here:"
                " `c = load_compiled(path)`, then `inspector.lower(c).compile(c.options)`."
            )


@functools.cache
def _local_executable() -> bytes:
    """What this machine makes of the smallest program; milliseconds."""
    device = jax.local_devices(backend="cpu")[0]
    identity = "func.func public @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }"
    serialized = Client.of(device).compile_and_load(identity, [device]).serialize()
    return b"" if isinstance(serialized, Unavailable) else serialized
