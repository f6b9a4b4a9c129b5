"""Changes of shardings that cost more than they should.

Eight kinds are reported:
  - Full rematerializations.
  - An array whose sharding the user changes from A to B and back to A without need.
  - An array that a constraint makes whole between two products that are split.
  - The same by hand in a `shard_map`.
  - A collective in a `shard_map` of whose result each device only takes its own part.
  - An `all_gather` in a `shard_map` of whose result each device only reads a few rows of others.
  - A gathered array that is only reduced along the gathered dimension.
  - A product that is split over devices in the dimension in which it is cut into parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from inspector.analysis.collectives.collective import Collective
from inspector.analysis.findings.at_line import is_same_line, lines_of
from inspector.analysis.findings.before import full_name
from inspector.analysis.findings.dataflow import Value
from inspector.analysis.findings.detectors.sharding.constrained_products import constrained_products
from inspector.analysis.findings.detectors.sharding.constraint_detours import (
    ConstraintDetour,
    argument_shardings,
    behind,
    constraint_detours,
    grouped,
)
from inspector.analysis.findings.detectors.sharding.detour_collectives import detour_collectives
from inspector.analysis.findings.detectors.sharding.full_rematerialization import full_rematerialization
from inspector.analysis.findings.detectors.sharding.gathered_halos import gathered_halos
from inspector.analysis.findings.detectors.sharding.gathered_reductions import gathered_reductions
from inspector.analysis.findings.detectors.sharding.own_part import own_parts
from inspector.analysis.findings.detectors.sharding.product_splits import Splits, axes_of_result, splits_of
from inspector.analysis.findings.detectors.sharding.split_products import split_products
from inspector.analysis.findings.edits import DropConstraints, DropPermutes, stacks_of
from inspector.analysis.findings.exchange_chains import at_ends_of_loops, saved_with
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.manual_detours import ManualDetour, manual_detours
from inspector.analysis.findings.subject import Subject
from inspector.analysis.sharding.reshardings import full_rematerializations
from inspector.errors import Unavailable
from inspector.hlo.source import Frame, merged_names
from inspector.support.units import format_array

KIND = "resharding"
_RESHARDING = frozenset({"all-gather", "all-to-all", "collective-permute"})


def resharding(subject: Subject) -> Iterator[Finding]:
    """Yields findings of full rematerializations, and of arrays that are resharded and back without need."""
    full = full_rematerializations(subject.compiled)
    seen = set[tuple[Frame, ...]]()
    for each in () if isinstance(full, Unavailable) else full:
        if each.frames not in seen:
            seen.add(each.frames)
            yield full_rematerialization(subject, KIND, each, _inserted(subject))
    copied = [lines_of(frames) for frames in seen]
    removed = set[str]()
    for detours, saved in _detours(subject):
        removed |= {*saved}
        stacks = [lines_of(each) for detour in detours for each in (detour.there.frames, detour.back.frames)]
        if not any(is_same_line(one, other) for one in stacks for other in copied):  # XLA copies the whole array there
            yield _detour(subject, detours, saved)
    yield from constrained_products(subject, KIND, _inserted(subject))
    if subject.calls is not None:
        for detour in manual_detours(subject.calls):
            yield from _manual(subject, detour)
    yield from own_parts(subject, KIND)
    yield from gathered_halos(subject, KIND)
    yield from gathered_reductions(subject, KIND, _inserted(subject))
    # Without the detours' constraints, the columns of their products may not be split.
    yield from split_products(subject, KIND, [each for each in _inserted(subject) if each.name not in removed])


def exchanges_of_detours(subject: Subject) -> frozenset[str]:
    """Returns the names of the collectives, and of the kernels with them, that change a sharding there and back without need."""
    return frozenset(name for _, saved in _detours(subject) for name in saved)


def _inserted(subject: Subject) -> list[Collective]:
    """Returns the exchanges that the partitioner inserted."""
    return [c for c in subject.collectives if c.opcode in _RESHARDING and c.inserted_by == "partitioner"]


def _detours(subject: Subject) -> Iterator[tuple[list[ConstraintDetour], Mapping[str, float]]]:
    """Yields the detours of each line for which the compiled program communicates, with the saved part of each kernel's time."""
    collectives = _inserted(subject)
    if not collectives or subject.calls is None:
        return
    splits = splits_of(subject, subject.calls)
    found = constraint_detours(subject.calls, argument_shardings(subject))
    for detours in grouped([each._replace(had=each.had or _is_made_so(each, splits)) for each in found]):
        moved = detour_collectives(subject, detours, collectives)
        if moved is not None and (any(each.had for each in detours) or moved.is_changed):
            own = [subject.module.instruction(each.name) for each in moved.collectives]
            exchanges = dict.fromkeys((*own, *at_ends_of_loops(own, {each.name for each in collectives})))
            yield detours, saved_with(subject, [*exchanges], moved.saved_part)


