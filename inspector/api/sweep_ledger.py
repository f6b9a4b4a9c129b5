"""`Ledger`: the file of a sweep's finished rows, which several sweeps may share. Joins programs, options and files.

    first line   {"format": "inspector-sweep", "format_version": 1}
    others       {"key": .., "target": .., "options": .., "numbers": {..}, "error": .., "warnings": [..]}

JSON, a line each. A key is a digest of the program without source locations (a notebook's cell has others
after a restart), of options, target, JAX's version, and what JAX's configuration and XLA_FLAGS add to every compile.
A line that is no row, cut off by a kill or damaged, is as if it were not there: its variant is compiled again.
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
    """What one variant came to.

    Attributes:
      numbers: by the names of a sweep's columns, none where `error` says why.
      error: "" for none.
      warnings: of the compiler.
      is_final: whether a later sweep would find the same. Not so, say, when a worker was killed by a person.
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
    """`target` and `options` are for people."""

    key: str
    target: str
    options: str
    numbers: Mapping[str, Number]
    error: str
    warnings: tuple[str, ...] = ()  # files of before have none


class Ledger:
    """The rows of one program. Several processes may have the same file."""

    def __init__(self, path: str | os.PathLike[str], lowered: Lowered) -> None:
        """Reads the file, or makes it.

        Raises:
          ModuleError: the file is something else, or of a newer version.
          OSError: it cannot be read or made.
        """
        self._path = path
        versions = [f"{name}={metadata.version(name)}" for name in ("jax", "jaxlib")]
        self._common = hashlib.sha256("\n".join([*versions, lowered.program.platform, lowered.stablehlo]).encode())
        self._common.update(xla.jax_options().SerializeToString(deterministic=True))
        self._found: dict[str, VariantResult] = {}
        self._read_bytes = 0
        self._is_cut_off = False
        self._is_ours = False
        with self._held() as file:
            if not self._is_ours:
                self._append(file, json_values.encode(_Header(FORMAT, FORMAT_VERSION)))

    def read(self, request: CompileRequest) -> VariantResult | None:
        """What an earlier sweep found, or another one meanwhile."""
        with contextlib.suppress(OSError), self._held():
            pass
        return self._found.get(self._key(request))

    def write(self, request: CompileRequest, finding: VariantResult) -> None:
        """Adds a final row that is not there yet; it is on the disk when this returns. Raises OSError."""
        key = self._key(request)
        if not finding.is_final:
            return
        row = _Row(key, str(request.target), str(request.options), finding.numbers, finding.error, finding.warnings)
        with self._held() as file:
            if key not in self._found:
                self._append(file, json_values.encode(row))

    def _key(self, request: CompileRequest) -> str:
        digest = self._common.copy()
        digest.update(f"\n{request.build_options.to_json()}\n{request.target}".encode())
        return digest.hexdigest()

    @contextlib.contextmanager
    def _held(self) -> Iterator[BinaryIO]:
        """The file, held against other sweeps, with what these have added read."""
        try:
            file = files.open_shared(self._path)
        except files.RefusedError as e:
            raise ModuleError(f"{e}. Give a path that does not exist yet.") from e
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
            raise ModuleError(f"{os.fspath(self._path)!r} is not a sweep's file. Give a path that does not exist yet.")

    def _take_line(self, line: bytes) -> None:
        try:
            value: Any = json_values.parse(line)
            if isinstance(value, dict) and "key" in value:
                row = json_values.decode(_Row, value)
                self._found[row.key] = VariantResult(row.numbers, row.error, row.warnings)
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
                f"{os.fspath(self._path)!r} has format {header.format_version}, this inspector reads up to"
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
