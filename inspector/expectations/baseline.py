"""A baseline file: records of programs by name, target and compiler, as JSON that reads well in a diff.

    {"format": "inspector-baseline", "format_version": 1,
     "programs": {"test_train_step": {"cpu:8": {"jax 0.10.2": {"numbers": {..}, "collectives": {..}, ..}}}}}

Each compiler has a record of its own. A compiler without one is held against the nearest that there is: what is the
same under both needs no second record.
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
    """Which record of a program.

    Attributes:
      target: for what it was compiled, with options where there are some.
      compiler: by whom, with versions.
    """

    target: str
    compiler: str

    @classmethod
    def of(cls, compiled: CompiledProgram) -> Key:
        """The key of a compiled program."""
        target = str(compiled.target)
        if compiled.target.kind == "attached":
            target = f"attached {compiled.program.platform}"
        options = f" {compiled.options}" if compiled.options.as_dict() else ""
        return cls(f"{target}{options}", compiler_text(compiled))


def compiler_text(compiled: CompiledProgram) -> str:
    """Such as "jax 0.10.2", and "jax 0.10.2, libtpu 0.0.42.1" where another library compiles."""
    jax = f"jax {compiled.versions.get('jax', 'of an unknown version')}"
    own = compiled.versions.get("platform_version", "") if compiled.target.is_absent else ""
    return f"{jax}, {own}" if own else jax


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """A record, and whose it is: not the asked compiler's where that has none."""

    record: Record
    compiler: str


def find(path: Path, name: str, key: Key) -> Found | Unavailable:
    """The record to hold a program against, or why there is none.

    Raises:
      ModuleError: the file is no baseline, or damaged.
    """
    targets = read(path).get(name)
    if targets is None:
        return Unavailable(f"{str(path)!r} has no record of {name!r}")
    records = targets.get(key.target)
    if not records:
        return Unavailable(f"{str(path)!r} has records of {name!r} for {', '.join(targets)}, and none for {key.target}")
    nearest = key.compiler if key.compiler in records else _nearest(key.compiler, records)
    return Found(records[nearest], nearest)


def read(path: Path) -> Programs:
    """All records of a file; none of one that is not there.

    Raises:
      ModuleError: the file is no baseline, or damaged.
    """
    try:
        data = files.read(path, _MAX_BYTES)
    except FileNotFoundError:
        return {}
    except OSError as e:
        raise ModuleError(f"The baseline {str(path)!r} cannot be read: {e}") from e
    return _parsed(path, data)


def write(path: Path, name: str, key: Key, record: Record) -> None:
    """Puts a record into a file beside those of others, in whatever process these are written.

    Raises:
      ModuleError: the file is no baseline, or damaged.
      OSError: it cannot be written.
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
    """The text of a file with these records: in alphabetical order, a number a line."""
    ordered = {
        name: {target: dict(sorted(records.items())) for target, records in sorted(targets.items())}
        for name, targets in sorted(programs.items())
    }
    return json.dumps(json_values.encode(_File(FORMAT, FORMAT_VERSION, ordered)), indent=2, ensure_ascii=False) + "\n"


def _parsed(path: Path, data: bytes) -> Programs:
    try:
        value = json_values.parse(data)
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise json_values.FormError(f'it does not say "format": "{FORMAT}"')
        if value.get("format_version") != FORMAT_VERSION:
            raise json_values.FormError(
                f"it has format {value.get('format_version')!r}, and this inspector reads {FORMAT_VERSION}"
            )
        found = json_values.decode(_File, value, "the file")
    except json_values.FormError as e:
        raise ModuleError(
            f"{str(path)!r} is no baseline: {e}. Expected a file that --inspector-update wrote; delete it and record anew."
        ) from e
    return {name: {target: dict(each) for target, each in targets.items()} for name, targets in found.programs.items()}


def _nearest(compiler: str, records: Mapping[str, Record]) -> str:
    """The newest that is not newer; the oldest where all are."""
    older = [each for each in records if _version(each) <= _version(compiler)]
    return max(older, key=_version) if older else min(records, key=_version)


def _version(compiler: str) -> tuple[int, ...]:
    return tuple(int(digits) for digits in _digits(compiler))


def _digits(text: str) -> Iterator[str]:
    return (found[:9] for found in re.findall(r"\d+", text))
