"""`RecordedProfile`: a profile from another machine, with its programs and their measured times."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from inspector.analysis.profile.device_events import NO_PROGRAM, DeviceEvents, device_events
from inspector.analysis.profile.device_kinds import device_kind, platform_of
from inspector.analysis.profile.joining import join, rest
from inspector.analysis.profile.rows import OTHER_WORK, ProfileRow
from inspector.api.profiled_program import ProfiledProgram
from inspector.api.shown_values import ShownAsExplorer, ShownAsTable
from inspector.errors import ModuleError, ParameterError, ProfileError
from inspector.hlo.module import Module
from inspector.profiles.programs import RecordedProgram, recorded_programs
from inspector.profiles.session_files import host_of, read_file, session_files
from inspector.profiles.xspace import XSpace
from inspector.support.columns import TableColumn, TableDescription
from inspector.support.notebook import described, short, with_hint
from inspector.support.units import counted, format_list, format_seconds

if TYPE_CHECKING:
    import pandas as pd

    from inspector.api.exploration import Exploration


@dataclasses.dataclass(frozen=True, slots=True)
class ProgramRow:
    """A row of the table of programs.

    Attributes:
      program: the program; None for work that belongs to none.
      name: its name.
      measured_s: its measured time, in seconds.
      kernels: number of distinct instructions that ran.
      calls: number of events.
      share: share of the measured time of the profile.
    """

    program: ProfiledProgram | None
    name: str
    measured_s: float
    kernels: int
    calls: int
    share: float


PROGRAM_COLUMNS: TableDescription[ProgramRow] = TableDescription(
    TableColumn("name", "text", lambda row: row.name, "program", "Name of the module", views=("data_frame", "command_line")),
    TableColumn(
        "measured_s", "float", lambda row: row.measured_s, "measured time", "Sum of all executions and devices", "seconds",
        ("data_frame", "command_line"),
    ),
    TableColumn(
        "share", "float", lambda row: row.share, "share", "Share of the measured time", views=("data_frame", "command_line"),
        text=lambda row: f"{100 * row.share:.1f} %",
    ),
    TableColumn(
        "kernels", "int", lambda row: row.kernels, "kernels", "Distinct instructions that ran",
        views=("data_frame", "command_line"),
    ),
    TableColumn("calls", "int", lambda row: row.calls, "calls", "Measured events", views=("data_frame", "command_line")),
    TableColumn("id", "int", lambda row: row.program and row.program.id),
    has_reasons=False,
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class RecordedProfile(ShownAsTable, ShownAsExplorer):
    """A profile that `jax.profiler` wrote, on this machine or another one. `inspector.load` returns one.

    Attributes:
      path: the file or folder that was opened.
      hosts: names of the hosts, one per file.
      devices: devices that ran something, such as ("GPU:0", "GPU:1"); with several hosts, as "host/GPU:0".
      programs: the programs in the profile, those with the most measured time first.
      other: measured work that belongs to none of these programs, such as copies by the runtime.
      notes: messages of the profiler, and what the profile lacks.
    """

    path: str
    hosts: tuple[str, ...]
    devices: tuple[str, ...]
    programs: tuple[ProfiledProgram, ...]
    other: tuple[ProfileRow, ...]
    notes: tuple[str, ...] = ()

    @property
    def total_s(self) -> float:
        """Measured time of all programs and other work on all devices, in seconds."""
        return sum(program.measured_s for program in self.programs) + self.other_s

    @property
    def other_s(self) -> float:
        """The part of `total_s` that belongs to no program, in seconds."""
        return sum(row.total_s for row in self.other)

    @property
    def exploration(self) -> Exploration:
        """The program with the most measured time as an `Exploration`, which can be saved to a file.

        Raises:
          ProfileError: the profile has no program.
        """
        if not self.programs:
            raise ProfileError(
                f"{os.fspath(self.path)!r} has no program that can be shown: the profile contains no HLO. Its measured work is in"
                " .other and in .table()."
            )
        return self.programs[0].exploration

    def __len__(self) -> int:
        return len(self.programs)

    def __iter__(self) -> Iterator[ProfiledProgram]:
        return iter(self.programs)

    def __getitem__(self, key: str | int) -> ProfiledProgram:
        """Returns a program by position, or by name: of several with one name, that with the most time.

        Raises:
          ParameterError: there is none. The message lists all.
        """
        if isinstance(key, str):
            matches = [program for program in self.programs if key in (program.name, program.name.removeprefix("jit_"))]
        else:
            matches = list(self.programs[key : key + 1 or None])
        if not matches:
            names = list(dict.fromkeys(program.name for program in self.programs))
            raise ParameterError(
                f"The profile has no program {short(key)}. Its programs: {format_list(names) or 'none'}."
            )
        return matches[0]

    def rows(self) -> tuple[ProgramRow, ...]:
        """Returns the rows of `table`."""
        whole = self.total_s or 1.0
        found = [ProgramRow(p, p.name, p.measured_s, p.kernels, p.calls, p.measured_s / whole) for p in self.programs]
        if self.other:
            calls = sum(row.calls for row in self.other)
            found.append(ProgramRow(None, OTHER_WORK, self.other_s, 0, calls, self.other_s / whole))
        return tuple(found)

    def table(self) -> pd.DataFrame:
        """Returns a table with one row per program, those with the most time first, and one for other work.

        Columns:
          name: name of the module; "no instruction" for work that belongs to no program.
          measured_s: measured time of all executions on all devices, in seconds.
          share: share of the measured time of the profile.
          kernels: number of distinct instructions that ran.
          calls: number of measured events.
          id: the id of the program in the profile.
        """
        return PROGRAM_COLUMNS.data_frame(self.rows())

    def __repr__(self) -> str:
        where = f"{counted(len(self.devices), 'device')}" if self.devices else "no device"
        largest = self.programs[0] if self.programs and self.programs[0].calls else None
        most = f", most in {largest.name} ({100 * largest.measured_s / self.total_s:.0f} %)" if largest else ""
        text = f"<RecordedProfile of {where}: {counted(len(self.programs), 'program')}, {format_seconds(self.total_s)} measured{most}>"
        hint = f"[{largest.name!r}].profile, " if largest else ""
        return with_hint(text, f"{hint}.table(), .programs, .other{', .explorer()' if self.programs else ''}")

    def _repr_html_(self) -> str:
        facts = {f"note {n}": note for n, note in enumerate(self.notes, 1)}
        return described(repr(self), facts, self.table())


def load_profile(path: str | os.PathLike[str]) -> RecordedProfile:
    """Reads a profile. Works without JAX.

    Args:
      path: a `.xplane.pb` file, or a folder with profiles, of which the newest session is read.

    Raises:
      FileNotFoundError: no such file or folder.
      ProfileError: there is no profile, or it is damaged, or it contains neither programs nor work of devices.
    """
    opened = session_files(path)
    spaces = [XSpace.from_bytes(read_file(file), repr(os.fspath(file))) for file in opened]
    prefixes = [f"{host_of(file)}/" if len(opened) > 1 else "" for file in opened]
    events = device_events(zip(prefixes, spaces, strict=True))
    recorded: dict[int, RecordedProgram] = {}
    for space in spaces:
        recorded |= {program.id: program for program in recorded_programs(space) if program.id not in recorded}
    if not recorded and not len(events):
        planes = format_list([f"{plane.name} ({len(plane)} events)" for space in spaces for plane in space.planes])
        raise ProfileError(
            f"{os.fspath(path)!r} contains no program and no work of a device. It has these planes: {planes}. Expected kernels with"
            " the statistic hlo_op, as JAX 0.4 and later record them, or HLO modules in the plane /host:metadata. Record the"
            " profile while the program runs."
        )
    of_devices = next((space for space in spaces if platform_of(space) != "cpu"), spaces[0])
    damaged = {key for key, program in recorded.items() if not _is_readable(program)}
    unreadable = [_unreadable(recorded.pop(key)) for key in sorted(damaged)]
    programs = [_program(program, events, of_devices) for program in recorded.values()]
    return RecordedProfile(
        path=os.fspath(path),
        hosts=tuple(
            name for file, space in zip(opened, spaces, strict=True) for name in space.hostnames or (host_of(file),)
        ),
        devices=tuple(events.devices[d] for d in sorted(set(events.device.tolist()))),
        programs=tuple(sorted(programs, key=lambda program: (-program.measured_s, program.name, program.id))),
        other=rest(events, [*recorded]),
        notes=(
            *unreadable,
            *(text for space in spaces for text in (*space.errors, *space.warnings)),
            *_missing(events, recorded),
        ),
    )


def _is_readable(program: RecordedProgram) -> bool:
    try:
        Module.from_proto(program.hlo_proto)
    except ModuleError:
        return False
    return True


def _unreadable(program: RecordedProgram) -> str:
    return f"The HLO of {program.name} in the profile is damaged, so its kernels are listed as other work."


def _program(program: RecordedProgram, events: DeviceEvents, space: XSpace) -> ProfiledProgram:
    platform, kind = platform_of(space), device_kind(space)
    mine = events[events.program == program.id]
    measured_s, kernels = 0.0, 0
    if len(mine):
        on_cpu = all("CPU:" in mine.devices[d] for d in set(mine.device.tolist()))
        platform, kind = ("cpu", "cpu") if on_cpu else (platform, kind)
        rows = join(mine, Module.from_proto(program.hlo_proto), program.id, {}).rows
        measured_s, kernels = sum(row.total_s for row in rows), len({row.name for row in rows if row.opcode})
    return ProfiledProgram(
        program.name, program.id, program.hlo_proto, platform, kind, measured_s, kernels, len(mine), events
    )


def _missing(events: DeviceEvents, recorded: dict[int, RecordedProgram]) -> list[str]:
    ran = set(np.unique(events.program).tolist()) - {NO_PROGRAM, *recorded}
    if not ran:
        return []
    return [
        (
            f"{counted(len(ran), 'program')} ran whose HLO is not in the profile, so their kernels are listed as other work. Record it"
            " with ProfileOptions.enable_hlo_proto = True, the default."
        )
    ]
