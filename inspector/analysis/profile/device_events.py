"""`DeviceEvents`: the events of a profile that are work of a device, with the interval that each takes.

| device | events |
|---|---|
| GPU | those of the streams in the plane `/device:GPU:N`: kernels and copies. Their launches on the host do not count |
| TPU | those of the line `XLA Ops` in the plane `/device:TPU:N`, which are named after instructions |
| CPU | those of the host's threads with `hlo_op`: one per thunk, the unit that XLA's CPU runtime executes |

A thunk takes the time from its start until its work has ended on all threads (`thunk_ends.py`).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from inspector.analysis.profile.thunk_ends import elapsed_ps
from inspector.hlo.reading.byte_arrays import Numbers
from inspector.profiles.stats import StatColumn
from inspector.profiles.xspace import XPlane, XSpace

NO_PROGRAM = -1

_DEVICE = re.compile(r"^/device:(GPU|TPU):(\d+)")
_STREAM = "Stream #"
_OPS, _MODULES = "XLA Ops", "XLA Modules"
_DERIVED = frozenset({
    _MODULES, "Async XLA Ops", "Steps", "Framework Ops", "Framework Name Scope", "Source", "Source code", "XLA TraceMe",
    "Launch Stats", "Derived", "SparseCore Offload", "TensorFlow Ops", "TensorFlow Name Scope",
})  # fmt: skip
"""Lines that repeat the work of others."""
_NAMED = re.compile(r"^%?([\w.\-]+)(?: = |$)")
_MODULE = re.compile(r"\((\d+)\)$")


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class DeviceEvents:
    """Events of devices, as columns.

    Attributes:
      devices: names of the devices, such as "GPU:0".
      device: the index of each event's device, `[events]`.
      texts: distinct names.
      name: the index of each event's name: of its instruction if `is_instruction`, else of a kernel or a copy.
      is_instruction: whether the profiler names the instruction.
      program: the id of each event's program; `NO_PROGRAM` if unknown.
      run: the id of each event's execution; 0 if the profiler records none.
      start_ps, elapsed_ps: start and length in picoseconds.
      line: the number of the stream or thread, distinct over all devices.
    """

    devices: tuple[str, ...]
    device: Numbers
    texts: tuple[str, ...]
    name: Numbers
    is_instruction: npt.NDArray[np.bool_]
    program: Numbers
    run: Numbers
    start_ps: Numbers
    elapsed_ps: Numbers
    line: Numbers

    def __len__(self) -> int:
        return len(self.device)

    def __getitem__(self, which: Any) -> DeviceEvents:
        """Returns some of the events, by mask or indices."""
        columns = {name: getattr(self, name)[which] for name in _COLUMNS}
        return dataclasses.replace(self, **columns)


_COLUMNS = ("device", "name", "is_instruction", "program", "run", "start_ps", "elapsed_ps", "line")


def device_events(spaces: Iterable[tuple[str, XSpace]]) -> DeviceEvents:
    """Returns the device events of the profiles of one session.

    Args:
      spaces: the profile of each host, with a prefix for the names of its devices; "" for a single host.
    """
    parts, line = list[_Part](), 0
    for prefix, space in spaces:
        for plane in space.planes:
            part = _of_device(plane) if _DEVICE.match(plane.name) else _of_threads(plane)
            if part is not None:
                parts.append(part.on(prefix, line))
                line += len(plane.lines)
    return _joined(parts)


@dataclasses.dataclass(frozen=True, slots=True)
class _Part:
    """The events of a plane: names and devices as text, other columns as in `DeviceEvents`."""

    devices: tuple[str, ...]
    device: Numbers
    texts: tuple[str, ...]
    columns: tuple[Any, ...]

    def on(self, prefix: str, line: int) -> _Part:
        *others, lines = self.columns
        return dataclasses.replace(
            self, devices=tuple(prefix + each for each in self.devices), columns=(*others, lines + line)
        )


def _joined(parts: Sequence[_Part]) -> DeviceEvents:
    devices = dict.fromkeys(device for part in parts for device in part.devices)
    texts = dict.fromkeys(text for part in parts for text in part.texts)
    numbers, names = ({key: n for n, key in enumerate(keys)} for keys in (devices, texts))
    empty = np.zeros(0, np.int64)

    def recoded(codes: Numbers, keys: Sequence[str], numbered: dict[str, int]) -> Numbers:
        return np.array([numbered[key] for key in keys], np.int64)[codes] if len(codes) else empty

    device = [recoded(part.device, part.devices, numbers) for part in parts]
    name = [recoded(part.columns[0], part.texts, names) for part in parts]
    others = [*zip(*(part.columns[1:] for part in parts), strict=True)]
    joined = [np.concatenate(column) for column in others] if others else [empty.astype(bool), *[empty] * 5]
    return DeviceEvents(
        tuple(devices),
        np.concatenate(device) if device else empty,
        tuple(texts),
        np.concatenate(name) if name else empty,
        *joined,
    )


def _of_device(plane: XPlane) -> _Part | None:
    streams = np.array([line.startswith(_STREAM) for line in plane.lines], bool)
    operations = np.array([line == _OPS for line in plane.lines], bool)
    others = np.array([line not in _DERIVED for line in plane.lines], bool)
    lines = streams if streams.any() else operations if operations.any() else others
    rows = np.flatnonzero(lines[plane.line]) if len(plane) else np.zeros(0, np.int64)
    if not len(rows):
        return None
    match = _DEVICE.match(plane.name)
    device = f"{match[1]}:{match[2]}" if match else plane.name
    if operations.any() and not streams.any():
        return _named_after_instructions(plane, rows, device)
    return _with_instructions(plane, rows, (device,), np.zeros(len(rows), np.int64), plane.duration_ps[rows])


def _of_threads(plane: XPlane) -> _Part | None:
    """Returns the thunks of a CPU; None if the plane has none."""
    operation = plane.event_stats.get("hlo_op")
    if operation is None or not plane.name.startswith("/host:"):
        return None
    is_thunk = operation.has_value
    if (launched := plane.event_stats.get("correlation_id")) is not None:
        is_thunk &= ~launched.has_value  # the launch of a GPU's kernel
    rows = np.flatnonzero(is_thunk)
    if not len(rows):
        return None
    ordinals, _ = _integers(plane.event_stats.get("device_ordinal"), rows)
    distinct, device = np.unique(ordinals, return_inverse=True)
    return _with_instructions(
        plane, rows, tuple(f"CPU:{n}" for n in distinct.tolist()), device, elapsed_ps(plane, rows)
    )


def _with_instructions(
    plane: XPlane, rows: Numbers, devices: tuple[str, ...], device: Numbers, elapsed_ps: Numbers
) -> _Part:
    """Returns events that have their instruction as a statistic; others keep their own names."""
    kinds = [*(kind.name for kind in plane.kinds), "(unnamed)"]
    operation = plane.event_stats.get("hlo_op")
    codes = np.full(len(rows), -1) if operation is None else operation.codes[rows]
    texts = (*kinds, *(operation.texts if operation is not None else ()))
    own = np.where(plane.kind[rows] < 0, len(kinds) - 1, plane.kind[rows])
    programs, has_program = _integers(plane.event_stats.get("program_id"), rows)
    runs, _ = _integers(plane.event_stats.get("run_id"), rows)
    return _Part(
        devices, device, texts,
        (
            np.where(codes >= 0, codes + len(kinds), own), codes >= 0, np.where(has_program, programs, NO_PROGRAM), runs,
            plane.start_ps[rows], elapsed_ps, plane.line[rows],
        ),
    )  # fmt: skip


def _named_after_instructions(plane: XPlane, rows: Numbers, device: str) -> _Part:
    """Returns events of a TPU, whose descriptions name the instruction and the program."""
    names, known = list[str](), list[bool]()
    for kind in plane.kinds:
        match = _NAMED.match(str(kind.stats.get("hlo_op") or kind.display_name or kind.name))
        names.append(match[1] if match else kind.name)
        known.append(match is not None)
    names, known = [*names, "(unnamed)"], [*known, False]
    kinds = np.where(plane.kind[rows] < 0, len(names) - 1, plane.kind[rows])
    of_kind = [kind.stats.get("program_id") for kind in plane.kinds]
    programs = np.array([each if isinstance(each, int) else NO_PROGRAM for each in of_kind] + [NO_PROGRAM], np.int64)[
        kinds
    ]
    own, has_own = _integers(plane.event_stats.get("program_id"), rows)
    programs = np.where(has_own, own, programs)
    unknown = programs == NO_PROGRAM
    programs[unknown] = _programs_at(plane, plane.start_ps[rows[unknown]])
    runs, _ = _integers(plane.event_stats.get("run_id"), rows)
    return _Part(
        (device,), np.zeros(len(rows), np.int64), tuple(names),
        (kinds, np.array(known, bool)[kinds], programs, runs, plane.start_ps[rows], plane.duration_ps[rows], plane.line[rows]),
    )  # fmt: skip


def _programs_at(plane: XPlane, times: Numbers) -> Numbers:
    """Returns the id of the program that runs at each time, from the line of programs, such as `jit_step(1234)`."""
    modules = np.array([line == _MODULES for line in plane.lines], bool)
    rows = np.flatnonzero(modules[plane.line])
    rows = rows[np.argsort(plane.start_ps[rows], kind="stable")]
    matches = [_MODULE.search(kind.name) for kind in plane.kinds]
    ids = np.array([_signed(int(match[1])) if match else NO_PROGRAM for match in matches] + [NO_PROGRAM], np.int64)
    at = np.searchsorted(plane.start_ps[rows], times, side="right") - 1
    inside = at >= 0
    inside[inside] = times[inside] < (plane.start_ps + plane.duration_ps)[rows[at[inside]]]
    found = np.full(len(times), NO_PROGRAM)
    found[inside] = ids[plane.kind[rows[at[inside]]]]
    return found


def _signed(number: int) -> int:
    number &= (1 << 64) - 1
    return number - (1 << 64) if number >> 63 else number


def _integers(column: StatColumn | None, rows: Numbers) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    if column is None:
        return np.zeros(len(rows), np.int64), np.zeros(len(rows), bool)
    numbers, known = column.integers()
    return numbers[rows], known[rows]
