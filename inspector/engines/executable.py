"""Loads a `Compiled`'s executable on the devices of this process, and saves it to a file and reads it back.

Supports devices of this process only: programs of workers run in their workers (`Compiled.run`).
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
from inspector.compilation.compiled import CompiledProgram, engine_of, executable_of
from inspector.compilation.files import saved_compiled
from inspector.compilation.machine_features import check_cpu
from inspector.compilation.request import CompileRequest
from inspector.engines.serving import callbacks_of, compiler_of
from inspector.engines.workers.environment import check_here
from inspector.engines.workers.messages import PlainCompile, plain_compile
from inspector.errors import ExecutionError, ParameterError, Unavailable
from inspector.support.notebook import short


def load(compiled: CompiledProgram) -> LoadedExecutable:
    """Loads the executable; see `Compiled.runtime_executable`."""
    target = compiled.target
    request = plain_compile(CompileRequest(compiled.program, compiled.options, target), read_config())
    check_here(target)
    compiler = compiler_of(target)
    compiler.check_platform(request.platform)
    serialized = executable_of(compiled)
    if isinstance(serialized, Unavailable):
        return _compile(compiled, request, compiler, serialized)
    _check_versions(compiled, compiler)
    if compiler.platform == "cpu":
        check_cpu(serialized, _local_executable())
    executable = compiler.load(serialized, request.module, request.build_options, compiled.versions)
    return LoadedExecutable.of(executable)


def save_executable(compiled: CompiledProgram, path: str | os.PathLike[str]) -> None:
    """Writes a compiled program with its executable to one file, atomically.

    The file format is that of `Compiled.save`: JSON and bytes with SHA-256 digests, no pickle.

    Args:
      compiled: a program with a serialized executable.
      path: the file to write.

    Raises:
      ParameterError: `compiled` is of another type, such as a `jax.stages.Compiled`.
      ExecutionError: there are no bytes, for example for a program that calls back into this process.
      OSError: the file cannot be written.
    """
    value: Any = compiled  # given by the user, so of any type
    if not isinstance(value, CompiledProgram):
        raise ParameterError(
            f"Expected an inspector Compiled, got {short(value)} ({type(value).__name__}). Create one with"
            " inspector.lower(fun, *args).compile()."
        )
    executable = executable_of(compiled)
    if isinstance(executable, Unavailable):
        raise ExecutionError(
            f"The executable of {compiled.program.name!r} cannot be saved: {executable.reason}."
            " Compiled.save saves everything else."
        )
    saved_compiled.save(compiled, path)


def load_executable(compiled: CompiledProgram | str | os.PathLike[str]) -> LoadedExecutable:
    """Loads the executable of a `Compiled`, or of a file of `save_executable`, on the devices of this process.

    The result has jaxlib's own methods (docs/runtime.md). It runs in this process, without the isolation of a worker;
    `Compiled.run` does not need it. A program without serialized executable, such as one with host callbacks, is
    compiled again, if this process compiled it.

    Of a file, compares the digests, the versions of jaxlib and the platform, and the instructions of the CPU before XLA reads
    the executable. The digests detect damage. They are not a signature: an executable is machine code, so run only files
    from a source you trust.

    Raises:
      FileNotFoundError: the file does not exist.
      ModuleError: it is another kind of file, or damaged.
      ExecutionError: compiled by another jaxlib or platform version, or for a CPU with instructions
        that this one lacks; or the file has no executable.
      TargetError: this process lacks the platform, or has too few devices.
    """
    if isinstance(compiled, CompiledProgram):
        return load(compiled)
    path, compiled = compiled, saved_compiled.load(compiled)
    executable = executable_of(compiled)
    if isinstance(executable, Unavailable):
        raise ExecutionError(f"{os.fspath(path)!r} has no executable: {executable.reason}.")
    return load(compiled)


def _compile(
    compiled: CompiledProgram, request: PlainCompile, compiler: Compiler, reason: Unavailable
) -> LoadedExecutable:
    """Compiles a program again that has no serialized executable, if this process compiled it before."""
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
    """Compares versions, because XLA would load or misread the executable of another compiler."""
    ours = compiler.versions
    for name in ("jaxlib", "platform_version"):
        theirs = compiled.versions.get(name)
        if theirs != ours[name]:
            raise ExecutionError(
                f"The executable was compiled by {name} {theirs!r}, but this process has {ours[name]!r}, and executables"
                f" need the same version. Install jaxlib {compiled.versions.get('jaxlib')}, or compile the program again:"
                " `c = inspector.load(path)`, then `inspector.lower(c).compile(c.options)`."
            )


@functools.cache
def _local_executable() -> bytes:
    """Returns the executable of the smallest program on this machine, which compiles in milliseconds."""
    device = jax.local_devices(backend="cpu")[0]
    identity = "func.func public @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }"
    serialized = Client.of(device).compile_and_load(identity, [device]).serialize()
    return b"" if isinstance(serialized, Unavailable) else serialized
