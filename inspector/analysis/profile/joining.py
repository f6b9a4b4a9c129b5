"""Joins the events of a profile to the instructions of a module.

An event belongs to an instruction if the profiler names the instruction (`hlo_op`) and the program (`program_id`). Other
events are rows with their own names, so that all sums are those of the profile.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from inspector.analysis.cost.contradiction import contradiction
from inspector.analysis.cost.roofline_point import Point
from inspector.analysis.profile.dependents import elapsed_until_read_ps
from inspector.analysis.profile.device_events import NO_PROGRAM, DeviceEvents
from inspector.analysis.profile.nesting import busy, own_times, own_times_by_line
from inspector.analysis.profile.profile import NOT_RUN, Profile, WallTimes
from inspector.analysis.profile.rows import ProfileRow
from inspector.errors import Unavailable
from inspector.hlo.execution_counts import places
from inspector.hlo.module import Module
from inspector.hlo.reading.byte_arrays import Numbers
from inspector.hlo.reading.module_cache import cache_per_module
from inspector.hlo.reading.single_instructions import FLOW
from inspector.support.units import counted

_PS = 1e-12
_PARALLEL = 1.02  # ratio of summed and elapsed time from which a note explains it
_NO_ESTIMATE = Unavailable("the roofline has no estimate of this work")
_NO_RUNS = Unavailable("its events cannot be assigned to executions of the program")


@dataclasses.dataclass(frozen=True, slots=True)
class _Known:
    """An instruction that events are joined to."""

    row: int
    depth: int
    contains: bool


def join(
    events: DeviceEvents,
    module: Module,
    program: int,
    points: Mapping[str, Point],
    *,
    wall: WallTimes | Unavailable = NOT_RUN,
    executions: int | None = None,
    with_rest: bool = False,
    notes: Sequence[str] = (),
) -> Profile:
    """Returns the profile of one program.

    Args:
      events: the device events of the profile.
      module: the optimized HLO of the program.
      program: its id in the profile.
      points: the kernels of its roofline by name, for estimates, and for the shares of lines and scopes.
      wall: wall-clock durations.
      executions: number of executions; None to read it from the events.
      with_rest: whether events of no program are included, as for a profile of this program only.
      notes: notes of the profile.
    """
    chosen = events.program == program
    if with_rest:
        chosen |= events.program == NO_PROGRAM
    mine = events[chosen]
    instructions = _instructions(module)
    known = [instructions.get(text) for text in mine.texts]
    is_known = np.array([each is not None for each in known] + [False], bool)[mine.name] & (mine.program == program)
    is_known &= mine.is_instruction
    kernels = {
        text: module.at(each.row) for text, each in zip(mine.texts, known, strict=True) if each and not each.contains
    }
    mine = dataclasses.replace(mine, elapsed_ps=elapsed_until_read_ps(mine, kernels))
    own_ps = _own(mine, known, is_known)
    runs, count = _runs(mine, is_known, known, executions)
    rows = _rows(mine, own_ps, is_known, runs, count, module, known, points)
    used = sorted(set(mine.device.tolist()))
    busy_ps = [busy(mine.start_ps[mine.device == d], mine.elapsed_ps[mine.device == d]) for d in used]
    devices = tuple(mine.devices[d] for d in used)
    return Profile(
        program=module.name,
        devices=devices,
        rows=rows,
        executions=count if count else Unavailable("the profile does not show the number of executions"),
        wall=wall,
        busy_s=tuple(_PS * each for each in busy_ps),
        notes=(
            *notes,
            *_notes(devices, float(own_ps.sum()), float(sum(busy_ps)), is_known, own_ps),
            *_contradictions(rows),
        ),
    )


def rest(events: DeviceEvents, programs: Sequence[int]) -> tuple[ProfileRow, ...]:
    """Returns the rows of events that belong to none of some programs, those with the most time first."""
    others = events[~np.isin(events.program, np.array([*programs], np.int64))]
    own_ps = own_times_by_line(others.start_ps, others.elapsed_ps, others.line)
    nothing = np.zeros(len(others), bool)
    return _rows(others, own_ps, nothing, None, 0, None, [None] * len(others.texts), {})


@cache_per_module
def _instructions(module: Module) -> dict[str, _Known]:
    """Returns the instructions that may have events, by name."""
    found: dict[str, _Known] = {}
    depths = _depths(module)
    for name, row in zip(module.columns.names, range(len(module.columns)), strict=True):
        opcode = module.columns.opcode_texts[row]
        found[name] = _Known(row, depths[int(module.columns.in_computation[row])], opcode in FLOW)
    return found


def _depths(module: Module) -> list[int]:
    """Returns the largest number of calls that lead to each computation, by number."""
    depths = [0] * len(module.computations)
    where = places(module)
    for computation in reversed(module.computations):  # callers follow callees in a module
        if computation.name in where:
            for caller in module.callers.get(computation.name, ()):
                depths[computation.number] = max(depths[computation.number], depths[caller.computation.number] + 1)
    return depths


def _own(events: DeviceEvents, known: Sequence[_Known | None], is_known: npt.NDArray[np.bool_]) -> Numbers:
    depth = np.array([each.depth if each else 0 for each in known] + [0], np.int64)[events.name]
    contains = np.array([each.contains if each else False for each in known] + [False], bool)[events.name] & is_known
    own = events.elapsed_ps.copy()
    inside = np.flatnonzero(is_known)
    if len(inside):
        _, group = np.unique(np.stack([events.device[inside], events.run[inside]]), axis=1, return_inverse=True)
        own[inside] = own_times(
            events.start_ps[inside], events.elapsed_ps[inside], depth[inside], contains[inside], group.reshape(-1)
        )
    return own


def _runs(
    events: DeviceEvents, is_known: npt.NDArray[np.bool_], known: Sequence[_Known | None], executions: int | None
) -> tuple[Numbers | None, int]:
    """Returns the execution of each event, None if the profiler records none, and the number of executions, 0 if unknown."""
    distinct, codes = np.unique(events.run[is_known], return_inverse=True)
    if len(distinct) > 1 or (len(distinct) == 1 and distinct[0]):
        runs = np.full(len(events), -1)
        runs[is_known] = codes
        return runs, len(distinct)
    if executions is not None:
        return None, executions
    entry = np.array([each is not None and each.depth == 0 for each in known] + [False], bool)[events.name] & is_known
    if not entry.any():
        return None, 0
    # Most instructions of the entry computation launch one kernel in each execution. Events may be missing.
    keys = events.name[entry] * len(events.devices) + events.device[entry]
    return None, int(np.bincount(np.unique(keys, return_counts=True)[1]).argmax())


def _rows(
    events: DeviceEvents,
    own_ps: Numbers,
    is_known: npt.NDArray[np.bool_],
    runs: Numbers | None,
    count: int,
    module: Module | None,
    known: Sequence[_Known | None],
    points: Mapping[str, Point],
) -> tuple[ProfileRow, ...]:
    if not len(events):
        return ()
    key = (events.name * len(events.devices) + events.device) * 2 + is_known
    order = np.lexsort((events.start_ps, key))
    firsts = np.flatnonzero(np.append(True, np.diff(key[order]) != 0))
    sizes = np.diff(np.append(firsts, len(order)))
    sorted_ps = own_ps[order]
    totals, least, most = (f.reduceat(sorted_ps, firsts) for f in (np.add, np.minimum, np.maximum))
    per_run = _per_run(order, firsts, sizes, sorted_ps, runs, count)
    rows = []
    for index, first in enumerate(order[firsts].tolist()):
        name = events.texts[events.name[first]]
        found = known[events.name[first]] if is_known[first] else None
        point = points.get(name) if found else None
        instruction = module.at(found.row) if found and module is not None else None
        rows.append(
            ProfileRow(
                name=name,
                opcode=instruction.opcode if instruction else "",
                computation=instruction.computation.name if instruction else "",
                device=events.devices[events.device[first]],
                calls=int(sizes[index]),
                total_s=_PS * float(totals[index]),
                min_s=_PS * float(least[index]),
                max_s=_PS * float(most[index]),
                runs_s=per_run[index],
                estimated_s=point.least_s if point else _NO_ESTIMATE,
                parts=point.parts if point else (),
            )
        )
    return tuple(sorted(rows, key=lambda row: (-row.total_s, row.name, row.device)))


def _per_run(
    order: Numbers, firsts: Numbers, sizes: Numbers, own_ps: Numbers, runs: Numbers | None, count: int
) -> list[tuple[float, ...] | Unavailable]:
    """Returns the time of each row in each execution."""
    if not count:
        return [_NO_RUNS] * len(firsts)
    found: list[tuple[float, ...] | Unavailable] = []
    for first, size in zip(firsts.tolist(), sizes.tolist(), strict=True):
        values = own_ps[first : first + size]
        if runs is not None:
            numbers = runs[order[first : first + size]]
            known = numbers >= 0
            sums = np.bincount(numbers[known], values[known], count) if known.all() else None
        else:
            sums = values.reshape(count, -1).sum(axis=1) if size % count == 0 else None  # in the order of their starts
        found.append(_NO_RUNS if sums is None else tuple((_PS * sums).tolist()))
    return found


def _contradictions(rows: Sequence[ProfileRow]) -> list[str]:
    """Returns a note if kernels were measured faster than their estimates, which are then wrong."""
    texts = [(row.name, text) for row in rows if (text := contradiction(row.estimated_s, row.run_s))]
    if not texts:
        return []
    name, text = texts[0]
    return [f"{counted(len(texts), 'kernel')} ran faster than the roofline estimates. {name}: {text}."]


def _notes(
    devices: Sequence[str], summed: float, elapsed: float, is_known: npt.NDArray[np.bool_], own_ps: Numbers
) -> list[str]:
    notes = []
    if any("CPU" in device for device in devices) and elapsed and summed > _PARALLEL * elapsed:
        notes.append(
            f"Times add up to {summed / elapsed:.2f} times the elapsed time in kernels, because XLA's CPU runtime executes"
            " independent kernels in parallel on several threads. Each kernel takes the time from its start until its work"
            " has ended; it shares the cores with the others."
        )
    elif elapsed and summed > _PARALLEL * elapsed:
        notes.append(
            f"Times add up to {summed / elapsed:.2f} times the elapsed time in kernels, because kernels run on several"
            " streams at once."
        )
    if (~is_known).any() and own_ps.sum():
        share = float(own_ps[~is_known].sum()) / float(own_ps.sum())
        notes.append(
            f"{100 * share:.1f} % of the time belongs to no instruction of the program, such as copies by the runtime."
        )
    return notes
