"""One file for a `Compiled`: a zip of JSON and bytes. Never pickle, so that a stranger's file is safe to open.

The file holds everything but what lives in one process (callbacks' keep-alive, pytree structures),
and loads where JAX is not installed. `_Saved` is its manifest's form: every field is checked when it is read.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from inspector.compilation.compiled import CompiledProgram, engine_of, not_asked_for
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
from inspector.support import files, json_values

FORMAT = "inspector-compiled"
FORMAT_VERSION = 2

_HEAD_BYTES = 256  # the archive's first header, and the first line of the manifest
_BLOBS = {
    "module": "module.mlirbc",
    "hlo": "optimized.hlo",
    "hlo_proto": "optimized.hlo.pb",
    "executable": "executable.bin",
    **{name: f"{name}.bin" for name in RECORDS},
}


@dataclasses.dataclass(frozen=True, slots=True)
class _Program:
    """A `Program` without its module; options as `Options.to_json` writes them."""

    name: str
    arguments: tuple[Argument, ...]
    results: tuple[Result, ...]
    options: str
    mesh: Mesh | None
    platform: str
    host_callbacks: bool
    named_axes: tuple[NamedAxes, ...] = ()
    device_ids: tuple[int, ...] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class _Saved:
    """A `Compiled` without what are bytes. `executable` and `products` say why there are none."""

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
    """The whole manifest; `sha256` of each blob, and of `compiled` in its canonical form."""

    format: str
    format_version: int
    sha256: Mapping[str, str]
    compiled: Any


def save(
    compiled: CompiledProgram, path: str | os.PathLike[str], *, compress: bool = True, private: bool = False
) -> None:
    """Writes the file whole or not at all.

    Args:
      compiled: what is written.
      path: where; an older file there is replaced.
      compress: a fifth of the size for five times the time.
      private: whether only this user may read it.

    Raises:
      ModuleError: it has more arguments and warnings than a file of this form holds.
      OSError: the place cannot be written.
    """
    recorded = {name: getattr(compiled, name) for name in RECORDS}
    blobs = {
        **{name: value.to_bytes() for name, value in recorded.items() if not isinstance(value, Unavailable)},
        "module": compiled.program.module,
        "hlo": compiled.hlo.encode(),
        "hlo_proto": compiled.hlo_proto,
        "executable": compiled.executable if isinstance(compiled.executable, bytes) else b"",
    }
    about = json_values.encode(_saved(compiled))
    digests = {**{name: _digest(data) for name, data in blobs.items()}, "compiled": _digest(_canonical(about))}
    text = manifest.written(json_values.encode(_Manifest(FORMAT, FORMAT_VERSION, digests, about)))
    entries = {manifest.NAME: text, **{_BLOBS[name]: data for name, data in blobs.items()}}
    archive.write(path, entries, compress=compress, private=private)


def load(path: str | os.PathLike[str]) -> CompiledProgram:
    """Reads a file that `save` wrote.

    Raises:
      FileNotFoundError: there is none.
      ModuleError: not such a file, damaged, or of a newer version.
    """
    name = repr(os.fspath(path))
    try:
        with Archive(path) as opened:
            fields = manifest.read(opened, name, FORMAT, FORMAT_VERSION, FORMAT_VERSION)
            about = json_values.decode(_Manifest, fields, manifest.NAME)
            held = opened.names()  # only the products that there are
            blobs = {n: opened.read(f) for n, f in _BLOBS.items() if n not in RECORDS or f in held}
    except manifest.OtherFileError:
        raise
    except (ModuleError, json_values.FormError) as e:
        raise ModuleError(f"{name} is not a saved Compiled: {e}. Expected a file that Compiled.save wrote.") from e
    parts = {**blobs, "compiled": _canonical(about.compiled)}
    for part, data in parts.items():
        if _digest(data) != about.sha256.get(part):
            raise ModuleError(
                f"{name} is damaged: its {_BLOBS.get(part, manifest.NAME)} is not what was saved. Save it anew."
            )
    try:
        return _compiled(json_values.decode(_Saved, about.compiled, "compiled"), blobs)
    except (InspectorError, ValueError) as e:
        raise ModuleError(f"{name} is damaged: its {manifest.NAME} is not what was saved ({e}). Save it anew.") from e


def is_saved(path: str | os.PathLike[str]) -> bool:
    """Whether a file looks as if `save` wrote it, uncompressed, damaged or not. Raises OSError."""
    with files.open_regular(path) as file:
        return f'"format": "{FORMAT}"'.encode() in file.read(_HEAD_BYTES)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _canonical(about: Any) -> bytes:
    """The same for a manifest's part that was read as for the one that was written."""
    return json.dumps(about, sort_keys=True).encode()


def _saved(compiled: CompiledProgram) -> _Saved:
    program = compiled.program
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
        ),
        options=compiled.options.to_json(),
        target=str(compiled.target),
        engine=engine_of(compiled),
        memory=compiled.memory,
        cost=compiled.cost,
        timings=compiled.timings,
        executable=compiled.executable if isinstance(compiled.executable, Unavailable) else None,
        versions=compiled.versions,
        warnings=compiled.warnings,
        devices=compiled.devices,
        products={n: value for n in RECORDS if isinstance(value := getattr(compiled, n), Unavailable)},
    )


def _compiled(saved: _Saved, blobs: Mapping[str, bytes]) -> CompiledProgram:
    about = saved.program
    return CompiledProgram(
        program=Program(
            name=about.name,
            module=blobs["module"],
            arguments=about.arguments,
            results=about.results,
            options=Options.from_json(about.options),
            mesh=about.mesh,
            platform=about.platform,
            host_callbacks=about.host_callbacks,
            named_axes=about.named_axes,
            device_ids=about.device_ids,
        ),
        options=Options.from_json(saved.options),
        target=Target.parse(saved.target),
        _engine=saved.engine,
        hlo=blobs["hlo"].decode(),
        hlo_proto=blobs["hlo_proto"],
        memory=saved.memory,
        cost=saved.cost,
        timings=saved.timings,
        executable=blobs["executable"] if saved.executable is None else saved.executable,
        versions=saved.versions,
        warnings=saved.warnings,
        devices=saved.devices,
        **{name: _product(name, saved.products.get(name), blobs) for name in RECORDS},
    )


def _product(name: str, why_not: Unavailable | None, blobs: Mapping[str, bytes]) -> Any:
    if why_not is None and name in blobs:
        return RECORDS[name].from_bytes(blobs[name])
    return not_asked_for(name) if why_not is None else why_not
