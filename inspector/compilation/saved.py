"""One file for a `Compiled`: a zip of JSON and bytes. Never pickle, so that a stranger's file is safe to open.

The file holds everything but what lives in one process (callbacks' keep-alive, pytree structures),
and loads where JAX is not installed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import secrets
import zipfile
import zlib
from pathlib import Path
from typing import Any

from inspector.compilation.compiled import Compiled, Cost, Memory, not_asked_for
from inspector.compilation.options import Options
from inspector.compilation.program import Argument, Program, Result
from inspector.compilation.records.assembly import Assembly
from inspector.compilation.records.buffers import Buffers
from inspector.compilation.records.passes import Passes
from inspector.compilation.target import Target
from inspector.errors import InspectorError, ModuleError, Unavailable
from inspector.hlo.mesh import Mesh

FORMAT = "inspector-compiled"
FORMAT_VERSION = 1

_BLOBS = {
    "module": "module.mlirbc",
    "hlo": "optimized.hlo",
    "hlo_proto": "optimized.hlo.pb",
    "executable": "executable.bin",
    "passes": "passes.bin",
    "assembly": "assembly.bin",
    "buffers": "buffers.bin",
}
_PRODUCTS: dict[str, type[Passes] | type[Assembly] | type[Buffers]] = {
    "passes": Passes,
    "assembly": Assembly,
    "buffers": Buffers,
}


def save(compiled: Compiled, path: str | os.PathLike[str], *, compress: bool = True) -> None:
    """Writes the file whole or not at all.

    Args:
      compiled: what is written.
      path: where; an older file there is replaced.
      compress: a fifth of the size for five times the time.

    Raises:
      OSError: the place cannot be written.
    """
    recorded = {name: getattr(compiled, name) for name in _PRODUCTS}
    blobs = {
        **{name: value.to_bytes() for name, value in recorded.items() if not isinstance(value, Unavailable)},
        "module": compiled.program.module,
        "hlo": compiled.hlo.encode(),
        "hlo_proto": compiled.hlo_proto,
        "executable": compiled.executable if isinstance(compiled.executable, bytes) else b"",
    }
    about = _encode(compiled)
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "sha256": {**{name: _digest(data) for name, data in blobs.items()}, "compiled": _digest(_canonical(about))},
        "compiled": about,
    }
    target = Path(path)
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    # Not `tempfile`, whose files only their owner may read.
    partial = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with zipfile.ZipFile(partial, "x", method, compresslevel=1) as archive:
            archive.writestr("manifest.json", json.dumps(manifest, indent=1))
            for name, data in blobs.items():
                archive.writestr(_BLOBS[name], data)
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def load(path: str | os.PathLike[str]) -> Compiled:
    """Reads a file that `save` wrote.

    Raises:
      FileNotFoundError: there is none.
      ModuleError: not such a file, damaged, or of a newer version.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            manifest = json.loads(archive.read("manifest.json"))
            _check_format(manifest, path)
            held = archive.namelist()  # only the products that there are
            blobs = {n: archive.read(f) for n, f in _BLOBS.items() if n not in _PRODUCTS or f in held}
    except ModuleError:
        raise
    except _UNREADABLE as e:
        raise ModuleError(
            f"{os.fspath(path)!r} is not a saved Compiled: {e}. Expected a file that Compiled.save wrote."
        ) from e
    saved = manifest.get("sha256")
    digests = saved if isinstance(saved, dict) else {}
    held_parts = {**blobs, "compiled": _canonical(manifest.get("compiled"))}
    for name, data in held_parts.items():
        if _digest(data) != digests.get(name):
            raise ModuleError(
                f"{os.fspath(path)!r} is damaged: its {_BLOBS.get(name, 'manifest.json')} is not what was saved. Save it"
                " anew."
            )
    try:
        return _decode(manifest["compiled"], blobs)
    except (KeyError, TypeError, ValueError, AttributeError, InspectorError) as e:
        raise ModuleError(
            f"{os.fspath(path)!r} is damaged: its manifest.json is not what was saved ({type(e).__name__}: {e})."
            " Save it anew."
        ) from e


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _canonical(about: Any) -> bytes:
    """The same for a manifest's part that was read as for the one that was written."""
    return json.dumps(about, sort_keys=True).encode()


