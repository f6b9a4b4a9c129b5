"""A baseline file: records of programs by name, target and compiler, as JSON that reads well in a diff.

    {"format": "inspector-baseline", "format_version": 1,
     "programs": {"test_train_step": {"cpu:8": {"jax 0.10.2": {"numbers": {..}, "collectives": {..}, ..}}}}}

Each compiler has its own record. A compiler without a record is compared with the nearest one that has a record, so that
equal results need no second record.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from inspector.compilation.compiled import CompiledProgram
from inspector.errors import ModuleError, Unavailable
from inspector.expectations.baseline_record import Record
from inspector.support import files, json_values

FORMAT = "inspector-baseline"
FORMAT_VERSION = 1

_MAX_BYTES = 64 << 20

Programs = dict[str, dict[str, dict[str, Record]]]


@dataclasses.dataclass(frozen=True, slots=True)
class _File:
    format: str
    format_version: int
    programs: Mapping[str, Mapping[str, Mapping[str, Record]]]


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """The key of a record among those of a program.

    Attributes:
      target: the target, with options if there are any.
      compiler: the compiler, with versions.
    """

    target: str
    compiler: str

    @classmethod
    def of(cls, compiled: CompiledProgram) -> Key:
        """Returns the key of a compiled program."""
        target = str(compiled.target)
        if compiled.target.kind == "attached":
            target = f"attached {compiled.program.platform}"
        options = f" {compiled.options}" if compiled.options.as_dict() else ""
        return cls(f"{target}{options}", compiler_text(compiled))


def compiler_text(compiled: CompiledProgram) -> str:
    """Names the compiler: "jax 0.10.2", or "jax 0.10.2, libtpu 0.0.42.1" if another library compiles."""
    jax = f"jax {compiled.versions.get('jax', 'of an unknown version')}"
    own = compiled.versions.get("platform_version", "") if compiled.target.is_absent else ""
    return f"{jax}, {own}" if own else jax


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """A record and the compiler that it was recorded with: a similar one if the requested compiler has no record."""

    record: Record
    compiler: str


def find(path: Path, name: str, key: Key) -> Found | Unavailable:
    """Finds the record to compare a program with, or the reason why there is none.

    Raises:
      ModuleError: the file is not a baseline, or is damaged.
    """
    targets = read(path).get(name)
    if targets is None:
        return Unavailable(f"{str(path)!r} has no record of {name!r}")
    records = targets.get(key.target)
    if not records:
        return Unavailable(f"{str(path)!r} has records of {name!r} for {', '.join(targets)}, but none for {key.target}")
    nearest = key.compiler if key.compiler in records else _nearest(key.compiler, records)
    return Found(records[nearest], nearest)


def read(path: Path) -> Programs:
    """Reads all records of a file; none if the file does not exist.

    Raises:
      ModuleError: the file is not a baseline, or is damaged.
    """
    try:
        data = files.read(path, _MAX_BYTES)
    except FileNotFoundError:
        return {}
    except OSError as e:
        raise ModuleError(f"The baseline {str(path)!r} cannot be read: {e}") from e
    return _parsed(path, data)


def write(path: Path, name: str, key: Key, record: Record) -> None:
    """Adds a record to a file. Other processes may write to the file at the same time.

    Raises:
      ModuleError: the file is not a baseline, or is damaged.
      OSError: the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with files.updating(path):
        programs = read(path) if _has_content(path) else {}
        targets = programs.setdefault(name, {}).setdefault(key.target, {})
        if targets.get(key.compiler) == record:
            return
        targets[key.compiler] = record
        files.write_text(path, written(programs))


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def written(programs: Programs) -> str:
    """Returns the text of a file with these records, in alphabetical order, one number per line."""
    ordered = {
        name: {target: dict(sorted(records.items())) for target, records in sorted(targets.items())}
        for name, targets in sorted(programs.items())
    }
    return json.dumps(json_values.encode(_File(FORMAT, FORMAT_VERSION, ordered)), indent=2, ensure_ascii=False) + "\n"


def _parsed(path: Path, data: bytes) -> Programs:
    try:
        value = json_values.parse(data)
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise json_values.FormError(f'it has no "format": "{FORMAT}"')
        if value.get("format_version") != FORMAT_VERSION:
            raise json_values.FormError(
                f"it has format {value.get('format_version')!r}, but this inspector reads {FORMAT_VERSION}"
            )
        file = json_values.decode(_File, value, "the file")
    except json_values.FormError as e:
        raise ModuleError(
            f"{str(path)!r} is not a baseline: {e}. Expected a file that --inspector-update wrote. Delete the file and record it again."
        ) from e
    return {name: {target: dict(each) for target, each in targets.items()} for name, targets in file.programs.items()}


def _nearest(compiler: str, records: Mapping[str, Record]) -> str:
    """Returns the newest compiler that is not newer than the given one; the oldest if all are newer."""
    older = [each for each in records if _version(each) <= _version(compiler)]
    return max(older, key=_version) if older else min(records, key=_version)


def _version(compiler: str) -> tuple[int, ...]:
    return tuple(int(digits) for digits in _digits(compiler))


def _digits(text: str) -> Iterator[str]:
    return (digits[:9] for digits in re.findall(r"\d+", text))
