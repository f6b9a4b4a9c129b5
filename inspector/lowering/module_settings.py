"""Determines the compile settings of a module that comes from a file, text or bytes.

A StableHLO or HLO module lacks much of the information that its compile needs, and the conversion from HLO to StableHLO
drops more. This module restores each missing piece, derives it from the rest of the module, rejects the module or adds a
note.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from inspector import platforms
from inspector._jax.modules import module_contents, stablehlo
from inspector.compilation.options.options import Options
from inspector.errors import ModuleError
from inspector.hlo.conversion_losses import losses
from inspector.hlo.devices.device_counts import device_counts, is_partitioned
from inspector.hlo.devices.mesh import Mesh
from inspector.hlo.header import header_attributes, header_booleans, header_count
from inspector.hlo.module import Module
from inspector.hlo.shape import Shape
from inspector.support.units import counted, format_list

_PROPAGATION = "allow_spmd_sharding_propagation_to"
_RESULT_SHARDING = "xla.sdy.FuncResultSharding"
_HOST_MEMORY_SPACE = 5
_UNNAMED_LOSSES = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Settled:
    """A module and all settings that are needed to compile it.

    Attributes:
      contents: the module.
      options: build options that the module implies.
      mesh: its Shardy mesh over all partitions, or None.
      donated: numbers of the parameters whose buffers results may reuse.
      is_optimized: whether a compiler has optimized the module: it has a schedule or fusions.
      notes: notes to the user on derived, changed or dropped information.
    """

    contents: module_contents.Contents
    options: Options
    mesh: Mesh | None
    donated: frozenset[int]
    is_optimized: bool
    notes: tuple[str, ...]


def settle(contents: module_contents.Contents, platform: str) -> Settled:
    """Completes a module for a platform and determines its compile settings.

    Raises:
      ModuleError: the number of devices cannot be determined.
    """
    facts, source = contents.facts, contents.source
    header = header_attributes(source.header) if source is not None else {}
    module = Module.from_proto(source.proto if source is not None else contents.forms.hlo_proto)
    counts = device_counts(
        module,
        [math.prod(sizes) for _, sizes, _ in facts.meshes],
        _several(header_count(header, "replica_count") or facts.num_replicas),
        _several(header_count(header, "num_partitions") or facts.num_partitions),
    )
    per_device = source is not None and is_partitioned(module, counts.num_partitions)
    shape = module.columns.module.host_program_shape
    _check_layout(module, shape)
    donors, aliased = donated_leaves(module)
    parameters, results = (
        [leaf for each in shapes for leaf in _leaves(each)] for shapes in (shape.parameters, [shape.result])
    )
    if source is None:  # StableHLO states its layouts itself
        parameters = results = []
    additions = module_contents.Additions(
        counts.num_replicas,
        counts.num_partitions,
        donors,
        tuple(map(_placement, parameters)),
        tuple(map(_placement, results)),
        per_device,
    )
    if _needed(additions, facts):
        contents = dataclasses.replace(module_contents.with_additions(contents.stablehlo, additions), source=source)
    notes = [*counts.notes]
    if per_device:
        notes.append(
            f"the module is already partitioned: it is compiled as the program of each of {counts.num_partitions} devices"
        )
    if source is not None:
        notes += _losses(module, Module.from_proto(contents.forms.hlo_proto), per_device)
    if platform == platforms.TPU.name:
        notes += _chosen_layouts(parameters, results)
    propagated = [header_booleans(header, f"{_PROPAGATION}_{end}") for end in ("parameters", "output")]
    if source is not None and facts.uses_shardy and not per_device and propagated == [None, None]:
        propagated = _unstated_propagation(module)
        notes.append(
            "the module does not state which shardings XLA may choose: those of arguments and results without one"
        )
    options = Options(
        num_replicas=counts.num_replicas,
        num_partitions=counts.num_partitions,
        use_spmd_partitioning=True,
        use_shardy_partitioner=facts.uses_shardy and not per_device,
        allow_spmd_sharding_propagation_to_parameters=propagated[0],
        allow_spmd_sharding_propagation_to_output=propagated[1],
    )
    mesh = next((Mesh(n, s, "partition", d) for n, s, d in facts.meshes if math.prod(s) == counts.num_partitions), None)
    is_optimized = source is not None and (_is_scheduled(module) or "fusion" in module.columns.opcodes.values)
    return Settled(contents, options, mesh, frozenset((*donors, *aliased)), is_optimized, tuple(notes))


def _unstated_propagation(module: Module) -> list[tuple[bool, ...] | None]:
    """Returns for each parameter and result whether XLA may choose its sharding, as JAX does: those without one."""
    parameters = tuple(
        not parameter.proto.HasField("sharding")
        for parameter in module.entry.parameters
        for _ in _leaves(parameter.proto.shape)
    )
    stated = bool(module.calls_to((_RESULT_SHARDING,)))
    return [parameters, tuple(not stated for _ in _leaves(module.entry.root.proto.shape))]


def _check_layout(module: Module, stated: Any) -> None:
    """Checks that the entry layout has the same arrays as the entry computation."""
    own = module.entry.proto.program_shape
    for verb, ours, theirs in (
        ("takes", stated.parameters, own.parameters),
        ("returns", [stated.result], [own.result]),
    ):
        arrays = [
            [(leaf.element_type, *leaf.dimensions) for shape in shapes for leaf in _leaves(shape)]
            for shapes in (ours, theirs)
        ]
        if arrays[0] != arrays[1]:
            texts = [", ".join(str(Shape.from_proto(shape)) for shape in shapes) for shapes in (ours, theirs)]
            raise ModuleError(
                f"entry_computation_layout states that the HLO module {verb} {texts[0]}, but its entry computation {verb}"
                f" {texts[1]}. Correct or remove entry_computation_layout."
            )


def _several(count: int | None) -> int | None:
    """Returns None for a count of 1, which JAX writes whatever the compile options are."""
    return None if count == 1 else count


def _needed(additions: module_contents.Additions, facts: stablehlo.ModuleFacts) -> bool:
    counts = additions.num_replicas, additions.num_partitions
    return (
        counts != (facts.num_replicas or 1, facts.num_partitions or 1)
        or bool(additions.donors)
        or any((*additions.parameter_attributes, *additions.result_attributes))
        or additions.is_partitioned
    )


def donated_leaves(module: Module) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the parameter leaves whose buffers any result may reuse, and those that alias a specific result."""
    message = module.columns.module
    first = [0]
    for parameter in message.host_program_shape.parameters:
        first.append(first[-1] + sum(1 for _ in _leaves(parameter)))

    def leaf(number: int, index: list[int]) -> int:
        shape, at = message.host_program_shape.parameters[number], first[number]
        for i in index:
            at += sum(1 for before in shape.tuple_shapes[:i] for _ in _leaves(before))
            shape = shape.tuple_shapes[i]
        return at

    donors = [leaf(e.parameter_number, list(e.parameter_shape_index)) for e in message.buffer_donor.entries]
    aliased = [leaf(e.parameter_number, list(e.parameter_shape_index)) for e in message.input_output_alias.entries]
    return tuple(donors), tuple(aliased)