# What `zipfile` raises for bytes that are no archive, or a damaged one.
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    KeyError,
    ValueError,
    TypeError,
    EOFError,
    NotImplementedError,
    RuntimeError,
)


def _check_format(manifest: Any, path: str | os.PathLike[str]) -> None:
    found = manifest.get("format") if isinstance(manifest, dict) else manifest
    if found != FORMAT:
        raise ModuleError(f"{os.fspath(path)!r} holds {found!r}, expected {FORMAT!r}.")
    if manifest["format_version"] > FORMAT_VERSION:
        raise ModuleError(
            f"{os.fspath(path)!r} has format {manifest['format_version']}, this inspector reads up to"
            f" {FORMAT_VERSION}. Update inspector to read it."
        )


def _encode(compiled: Compiled) -> dict[str, Any]:
    program = compiled.program
    return {
        "program": {
            "name": program.name,
            "arguments": [dataclasses.asdict(a) for a in program.arguments],
            "results": [dataclasses.asdict(r) for r in program.results],
            "options": program.options.to_json(),
            "mesh": None if program.mesh is None else dataclasses.asdict(program.mesh),
            "platform": program.platform,
            "host_callbacks": program.host_callbacks,
        },
        "options": compiled.options.to_json(),
        "target": str(compiled.target),
        "engine": compiled.engine,
        "memory": _encode_known(compiled.memory),
        "cost": _encode_known(compiled.cost),
        "timings": dict(compiled.timings),
        "executable": _encode_known(compiled.executable) if isinstance(compiled.executable, Unavailable) else None,
        "versions": dict(compiled.versions),
        "warnings": list(compiled.warnings),
        "devices": list(compiled.devices),
        "products": {
            name: _encode_known(value)
            for name in _PRODUCTS
            if isinstance(value := getattr(compiled, name), Unavailable)
        },
    }


def _decode(manifest: dict[str, Any], blobs: dict[str, bytes]) -> Compiled:
    about = manifest["program"]
    program = Program(
        name=about["name"],
        module=blobs["module"],
        arguments=tuple(Argument(**{**a, "shape": tuple(a["shape"])}) for a in about["arguments"]),
        results=tuple(Result(**{**r, "shape": tuple(r["shape"])}) for r in about["results"]),
        options=Options.from_json(about["options"]),
        mesh=None if about["mesh"] is None else Mesh(**{k: _tuple(v) for k, v in about["mesh"].items()}),
        platform=about["platform"],
        host_callbacks=about["host_callbacks"],
    )
    memory, cost, executable = (_decode_known(manifest[name]) for name in ("memory", "cost", "executable"))
    return Compiled(
        program=program,
        options=Options.from_json(manifest["options"]),
        target=Target.parse(manifest["target"]),
        engine=manifest["engine"],
        hlo=blobs["hlo"].decode(),
        hlo_proto=blobs["hlo_proto"],
        memory=memory if isinstance(memory, Unavailable) else Memory(**memory),
        cost=cost if isinstance(cost, Unavailable) else Cost(**cost),
        timings=manifest["timings"],
        executable=executable if isinstance(executable, Unavailable) else blobs["executable"],
        versions=manifest["versions"],
        warnings=tuple(manifest["warnings"]),
        devices=tuple(manifest.get("devices", ())),
        **{name: _decode_product(name, manifest.get("products", {}).get(name), blobs) for name in _PRODUCTS},
    )


def _decode_product(name: str, why_not: Any, blobs: dict[str, bytes]) -> Any:
    if why_not is None and name in blobs:
        return _PRODUCTS[name].from_bytes(blobs[name])
    return not_asked_for(name) if why_not is None else _decode_known(why_not)


def _encode_known(value: object) -> Any:
    """A dataclass as a dict, with each `Unavailable` in it as `{"unavailable": [reason, remedy]}`."""
    if isinstance(value, Unavailable):
        return {"unavailable": [value.reason, value.remedy]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _encode_known(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return value


def _decode_known(value: Any) -> Any:
    if isinstance(value, dict) and "unavailable" in value:
        return Unavailable(*value["unavailable"])
    if isinstance(value, dict):
        return {name: _decode_known(v) for name, v in value.items()}
    return value


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
