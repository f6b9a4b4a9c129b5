"""Saves a `Compiled` to one file, a zip archive of JSON and bytes. No pickle, so that any file is safe to open.

The file has everything except what exists in one process only (host callbacks, pytree structures),
and loads without JAX. `_Saved` is the form of its manifest: every field is checked on reading.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from inspector.compilation.compiled import CompiledProgram, engine_of, executable_of, not_asked_for
from inspector.compilation.cost import Cost
from inspector.compilation.files import archive, manifest
from inspector.compilation.files.archive import Archive
from inspector.compilation.memory import Memory
from inspector.compilation.options.options import Options
from inspector.compilation.program import Argument, NamedAxes, Program, Result
from inspector.compilation.records.registry import RECORDS
from inspector.compilation.target import Target
from inspector.errors import InspectorError, ModuleError, Unavailable
from inspector.hlo.devices.mesh import Mesh
from inspector.support import files, json_values, packages

FORMAT = "inspector-compiled"
FORMAT_VERSION = 2

_HEAD_BYTES = 256  # covers the archive's first header and the first line of the manifest
_BLOBS = {
    "module": "module.mlirbc",
    "hlo": "optimized.hlo",
    "hlo_proto": "optimized.hlo.pb",
    "executable": "executable.bin",
    "portable": "module.stablehlo",
    **{name: f"{name}.bin" for name in RECORDS},
}

_OPTIONAL = frozenset({*RECORDS, "portable"})


@dataclasses.dataclass(frozen=True, slots=True)
class _Program:
    """A `Program` without its module, and with options in the form of `Options.to_json`."""

    name: str
    arguments: tuple[Argument, ...]
    results: tuple[Result, ...]
    options: str
    mesh: Mesh | None
    platform: str
    host_callbacks: bool
    named_axes: tuple[NamedAxes, ...] = ()
    device_ids: tuple[int, ...] | None = None
    no_stablehlo: Unavailable | None = None
    hlo_digest: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class _Saved:
    """A `Compiled` without its bytes. `executable` and `products` have the reasons for missing ones."""

    program: _Program
    options: str
    target: str
    engine: str
    memory: Memory | Unavailable
    cost: Cost | Unavailable
    timings: Mapping[str, float]
    executable: Unavailable | None
    versions: Mapping[str, str]
    warnings: tuple[str, ...]
    devices: tuple[str, ...] = ()
    products: Mapping[str, Unavailable] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class _Manifest:
    """The whole manifest, with `sha256` of each blob and of `compiled` in its canonical form."""

    format: str
    format_version: int
    sha256: Mapping[str, str]
    compiled: Any


def save(
    compiled: CompiledProgram,
    path: str | os.PathLike[str],
    *,
    portable: bytes = b"",
    compress: bool = True,
    private: bool = False,
) -> None:
    """Writes the file atomically.

    Args:
        compiled: the program to save.
        path: the file to write; an existing file is replaced.
        portable: the module in a form for other versions of JAX, which cannot read all bytecode of this one; b"" for none.
        compress: compresses to a fifth of the size, in five times the time.
        private: True if only this user may read the file.

    Raises:
        ModuleError: its arguments and warnings are too large for this format.
        OSError: the file cannot be written.
    """
    recorded = {name: getattr(compiled, name) for name in RECORDS}
    executable = executable_of(compiled)
    blobs = {
        **{name: value.to_bytes() for name, value in recorded.items() if not isinstance(value, Unavailable)},
        "module": compiled.program.module,
        "hlo": compiled.hlo.encode(),
        "hlo_proto": compiled.hlo_proto,
        "executable": executable if isinstance(executable, bytes) else b"",
        **({"portable": portable} if portable else {}),
    }
    about = json_values.encode(_saved(compiled))
    digests = {**{name: _digest(data) for name, data in blobs.items()}, "compiled": _digest(_canonical(about))}
    text = manifest.written(json_values.encode(_Manifest(FORMAT, FORMAT_VERSION, digests, about)))
    entries = {manifest.NAME: text, **{_BLOBS[name]: data for name, data in blobs.items()}}
    archive.write(path, entries, compress=compress, private=private)


def load(path: str | os.PathLike[str]) -> CompiledProgram:
    """Reads a file that `save` wrote.

    Raises:
      FileNotFoundError: the file does not exist.
      ModuleError: another kind of file, a damaged one, or one of another version.
    """
    name = repr(os.fspath(path))
    try:
        with Archive(path) as opened:
            fields = manifest.read(opened, name, FORMAT, FORMAT_VERSION, FORMAT_VERSION)
            about = json_values.decode(_Manifest, fields, manifest.NAME)
            names = opened.names()  # includes recorded products only
            blobs = {n: opened.read(f) for n, f in _BLOBS.items() if n not in _OPTIONAL or f in names}
    except manifest.OtherFileError:
        raise
    except (ModuleError, json_values.FormError) as e:
        raise ModuleError(f"{name} is not a saved Compiled: {e}. Expected a file written by Compiled.save.") from e
    parts = {**blobs, "compiled": _canonical(about.compiled)}
    for part, data in parts.items():
        if _digest(data) != about.sha256.get(part):
            raise ModuleError(
                f"{name} is damaged: its {_BLOBS.get(part, manifest.NAME)} does not match its digest. Save the program again."
            )
    try:
        return _compiled(json_values.decode(_Saved, about.compiled, "compiled"), blobs)
    except (InspectorError, ValueError) as e:
        raise ModuleError(
            f"{name} is damaged: its {manifest.NAME} has invalid contents ({e}). Save the program again."
        ) from e


def is_saved(path: str | os.PathLike[str]) -> bool:
    """Reports whether a file looks like an uncompressed file of `save`, damaged or not. Raises OSError."""
    with files.open_regular(path) as file:
        return f'"format": "{FORMAT}"'.encode() in file.read(_HEAD_BYTES)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _canonical(about: Any) -> bytes:
    """Encodes a part of the manifest identically for a manifest to write and one that was read."""
    return json.dumps(about, sort_keys=True).encode()


def _saved(compiled: CompiledProgram) -> _Saved:
    program, executable = compiled.program, executable_of(compiled)
    return _Saved(
        program=_Program(
            name=program.name,
            arguments=program.arguments,
            results=program.results,
            options=program.options.to_json(),
            mesh=program.mesh,
            platform=program.platform,
            host_callbacks=program.host_callbacks,
            named_axes=program.named_axes,
            device_ids=program.device_ids,
            no_stablehlo=program.no_stablehlo,
            hlo_digest=program.hlo_digest,
        ),
        options=compiled.options.to_json(),
        target=str(compiled.target),
        engine=engine_of(compiled),
        memory=compiled.memory,
        cost=compiled.cost,
        timings=compiled.timings,
        executable=executable if isinstance(executable, Unavailable) else None,
        versions=compiled.versions,
        warnings=compiled.warnings,
        devices=compiled.devices,
        products={n: value for n in RECORDS if isinstance(value := getattr(compiled, n), Unavailable)},
    )


def _module(saved: _Saved, blobs: Mapping[str, bytes]) -> bytes:
    """Returns the module in the form that the installed JAX reads: MLIR's own bytecode changes with every jaxlib."""
    is_same = packages.version("jaxlib") in ("", saved.versions.get("jaxlib"))
    return blobs["module"] if is_same else blobs.get("portable", blobs["module"])


