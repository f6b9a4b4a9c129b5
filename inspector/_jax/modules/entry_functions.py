"""Makes a function of a StableHLO module its `main`, for modules from other frontends.

Imports jaxlib but not JAX, because `reader_process.py` must start quickly.

Private JAX: `jaxlib.mlir` (StableHLO and its passes), `jaxlib._jax.mlir` (refinement).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from jaxlib import _jax
from jaxlib.mlir import ir

from inspector._jax.modules import stablehlo
from inspector.errors import ModuleError

_MAIN = "main"
_PRIVATE = "private"
_SHOWN = 20


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """The program in a StableHLO module.

    Attributes:
      function: name of the function; "" for `main`, or else the only public function.
      module: name of a nested module; "" for the module itself, or the only nested one.
      shapes: shapes of arguments with dynamic dimensions, by number or by name ("arg0").
    """

    function: str = ""
    module: str = ""
    shapes: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)


def chosen(module: ir.Module, entry: Entry | None = None) -> ir.Module:
    """Returns a module with the program as its public `main`; all other functions are private.

    Args:
      module: the module, which may be changed.
      entry: the program; None for `main`.

    Raises:
      ModuleError: there is no such function, or the choice is not clear, or shapes are missing; the message lists the
        functions or arguments.
    """
    entry = entry or Entry()
    module = _innermost(module, entry.module)
    functions = {
        _text(op.operation.attributes["sym_name"]): op.operation
        for op in module.body.operations
        if op.operation.name == "func.func"
    }
    if entry.function or _MAIN not in functions:
        _make_main(module, functions, entry.function)
    return _with_shapes(module, entry.shapes)


def _innermost(module: ir.Module, name: str) -> ir.Module:
    """Returns the chosen one of nested modules; the module itself if it has functions."""
    operations = [op.operation for op in module.body.operations]
    nested = [op for op in operations if op.name == "builtin.module"]
    if not nested or any(op.name == "func.func" for op in operations):
        return module
    names = [_text(op.attributes["sym_name"]) if "sym_name" in op.attributes else "" for op in nested]
    matches = [op for n, (op, own) in enumerate(zip(nested, names, strict=True), 1) if name in (own, str(n))]
    if not name and len(nested) == 1:
        matches = nested
    if len(matches) != 1:
        listed = ", ".join(f"{n} {own}".strip() for n, own in enumerate(names, 1))
        raise ModuleError(f'The file has {len(nested)} modules: {listed}. Choose one: module="{names[0] or 1}".')
    with module.context:
        inner = ir.Module.parse(str(matches[0].get_asm(enable_debug_info=True)))
    return _innermost(inner, "")


def _with_shapes(module: ir.Module, shapes: Mapping[str, tuple[int, ...]]) -> ir.Module:
    """Returns a module whose arguments have static shapes, and with them all values."""
    main = next(op.operation for op in module.body.operations if stablehlo.is_main(op.operation))
    types = list(stablehlo.function_type(main).inputs)
    dynamic = {n: type_ for n, type_ in enumerate(types) if _is_dynamic(type_)}
    given = {key.removeprefix("arg"): tuple(shape) for key, shape in shapes.items()}
    unknown = [key for key in given if not key.isdecimal() or int(key) not in dynamic]
    missing = [n for n in dynamic if str(n) not in given]
    if unknown or missing:
        raise ModuleError(
            f"{f'There is no dynamic argument {unknown[0]}. ' if unknown else ''}{_listed_arguments(dynamic)}"
        )
    if not dynamic:
        return module
    with module.context, ir.Location.unknown():
        for n, type_ in dynamic.items():
            ranked, shape = ir.RankedTensorType(type_), given[str(n)]
            fits = len(shape) == ranked.rank and all(
                ranked.is_dynamic_dim(d) or ranked.get_dim_size(d) == size for d, size in enumerate(shape)
            )
            if not fits:
                raise ModuleError(f"arg{n} is {type_}, and its shape in refine is {list(shape)}, which does not match.")
            types[n] = ir.RankedTensorType.get(list(shape), ranked.element_type)
    try:
        _refine_arguments(module, types)
        refined = _jax.mlir.refine_polymorphic_shapes(
            stablehlo.to_bytecode(module), enable_shape_assertions=False, validate_static_shapes=True
        )
    except Exception as e:
        raise ModuleError(f"The shapes in refine do not determine all shapes of the module: {e}") from e
    return stablehlo.parse_stablehlo(bytes(refined))


def _refine_arguments(module: ir.Module, types: list[Any]) -> None:
    """Changes the argument types of `main`. StableHLO's pass keeps the module valid until its shapes are refined."""
    from jaxlib.mlir._mlir_libs import _stablehlo
    from jaxlib.mlir.passmanager import PassManager

    _stablehlo.register_stablehlo_passes()
    texts = ",".join(map(str, types))
    with module.context:
        PassManager.parse(f"builtin.module(stablehlo-refine-arguments{{types={texts}}})").run(module.operation)


