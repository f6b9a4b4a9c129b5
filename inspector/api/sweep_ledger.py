"""`Ledger`: the file of a sweep's finished rows, which several sweeps may share.

    first line   {"format": "inspector-sweep", "format_version": 1}
    others       {"key": .., "target": .., "options": .., "numbers": {..}, "error": .., "warnings": [..]}

One JSON document per line. A key is a digest of the program without source locations (a notebook cell has other ones after
a restart), options, target, JAX version, and the parts of JAX's configuration and XLA_FLAGS that affect every compile. Lines
that are damaged or cut off are ignored, and their variants are compiled again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Any, BinaryIO

from inspector.compilation.request import CompileRequest
from inspector.errors import ModuleError, Unavailable
from inspector.stages.lowered import Lowered
from inspector.support import files, json_values
from inspector.toolchain import xla

FORMAT = "inspector-sweep"
FORMAT_VERSION = 1

Number = int | float | Unavailable

_MAX_LINE_BYTES = 16 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class VariantResult:
    """The result of one variant.

    Attributes:
      numbers: by the names of a sweep's columns; empty if `error` gives a reason.
      error: "" for none.
      warnings: warnings of the compiler.
      is_final: True if a later sweep would get the same result, unlike after a killed worker.
    """

    numbers: Mapping[str, Number]
    error: str = ""
    warnings: tuple[str, ...] = ()
    is_final: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class _Header:
    format: str
    format_version: int


@dataclasses.dataclass(frozen=True, slots=True)
class _Row:
    """One line of the file. `target` and `options` are for readers."""

    key: str
    target: str
    options: str
    numbers: Mapping[str, Number]
    error: str
    warnings: tuple[str, ...] = ()  # files of before have none


class Ledger:
    """The rows of one program. Several processes may share the file."""

    def __init__(self, path: str | os.PathLike[str], lowered: Lowered) -> None:
        """Reads the file, or creates it.

        Raises:
          ModuleError: the file is something else, or of a newer version.
          OSError: the file cannot be read or created.
        """
        self._path = path
        versions = [f"{name}={metadata.version(name)}" for name in ("jax", "jaxlib")]
        self._common = hashlib.sha256("\n".join([*versions, lowered.program.platform, str(lowered.stablehlo)]).encode())
        self._common.update(xla.jax_options().SerializeToString(deterministic=True))
        self._results: dict[str, VariantResult] = {}
        self._read_bytes = 0
        self._is_cut_off = False
        self._is_ours = False
        with self._locked() as file:
            if not self._is_ours:
                self._append(file, json_values.encode(_Header(FORMAT, FORMAT_VERSION)))

    def read(self, request: CompileRequest) -> VariantResult | None:
        """Returns the result of an earlier or concurrent sweep."""
        with contextlib.suppress(OSError), self._locked():
            pass
        return self._results.get(self._key(request))

    def write(self, request: CompileRequest, finding: VariantResult) -> None:
        """Adds a final row that the file lacks; it is on disk when this returns. Raises OSError."""
        key = self._key(request)
        if not finding.is_final:
            return
        row = _Row(key, str(request.target), str(request.options), finding.numbers, finding.error, finding.warnings)
        with self._locked() as file:
            if key not in self._results:
                self._append(file, json_values.encode(row))

    def _key(self, request: CompileRequest) -> str:
        digest = self._common.copy()
        digest.update(f"\n{request.build_options.to_json()}\n{request.target}".encode())
        return digest.hexdigest()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[BinaryIO]:
        """Locks the file against other sweeps, after reading the rows that they added."""
        try:
            file = files.open_shared(self._path)
        except files.RefusedError as e:
            raise ModuleError(f"{e}. Pass a path that does not exist.") from e
        with file, files.locked(file):
            self._take(file)
            yield file

    def _take(self, file: BinaryIO) -> None:
        file.seek(self._read_bytes)
        is_empty = self._read_bytes == 0
        while line := file.readline(_MAX_LINE_BYTES):
            self._read_bytes += len(line)
            self._is_cut_off = not line.endswith(b"\n")
            is_empty = is_empty and (not line.strip() or _HEADER_LINE.startswith(line))
            self._take_line(line)
        if not self._is_ours and not is_empty:
            raise ModuleError(
                f"{os.fspath(self._path)!r} is not a file of sweep results. Pass a path that does not exist."
            )

    def _take_line(self, line: bytes) -> None:
        try:
            value: Any = json_values.parse(line)
            if isinstance(value, dict) and "key" in value:
                row = json_values.decode(_Row, value)
                self._results[row.key] = VariantResult(row.numbers, row.error, row.warnings)
            else:
                self._check(json_values.decode(_Header, value))
        except json_values.FormError:
            return
        self._is_ours = True

    def _check(self, header: _Header) -> None:
        if header.format != FORMAT:
            raise json_values.FormError(f"another format: {header.format}")
        if header.format_version > FORMAT_VERSION:
            raise ModuleError(
                f"{os.fspath(self._path)!r} has format {header.format_version}, but this inspector reads formats up to"
                f" {FORMAT_VERSION}. Update inspector to read it."
            )

    def _append(self, file: BinaryIO, value: Any) -> None:
        line = json.dumps(value).encode() + b"\n"
        with files.named(self._path):
            file.write(b"\n" + line if self._is_cut_off else line)
            file.flush()
            os.fsync(file.fileno())
        self._take(file)


_HEADER_LINE = json.dumps({"format": FORMAT, "format_version": FORMAT_VERSION}).encode() + b"\n"