def _compiled(saved: _Saved, blobs: Mapping[str, bytes]) -> CompiledProgram:
    about = saved.program
    return CompiledProgram(
        program=Program(
            name=about.name,
            module=_module(saved, blobs),
            arguments=about.arguments,
            results=about.results,
            options=Options.from_json(about.options),
            mesh=about.mesh,
            platform=about.platform,
            host_callbacks=about.host_callbacks,
            named_axes=about.named_axes,
            device_ids=about.device_ids,
            no_stablehlo=about.no_stablehlo,
            hlo_digest=about.hlo_digest,
        ),
        options=Options.from_json(saved.options),
        target=Target.parse(saved.target),
        _engine=saved.engine,
        hlo=blobs["hlo"].decode(),
        hlo_proto=blobs["hlo_proto"],
        memory=saved.memory,
        cost=saved.cost,
        timings=saved.timings,
        _executable=blobs["executable"] if saved.executable is None else saved.executable,
        versions=saved.versions,
        warnings=saved.warnings,
        devices=saved.devices,
        **{name: _product(name, saved.products.get(name), blobs) for name in RECORDS},
    )


def _product(name: str, why_not: Unavailable | None, blobs: Mapping[str, bytes]) -> Any:
    if why_not is None and name in blobs:
        return RECORDS[name].from_bytes(blobs[name])
    return not_asked_for(name) if why_not is None else why_not