def _listed_arguments(dynamic: Mapping[int, Any]) -> str:
    if not dynamic:
        return "All arguments of the function have static shapes, so it takes no refine."
    listed = ", ".join(f"arg{n}: {type_}" for n, type_ in dynamic.items())
    example = ", ".join(f'"arg{n}": {_example(type_)}' for n, type_ in dynamic.items())
    return f"The function has arguments with dynamic shapes: {listed}. Give their shapes: refine={{{example}}}."


def _example(type_: Any) -> str:
    ranked = ir.RankedTensorType(type_)
    sizes = [str(8 if ranked.is_dynamic_dim(d) else ranked.get_dim_size(d)) for d in range(ranked.rank)]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def _is_dynamic(type_: Any) -> bool:
    try:
        return not ir.RankedTensorType(type_).has_static_shape
    except ValueError:  # a token or an unranked tensor
        return False


def _make_main(module: ir.Module, functions: dict[str, Any], name: str) -> None:
    chosen = name.removeprefix("@") or _only(functions)
    if chosen not in functions:
        raise ModuleError(f"The StableHLO module has no function {chosen!r}. {_listed(functions)}")
    if not _has_body(functions[chosen]):
        raise ModuleError(f"The function {chosen!r} of the StableHLO module has no body. {_listed(functions)}")
    with module.context:
        if chosen != _MAIN:
            if _MAIN in functions:
                _rename(module, functions[_MAIN], _MAIN, _unused(functions))
            _rename(module, functions[chosen], chosen, _MAIN)
        for function in functions.values():
            if function == functions[chosen]:
                if "sym_visibility" in function.attributes:
                    del function.attributes["sym_visibility"]
            else:
                function.attributes["sym_visibility"] = ir.StringAttr.get(_PRIVATE)
        if "sym_name" not in module.operation.attributes:
            module.operation.attributes["sym_name"] = ir.StringAttr.get(chosen)


def _only(functions: dict[str, Any]) -> str:
    public = [
        name
        for name, function in functions.items()
        if _has_body(function)
        and ("sym_visibility" not in function.attributes or _text(function.attributes["sym_visibility"]) != _PRIVATE)
    ]
    if len(public) == 1:
        return public[0]
    if not public and (bodies := [name for name, function in functions.items() if _has_body(function)]):
        raise ModuleError(
            "The StableHLO module has no function `main`, and no public function. Choose a private one:"
            f' function="{bodies[0]}". {_listed(functions)}'
        )
    if not public:
        raise ModuleError(
            "The StableHLO module has no function `main`, and no public function. Expected a module with a public function,"
            f" such as those made by `jax.jit(f).lower(...)`. {_listed(functions)}"
        )
    raise ModuleError(
        f'The StableHLO module has no function `main` and {len(public)} public functions. Choose one: function="{public[0]}".'
        f" {_listed(functions)}"
    )


def _listed(functions: dict[str, Any]) -> str:
    names = [*functions]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"Its functions: {', '.join(names[:_SHOWN]) or 'none'}{more}."


def _rename(module: ir.Module, function: Any, old: str, new: str) -> None:
    """Renames a function where it is defined and where it is called."""
    function.attributes["sym_name"] = ir.StringAttr.get(new)
    symbol = ir.FlatSymbolRefAttr.get(new)

    def visit(operation: Any) -> Any:
        if operation.name in _CONSTANTS:
            return ir.WalkResult.ADVANCE
        for attribute in stablehlo.named_attributes(operation.attributes):
            if str(attribute.attr) in (f"@{old}", f'@"{old}"'):
                operation.attributes[attribute.name] = symbol
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)


# Not looked at: jaxlib cannot cast the values of complex ones, and an error in a walk ends the process.
_CONSTANTS = frozenset({"stablehlo.constant", "mhlo.constant", "chlo.constant", "arith.constant"})


def _unused(functions: dict[str, Any]) -> str:
    name = f"{_MAIN}_0"
    while name in functions:
        name += "_0"
    return name


def _has_body(function: Any) -> bool:
    return len(function.regions[0].blocks) > 0


def _text(attribute: Any) -> str:
    return str(ir.StringAttr(attribute).value)
