"""Execution counts: how often each instruction runs in one execution of a module.

A count is the product of the trip counts of the enclosing loops. `analysis/` and `compilation/cost.py` use it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from inspector.errors import AtLeast, Missing, ModuleError, Unavailable, missing, total
from inspector.hlo.loops import trip_count
from inspector.hlo.module import Computation, Instruction, Module
from inspector.hlo.reading.module_cache import cache_per_module
from inspector.hlo.reading.single_instructions import FLOW

_NAMED_AGAIN = frozenset({"async-update", "async-done"})  # they name the computation that `async-start` called


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """The role of a computation's instructions in an execution.

    Attributes:
      counted_in: name of the instruction whose costs include theirs, the first of several callers; None in the entry
        computation.
      executions: executions of each instruction per execution of the module, summed over all callers.
      at_least: lower bound of `executions`. It is `AtLeast` below a loop of unknown length, where only the first run of the
        condition counts, and below a conditional, whose branches do not count.
      fused: whether they run as a part of `counted_in`, without separate memory.
    """

    counted_in: str | None
    executions: int | Unavailable
    at_least: float
    fused: bool


def executions(module: Module) -> dict[str, int | Unavailable]:
    """Returns the executions of each computation per execution of the module, by name. Uncalled ones are omitted.

    If several instructions call a computation, the counts are added. The count is Unavailable below a loop of unknown
    length, in a branch of a conditional, and for computations applied to elements, such as a reduction's sum.
    """
    return {name: place.executions for name, place in places(module).items()}


@cache_per_module
def places(module: Module) -> Mapping[str, Place]:
    """Returns the place of each computation's instructions, by the computation's name. Uncalled ones are omitted."""
    by_name: dict[str, Place] = {}
    for reached in _reached(module):
        caller = reached.callers[0][0].name if reached.callers else None
        by_name[reached.computation.name] = Place(caller, reached.runs, reached.at_least, reached.fused)
    return by_name


@dataclasses.dataclass(slots=True)
class _Reached:
    """A computation that runs, with its callers and its position among each caller's computations."""

    computation: Computation
    callers: list[tuple[Instruction, int]] = dataclasses.field(default_factory=list)
    runs: int | Unavailable = 1
    at_least: float = 1
    fused: bool = False


def _reached(module: Module) -> list[_Reached]:
    """Returns the computations that run, callers before callees."""
    order = _callers_first(module.entry)
    reached = {computation.id: _Reached(computation) for computation in order}
    for computation in order:
        current = reached[computation.id]
        if current.callers:
            above = [(caller, _times(caller, n), reached[caller.computation.id]) for caller, n in current.callers]
            current.runs = _sum([_product(outer.runs, times) for _, times, outer in above])
            current.at_least = total(
                _at_least(caller, n, times, outer.at_least)
                for (caller, n), (_, times, outer) in zip(current.callers, above, strict=True)
            )
            current.fused = all(outer.fused or caller.opcode not in FLOW for caller, _, outer in above)
        for instruction in computation.calling:
            for position, called in enumerate(_called(instruction)):
                reached[called.id].callers.append((instruction, position))
    return list(reached.values())


def _callers_first(entry: Computation) -> list[Computation]:
    finished: dict[int, Computation] = {}
    begun, waiting = set[int](), [(entry, False)]
    while waiting:
        computation, is_done = waiting.pop()
        if is_done:
            finished.setdefault(computation.id, computation)
        elif computation.id not in finished:
            if computation.id in begun:
                raise ModuleError(f"Computation {computation.name} calls itself: the module is damaged.")
            begun.add(computation.id)
            waiting.append((computation, True))
            waiting += [(called, False) for i in reversed(computation.calling) for called in reversed(_called(i))]
    return list(reversed(finished.values()))


def _called(instruction: Instruction) -> tuple[Computation, ...]:
    return () if instruction.opcode in _NAMED_AGAIN else instruction.called_computations


def _sum(runs: list[int | Unavailable]) -> int | Unavailable:
    known = 0
    for each in runs:
        if isinstance(each, Unavailable):
            return each
        known += each
    return known


def _product(executions: int | Unavailable, times: int | Unavailable) -> int | Unavailable:
    if isinstance(executions, Unavailable):
        return executions
    return times if isinstance(times, Unavailable) else executions * times


def _times(caller: Instruction, position: int) -> int | Unavailable:
    """Returns how often one execution of a caller runs the computation that it calls at `position`."""
    opcode = caller.opcode
    if opcode == "while":
        trips = trip_count(caller)
        return trips if isinstance(trips, Unavailable) else trips + position  # body, condition
    if opcode == "conditional":
        return Unavailable(f"the branch that {caller.name} takes is known only at run time")
    if opcode in FLOW or opcode == "fusion":
        return 1
    return Unavailable(f"the number of elements to which {caller.name} applies it is not known")


def _at_least(caller: Instruction, position: int, times: int | Unavailable, executions: float) -> float:
    """Returns the lower bound of executions that a caller, itself with a lower bound, adds to the computation at `position`."""
    if not isinstance(times, Unavailable):
        return executions * times
    if caller.opcode == "while":  # the body may not run; the condition runs at least once
        return AtLeast(executions * position, (*missing(executions), unknown_length(caller)))
    return AtLeast(0, (*missing(executions), Missing(caller.name, caller.opcode)))


def unknown_length(loop: Instruction) -> Missing:
    """Returns the missing part of a sum that includes a loop of unknown length, which may run zero iterations."""
    return Missing(loop.name, "loop of unknown length", "not counted")
