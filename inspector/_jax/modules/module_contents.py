"""All contents of a StableHLO module as one value, and the attributes that a module needs after its conversion from HLO.

Private JAX: `jaxlib.mlir` (StableHLO).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from jaxlib.mlir import ir

from inspector._jax.modules import hlo, stablehlo
from inspector._jax.modules.hlo import SourceHlo
from inspector._jax.modules.stablehlo import ModuleFacts
from inspector.support import deferred
from inspector.support.deferred import Deferred


@dataclasses.dataclass(frozen=True, slots=True)
class ModuleForms(Deferred):
    """A StableHLO module in human-readable forms.

    Attributes:
      located: its text with locations, see `stablehlo.located_text`.
      hlo: the text of its HLO, before any optimization, with metadata.
      hlo_proto: the same as a serialized HloModuleProto.
    """

    located: str
    hlo: str
    hlo_proto: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Contents:
    """All contents of a StableHLO module.

    Attributes:
      stablehlo: the module itself as MLIR bytecode, with locations.
      facts: properties of the module.
      forms: human-readable forms.
      source: the HLO module that it was converted from, None if the user passed StableHLO.
      no_hlo: the reason why XLA cannot convert it to HLO, so that it is only text; "" if it can.
    """

    stablehlo: bytes
    facts: ModuleFacts
    forms: ModuleForms
    source: SourceHlo | None = None
    no_hlo: str = ""


def contents(module: ir.Module, *, tuple_args: bool = False, return_tuple: bool = False) -> Contents:
    """Returns all contents of an `ir.Module`; arguments and errors as for `forms`."""
    bytecode = stablehlo.to_bytecode(module)
    return Contents(
        bytecode, stablehlo.module_facts(module), forms(bytecode, tuple_args=tuple_args, return_tuple=return_tuple)
    )


def forms(module: bytes, *, tuple_args: bool = False, return_tuple: bool = False) -> ModuleForms:
    """Returns the forms of a module, each made on first use, which raises ModuleError if XLA cannot convert it to HLO.

    Args:
      module: StableHLO as MLIR bytecode.
      tuple_args: whether its HLO takes all arguments as one tuple.
      return_tuple: whether its HLO always returns a tuple.
    """

    def hlo_proto(_: ModuleForms) -> bytes:
        computation = hlo.to_computation(module, tuple_args=tuple_args, return_tuple=return_tuple)
        return bytes(computation.as_serialized_hlo_module_proto())

    return deferred.defer(ModuleForms, {
        "located": lambda _: stablehlo.located_text(stablehlo.parse_stablehlo(module)),
        "hlo": lambda made: hlo.hlo_text(made.hlo_proto),
        "hlo_proto": hlo_proto,
    })  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Additions:
    """Attributes to add to a StableHLO module because XLA's conversion from HLO drops them.

    Attributes:
      num_replicas, num_partitions: the counts of the HLO module.
      donors: numbers of the parameters whose buffers may be reused.
      parameter_attributes, result_attributes: attribute texts by name, for each parameter and result, for example layouts.
      is_partitioned: whether the module is the program of one device, so that nothing in it may be partitioned.
    """

    num_replicas: int = 1
    num_partitions: int = 1
    donors: tuple[int, ...] = ()
    parameter_attributes: tuple[Mapping[str, str], ...] = ()
    result_attributes: tuple[Mapping[str, str], ...] = ()
    is_partitioned: bool = False


def with_additions(module: bytes, additions: Additions) -> Contents:
    """Returns the contents of a StableHLO module that was read before, with attributes added."""
    parsed = stablehlo.parse_stablehlo(module)
    with parsed.context:
        attributes = parsed.operation.attributes
        for name, count in (("num_replicas", additions.num_replicas), ("num_partitions", additions.num_partitions)):
            attributes[f"mhlo.{name}"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), count)
        if additions.is_partitioned:
            _mark_manual(parsed)
        main = next(f.operation for f in parsed.body.operations if stablehlo.is_main(f.operation))
        donated: list[dict[str, Any]] = [{} for _ in stablehlo.function_type(main).inputs]
        for number in additions.donors:
            donated[number] = {"jax.buffer_donor": ir.BoolAttr.get(True)}
        _add(main, "arg_attrs", donated)
        _add(main, "arg_attrs", [_texts(each) for each in additions.parameter_attributes])
        _add(main, "res_attrs", [_texts(each) for each in additions.result_attributes])
    return contents(parsed)


def _texts(attributes: Mapping[str, str]) -> dict[str, Any]:
    return {name: ir.StringAttr.get(text) for name, text in attributes.items()}


def _add(function: Any, name: str, additions: Sequence[Mapping[str, Any]]) -> None:
    """Adds attributes to the arguments or results of a function; does not replace existing ones."""
    if not any(additions):
        return
    known = stablehlo.argument_attributes(function, name) or [{} for _ in additions]
    merged = [{**new, **old} for old, new in zip(known, additions, strict=True)]
    function.attributes[name] = ir.ArrayAttr.get([ir.DictAttr.get(each) for each in merged])


def _mark_manual(module: ir.Module) -> None:
    """Marks every value of a module as local to one device, so that the partitioner leaves it unchanged."""
    manual = ir.StringAttr.get("{manual}")
    module_attributes = module.operation.attributes
    if stablehlo.FRONTEND_ATTRIBUTES in module_attributes:
        module_attributes[stablehlo.FRONTEND_ATTRIBUTES] = _without_shardy(
            module_attributes[stablehlo.FRONTEND_ATTRIBUTES]
        )
    for operation in module.body.operations:
        function = operation.operation
        if function.name != "func.func":
            continue
        if stablehlo.is_main(function):
            type_ = stablehlo.function_type(function)
            for name, types in (("arg_attrs", type_.inputs), ("res_attrs", type_.results)):
                known = stablehlo.argument_attributes(function, name) or [{} for _ in types]
                marked = [{**each, stablehlo.SHARDING: manual} for each in known]
                for each in marked:
                    if stablehlo.FRONTEND_ATTRIBUTES in each:
                        each[stablehlo.FRONTEND_ATTRIBUTES] = _without_shardy(each[stablehlo.FRONTEND_ATTRIBUTES])
                function.attributes[name] = ir.ArrayAttr.get([ir.DictAttr.get(each) for each in marked])
        for block in function.regions[0]:
            _mark_block(block, manual)


_BRANCHING = frozenset({"stablehlo.while", "stablehlo.if", "stablehlo.case"})


def _mark_block(block: Any, manual: Any) -> None:
    for operation in block:
        attributes = operation.operation.attributes
        if operation.operation.results:
            attributes[stablehlo.SHARDING] = manual
        if stablehlo.FRONTEND_ATTRIBUTES in attributes:
            attributes[stablehlo.FRONTEND_ATTRIBUTES] = _without_shardy(attributes[stablehlo.FRONTEND_ATTRIBUTES])
        if operation.operation.name in _BRANCHING:
            for region in operation.operation.regions:
                for inner in region:
                    _mark_block(inner, manual)


def _without_shardy(frontend: Any) -> Any:
    others = {
        a.name: a.attr
        for a in stablehlo.named_attributes(ir.DictAttr(frontend))
        if not a.name.startswith(stablehlo.SHARDY_PREFIX)
    }
    return ir.DictAttr.get(others)