def _is_made_so(detour: ConstraintDetour, splits: Splits) -> bool:
    """Reports whether a product makes the array with the sharding to which it is changed back, by the operands that are arguments."""
    products = [each for each in behind(detour.there.operands[0]) if each.opcode == "dot"]
    wanted = splits.constraints.get(detour.back.name, ())
    if len(products) != 1 or not any(wanted):
        return False
    made = Value(products[0], detour.calls)
    return all([*axes_of_result(made, dimension, splits)] == [*axes] for dimension, axes in enumerate(wanted))


def _detour(subject: Subject, detours: Sequence[ConstraintDetour], saved: Mapping[str, float]) -> Finding:
    there, back = detours[0].there, detours[0].back
    places = dict.fromkeys(_at(subject, each.frames, back.frames) for each in (there, *detours[0].again))
    constraints = f"sharding constraint{'s' * (len(places) > 1)}{' and'.join(places)}"
    array = format_array(there.shape.element_type, there.shape.dimensions)
    title = (
        f"{array} is resharded{_at(subject, there.frames, back.frames)} and back{_at(subject, back.frames, there.frames)}, and the operations in"
        " between do not need the other sharding."
    )
    return subject.finding(
        KIND, title, f"Remove the {constraints}.", saved=saved, frames=there.frames,
        edits=(_dropped(detours),),
        caution="The parts in between may be smaller with the other sharding, if the array is split less without it.",
    )  # fmt: skip


def _manual(subject: Subject, detour: ManualDetour) -> Iterator[Finding]:
    """Yields the finding of exchanges in a `shard_map` and their inverse, if they are in the compiled program."""
    wanted = {(full_name(each), lines_of(each.instruction.frames)) for each in (*detour.there, *detour.back)}
    exchanges = [
        subject.module.instruction(each.name)
        for each in subject.collectives
        if any(
            name == other and is_same_line(lines_of(each.origin.frames), lines)
            for name in merged_names(each.origin.op_name)
            for other, lines in wanted
        )
    ]
    if not exchanges:
        return
    there, back = detour.there[0].instruction, detour.back[0].instruction
    call = full_name(detour.there[0]).rpartition("/")[2]
    array = format_array(there.operands[0].shape.element_type, there.operands[0].shape.dimensions)
    title = (
        f"The `{call}`{_at(subject, there.frames, back.frames)} exchanges {array} of each device, and the one{_at(subject, back.frames, there.frames)} brings"
        " it back, although the operations in between combine arrays element by element."
    )
    yield subject.finding(
        KIND, title, f"Remove both calls of jax.lax.{call}, and compute in between with the values as they are.", frames=there.frames,
        saved=saved_with(subject, exchanges), edits=_without_permutes(detour),
    )  # fmt: skip


def _without_permutes(detour: ManualDetour) -> tuple[DropPermutes] | None:
    """Returns the edit that removes `ppermute`s; None for an `all_to_all`, which changes shapes, and without their lines."""
    both = [*detour.there, *detour.back]
    stacks = stacks_of(each.instruction.frames for each in both)
    is_permuted = all(each.instruction.opcode == "collective-permute" for each in both)
    return (DropPermutes(stacks),) if stacks and is_permuted else None


def _dropped(detours: Sequence[ConstraintDetour]) -> DropConstraints:
    """Returns the edit that removes the constraints to the other sharding."""
    constraints = [one for each in detours for one in (each.there, *each.again)]
    shapes = dict.fromkeys((c.shape.element_type, *map(str, c.shape.dimensions)) for c in constraints)
    return DropConstraints(stacks_of(each.frames for each in constraints), tuple(shapes))


def _at(subject: Subject, frames: Sequence[Frame], other: Sequence[Frame] = ()) -> str:
    """Returns the innermost line of the user that is not also the line of another operation, in words."""
    own = tuple(each for each in frames if each not in other) or tuple(frames)
    return subject.at_line(own)
