"""Makes a function of a StableHLO module its `main`, for modules from other frontends.

Imports jaxlib but not JAX, because `reader_process.py` must start quickly.

Private JAX: `jaxlib.mlir` (StableHLO).
"""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from inspector._jax.modules import stablehlo
from inspector.errors import ModuleError

_MAIN = "main"
_PRIVATE = "private"
_SHOWN = 20


def choose(module: ir.Module, name: str = "") -> None:
    """Makes a function the public `main` of a module; all other functions become private.

    Args:
      module: the module, which is changed.
      name: name of the function; "" for `main`, or else the only public function.

    Raises:
      ModuleError: there is no such function, or the choice is not clear; the message lists the functions.
    """
    functions = {
        _text(op.operation.attributes["sym_name"]): op.operation
        for op in module.body.operations
        if op.operation.name == "func.func"
    }
    if not name and _MAIN in functions:
        return
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
        for attribute in stablehlo.named_attributes(operation.attributes):
            if str(attribute.attr) in (f"@{old}", f'@"{old}"'):
                operation.attributes[attribute.name] = symbol
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)


def _unused(functions: dict[str, Any]) -> str:
    name = f"{_MAIN}_0"
    while name in functions:
        name += "_0"
    return name


def _has_body(function: Any) -> bool:
    return len(function.regions[0].blocks) > 0


def _text(attribute: Any) -> str:
    return str(ir.StringAttr(attribute).value)