def _leaves(shape: Any) -> Iterator[Any]:
    types = shape.DESCRIPTOR.fields_by_name["element_type"].enum_type.values_by_number
    if types[shape.element_type].name != "TUPLE":
        yield shape
    for element in shape.tuple_shapes:
        yield from _leaves(element)


def _placement(shape: Any) -> Mapping[str, str]:
    """Returns the attributes of an argument or result whose layout or memory the module chooses.

    HLO states the layout of every array. Row-major without tiles is how XLA writes its default. Only a TPU's compiler
    writes tiles, and its default is not always row-major.
    """
    attributes, order = {}, list(shape.layout.minor_to_major)
    if not _is_row_major(shape) or (shape.layout.tiles and len(order) > 1):
        attributes["mhlo.layout_mode"] = "{" + ",".join(map(str, order)) + "}"
    if shape.layout.memory_space == _HOST_MEMORY_SPACE:
        attributes["mhlo.memory_kind"] = "pinned_host"
    return attributes


def _is_row_major(shape: Any) -> bool:
    order = list(shape.layout.minor_to_major)
    return order == sorted(order, reverse=True)


def _chosen_layouts(parameters: Sequence[Any], results: Sequence[Any]) -> Iterator[str]:
    """Yields the note on arrays whose layout a TPU's compiler chooses although HLO states one."""
    counts = [
        counted(number, name)
        for shapes, name in ((parameters, "parameter"), (results, "result"))
        if (number := sum(len(s.dimensions) > 1 and _is_row_major(s) and not s.layout.tiles for s in shapes))
    ]
    if counts:
        yield (
            f"the module states row-major layouts without tiles for {' and '.join(counts)}: they are compiled with XLA's default"
            " layouts, which on a TPU depend on the shape. To choose row-major, add tiles, for example {1,0:T(8,128)}"
        )


def _is_scheduled(module: Module) -> bool:
    return bool(module.columns.module.HasField("schedule"))


def _losses(source: Module, compiled: Module, per_device: bool) -> Iterator[str]:
    if _is_scheduled(source):
        yield "the module's schedule is dropped: XLA schedules the program again"
    lost = losses(source, compiled, ("sharding", "frontend_attributes") if per_device else ())
    if lost:
        named = format_list([str(loss) for loss in lost], _UNNAMED_LOSSES)
        yield f"XLA's conversion of HLO to StableHLO, which inspector compiles, drops: {named}"
