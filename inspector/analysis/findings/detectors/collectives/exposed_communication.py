"""Collectives for which the device waits, although work that does not depend on them could run in the meantime.

For GPUs and TPUs. GPUs run collectives beside kernels unless a flag forbids it. TPUs run all-reduces and `all_to_all`s beside kernels
only if flags allow it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from inspector.analysis.collectives.collective import over
from inspector.analysis.cost.roofline_point import Point
from inspector.analysis.findings.dependence import Dependence
from inspector.analysis.findings.edits import SetFlags
from inspector.analysis.findings.exchanges import Exchange
from inspector.analysis.findings.finding import LEAST_SHARE, Finding
from inspector.analysis.findings.subject import Subject
from inspector.compilation.compiled import build_options_of
from inspector.errors import Unavailable
from inspector.hlo.module import Instruction
from inspector.support.units import format_seconds

KIND = "exposed-communication"
_INVISIBLE = Unavailable("the optimized HLO of this XLA does not show which collectives are asynchronous")
_SYNCHRONOUS = "xla_gpu_disable_async_collectives"
_MOST_LATENCY = 0.5  # of the time of a collective
_TPU_FLAGS: Mapping[str, Mapping[str, str | int | bool]] = {
    "all-reduce": {
        "xla_enable_async_all_reduce": True,
        "xla_tpu_enable_async_collective_fusion_fuse_all_reduce": True,
    },
    "all-to-all": {"xla_tpu_enable_async_all_to_all": True},
}
"""Flags with which libtpu runs collectives beside kernels, found by compiling with them (libtpu 0.0.42)."""
_LIBTPU_PART = 1 / 3
"""Part of the time of an all-reduce for which libtpu takes kernels to run beside it: the time of each kernel that is left over from the
accesses to its arrays counts. Found by compiling eight programs for v5e with 2 to 16 MiB and kernels of 25 to 180 µs (libtpu 0.0.42)."""


def exposed_communication(subject: Subject) -> Iterator[Finding]:
    """Yields a finding for the exposed collectives of each kind in a computation that independent work could hide."""
    platform = subject.compiled.program.platform
    total_s = subject.total_s
    if platform == "cpu" or isinstance(total_s, Unavailable):
        return
    exposed: dict[int, list[Exchange]] = {}
    for each in subject.exchanges:
        is_long = each.latency_s <= _MOST_LATENCY * each.price.known_s  # others should be fewer: `small_collectives`
        if is_long and each.exposed_s >= LEAST_SHARE * total_s:
            exposed.setdefault(each.operation.holder.computation.number, []).append(each)
    work = _work(subject, exposed)
    for number, members in exposed.items():
        rows = [each.operation.holder.row for each in members]
        dependence = Dependence(subject.module.computations[number], rows)
        hidden = _hidden(subject, members, work.get(number, []), dependence)
        for opcode in dict.fromkeys(each.collective.opcode for each, _, _ in hidden):
            flags = _flags(subject, platform, opcode)
            if flags is not None:
                yield _finding(subject, [one for one in hidden if one[0].collective.opcode == opcode], flags)


_Hidden: TypeAlias = tuple[Exchange, float, Point]
"""A collective, the seconds that are saved if independent work hides it, and the longest kernel of that work."""


def _work(subject: Subject, computations: Mapping[int, object]) -> dict[int, list[tuple[Instruction, Point]]]:
    """Returns the kernels of computations that do not communicate, by the computation."""
    found: dict[int, list[tuple[Instruction, Point]]] = {}
    for point in subject.roofline.points if computations else ():
        if point.link_bytes or isinstance(point.least_s, Unavailable) or not point.least_s:
            continue
        instruction = subject.module.instruction(point.name)
        if instruction.computation.number in computations:
            found.setdefault(instruction.computation.number, []).append((instruction, point))
    return found


def _hidden(
    subject: Subject, members: Sequence[Exchange], work: Sequence[tuple[Instruction, Point]], dependence: Dependence
) -> list[_Hidden]:
    """Returns the collectives that independent work takes at least as long.

    Work that hides one does not hide another, and a kernel runs beside one of two collectives that depend on each other.
    """
    left = {point.name: float(point.least_s) for _, point in work if not isinstance(point.least_s, Unavailable)}
    found: list[_Hidden] = []
    hides: dict[str, list[Instruction]] = {}
    for each in sorted(members, key=lambda each: -each.exposed_s):
        beside = set(each.kernel.beside)
        holder = each.operation.holder
        free = [
            p
            for i, p in work
            if p.name not in beside
            and left[p.name]
            and dependence.is_independent(i, holder)
            and all(dependence.is_independent(other, holder) for other in hides.get(p.name, ()))
        ]
        if sum(left[point.name] for point in free) < each.exposed_s:
            continue
        beside_it, copy_s = _beside(subject, each, free)
        hidden_s = min(each.exposed_s, sum(left[point.name] for point in beside_it))
        longest = max(beside_it, key=lambda point: left[point.name])
        found.append((each, max(0.0, hidden_s - copy_s), longest))
        needed = hidden_s
        for point in beside_it:
            taken = min(needed, left[point.name])
            left[point.name] -= taken
            if taken:
                hides.setdefault(point.name, []).append(holder)
            needed -= taken
    return found


def _beside(subject: Subject, exchange: Exchange, free: Sequence[Point]) -> tuple[Sequence[Point], float]:
    """Returns the kernels that run beside an exchange, and the seconds of a copy that this needs.

    These are all kernels that can, or the last ones that libtpu takes for an all-reduce, whose operand it copies to VMEM first.
    """
    peak = subject.roofline.peak
    if (
        subject.compiled.program.platform != "tpu"
        or exchange.collective.opcode != "all-reduce"
        or isinstance(peak, Unavailable)
    ):
        return free, 0.0
    found: list[Point] = []
    needed = _LIBTPU_PART * exchange.price.known_s * exchange.executions
    by_row = {subject.module.instruction(point.name).row: point for point in free}
    for row in sorted(by_row, reverse=True):
        if needed <= 0 and found:
            break
        point, kernel = by_row[row], subject.module.instruction(by_row[row].name)
        accessed = kernel.shape.byte_size + sum(each.shape.byte_size for each in kernel.operands)
        access_s = accessed / peak.memory_bytes_per_s * exchange.executions
        if not isinstance(point.least_s, Unavailable) and point.least_s > access_s:
            needed -= float(point.least_s) - access_s
            found.append(point)
    return found or free, exchange.collective.operand_bytes / peak.memory_bytes_per_s * exchange.executions


def _flags(subject: Subject, platform: str, opcode: str) -> Mapping[str, str | int | bool] | None:
    """Returns the flags that let XLA overlap collectives of a kind; None if they are set, or no flag is known."""
    options = build_options_of(subject.compiled).flags
    if platform == "tpu":
        flags = _TPU_FLAGS.get(opcode)
        return None if flags is None or all(options.get(name) == value for name, value in flags.items()) else flags
    synchronous = str(options.get(_SYNCHRONOUS, "")).upper().replace(",", " ").split()
    is_set = not {"ALLCOLLECTIVES", opcode.upper().replace("-", "")}.isdisjoint(synchronous)
    return {_SYNCHRONOUS: "NOOP"} if is_set else None


def _finding(subject: Subject, found: Sequence[_Hidden], flags: Mapping[str, str | int | bool]) -> Finding:
    first, _, beside = found[0]
    collective = first.collective
    exposed_s = sum(each.exposed_s for each, _, _ in found)
    total_s = sum(each.price.known_s * each.executions for each, _, _ in found)
    line = subject.at_line(beside.origin.frames) or f" of `{beside.name}`"
    what = f"The {collective.opcode}" if len(found) == 1 else f"{len(found)} {collective.opcode}s"
    title = (
        f"{what}{over(collective.axes)}{subject.at_line(collective.origin.frames)}: the device waits {format_seconds(exposed_s)} for"
        f" {'it' if len(found) == 1 else 'them'}, although the work{line} does not depend on"
        f" {'it' if len(found) == 1 else 'them'} and takes at least as long."
    )
    remedy = "\n".join(
        f"--{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in flags.items()
    )
    return subject.finding(
        KIND, title, remedy, instructions=[each.holder for each, _, _ in found], frames=collective.origin.frames,
        saved_part=min(1.0, sum(gain_s for _, gain_s, _ in found) / total_s), gain_source="the estimated schedule",
        caution="Overlapping needs memory for both, and the kernels beside a collective share the memory's bandwidth with it.",
        is_upper_bound=subject.compiled.program.platform == "tpu",
        edits=_INVISIBLE if _is_invisible(subject) else (SetFlags(tuple(flags.items())),),
    )  # fmt: skip


def _is_invisible(subject: Subject) -> bool:
    """Reports whether a compiler for GPUs chooses the asynchronous collectives only after the optimized HLO: XLA of jaxlib 0.12."""
    numbers = subject.compiled.versions.get("jaxlib", "0").split(".")[:2]
    return subject.compiled.program.platform != "tpu" and tuple(map(int, filter(str.isdecimal, numbers))) >= (0, 12)
