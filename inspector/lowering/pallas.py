"""Pallas kernels of a traced function: as values, and with other compiler parameters in their place.

The user's code stays as it is: parameters are replaced in the jaxpr, between tracing and lowering.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from inspector import platforms
from inspector._jax import jaxprs, pallas, pallas_device, pallas_params
from inspector.errors import LoweringError, OptionError, ParameterError, Unavailable, check_bool
from inspector.hlo.pallas import (
    MAX_STEPS,
    Backend,
    BlockDimension,
    CostEstimate,
    Operand,
    ParamField,
    Scratch,
    by_kernel,
)
from inspector.hlo.source import Frame, Origin, Root
from inspector.stages.kernel import Kernel

CompilerParams = Mapping[str | int, Mapping[str, Any]]
"""Fields of `CompilerParams` by kernel: its name, its number, or "*" for all."""

_ALL = "*"

_CHIPS = {chip.name: chip for chip in platforms.chips()}


def fields(backend: Backend) -> tuple[ParamField, ...]:
    """The fields of a backend's `CompilerParams`: those of the installed JAX, then documented ones that it lacks."""
    return tuple(_field(facts) for facts in pallas_params.fields(backend))


def _field(facts: Mapping[str, Any]) -> ParamField:
    told = {name: value for name, value in facts.items() if name not in ("reason", "remedy")}
    lacking = Unavailable(facts["reason"], facts["remedy"]) if facts["reason"] else None
    return ParamField(**told, available=True if lacking is None else lacking)


def fields_of(kernel: Kernel, platform: str) -> tuple[ParamField, ...]:
    """The fields that a kernel has on a platform ("tpu", "gpu", "cpu")."""
    return fields(cast(Backend, pallas_params.backend_for(platform, kernel.backend)))


class Overrides:
    """What is put in place of the program's own parameters of Pallas kernels.

    Used for one lowering: `rewrite` its jaxpr, lower that, and ask for its `kernels`.
    """

    def __init__(
        self, compiler_params: CompilerParams | None = None, *, interpret: bool = False, platform: str = "cpu",
        chip: str = "",
    ) -> None:  # fmt: skip
        """Names and values are checked when there is a jaxpr.

        Args:
          compiler_params: fields by kernel.
          interpret: let JAX's interpreter run the kernels, on any platform.
          platform: what is lowered for; says whose fields a kernel without parameters can have.
          chip: what kernels take for their device where there is none of the platform, such as "v5e"
            or "h100"; "" for the usual one.

        Raises:
          OptionError: the fields are not by kernel; `interpret` is neither True nor False.
          ParameterError: no such chip.
        """
        if chip and chip not in _CHIPS:
            raise ParameterError(f"chip is {chip!r}, which is none of {', '.join(_CHIPS)}.")
        self._wanted = dict(by_kernel(compiler_params))
        self._interpret, self._platform = check_bool("interpret", interpret, OptionError), platform
        self._chip = chip
        self._is_gpu = "triton" in platforms.named(platform).pallas
        self._names: dict[int, tuple[str, ...]] = {}
        self._has_none = False

    def device(self) -> contextlib.AbstractContextManager[None]:
        """While it is open, kernels see the chip; the interpreter's the usual TPU, without which some cannot be traced."""
        platform = platforms.TPU if self._interpret and self._platform == "cpu" else platforms.named(self._platform)
        chip = _CHIPS.get(self._chip or platform.usual_chip)
        if chip is None:
            return contextlib.nullcontext()
        return pallas_device.as_if_on(platform.kind, chip.device_kind, chip.architecture)

    def rewrite(self, jaxpr: Any) -> Any:
        """The jaxpr with the parameters in place.

        Raises:
          OptionError: no such kernel or field, or a value that cannot be.
          FlagTypeError: a value of the wrong type.
          LoweringError: a kernel is for another platform.
        """
        equations = pallas.kernel_equations(jaxpr)
        self._has_none = not equations
        if not equations and not self._wanted:
            return jaxpr
        names = [pallas.kernel_name(eqn) for eqn in equations]
        chosen = {number: self._fields_of(number, names) for number in range(len(equations))}
        self._refuse_strangers(names)
        replaced = {id(eqn): self._replacement(eqn, n, names[n], chosen[n]) for n, eqn in enumerate(equations)}
        self._names = {n: tuple(fields) for n, fields in chosen.items()}
        return pallas.with_kernel_params(jaxpr, lambda eqn: replaced[id(eqn)])

    def refuse(self, reason: str) -> None:
        """For what cannot be traced any more.

        Raises:
          ParameterError: something is wanted.
        """
        if self._wanted or self._interpret:
            named = "compiler_params" if self._wanted else "interpret"
            raise ParameterError(f"{named} cannot be honoured: {reason}. Pass the function itself.")

    def kernels(self, jaxpr: Any, root: Root) -> tuple[Kernel, ...]:
        """The kernels of the jaxpr that `rewrite` gave."""
        return () if self._has_none else kernels_of(jaxpr, root, self._names, self._platform)

    def _fields_of(self, number: int, names: Sequence[str]) -> dict[str, Any]:
        """What is wanted of one kernel; its number says more than its name, its name more than all."""
        return {
            field: value for key in (_ALL, names[number], number) for field, value in self._wanted.get(key, {}).items()
        }

    def _refuse_strangers(self, names: Sequence[str]) -> None:
        known = {_ALL, *names, *range(len(names))}
        strangers = [key for key in self._wanted if key not in known]
        if strangers:
            there = ", ".join(f"{name!r} ({number})" for number, name in enumerate(names)) or "none"
            raise OptionError(
                f"compiler_params names a Pallas kernel {strangers[0]!r}, which the function does not have. Its"
                f" kernels, by name or number: {there}; '*' stands for all."
            )

    def _replacement(self, eqn: Any, number: int, name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        changed: dict[str, Any] = {"interpret": True} if self._interpret else {}
        given = eqn.params["compiler_params"]
        own = pallas.own_backend(eqn)
        backend = pallas_params.backend_for(self._platform, own)
        if not fields and not changed and own not in (None, backend):
            raise LoweringError(_FOREIGN.format(name=name, own=own, platform=self._platform))
        if fields or (given is None and self._is_gpu and not pallas_params.has_default(backend)):
            where = f"kernel {name!r}" if name else f"kernel {number}"
            changed["compiler_params"] = pallas_params.with_fields(
                backend, given, fields, where, grid_rank=pallas.grid_rank(eqn), input_count=pallas.input_count(eqn)
            )
        return changed


_FOREIGN = (
    "The Pallas kernel {name!r} has the compiler parameters of {own} and cannot be lowered for {platform}. Lower it for"
    " what it was written for, let JAX's interpreter run it with interpret=True, or, when its body suits the other"
    " backend too, give it that one's parameters, such as compiler_params={{{name!r}: {{...}}}}."
)


def kernels_of(
    jaxpr: Any, root: Root, overridden: Mapping[int, Sequence[str]] | None = None, platform: str = "cpu"
) -> tuple[Kernel, ...]:
    """The Pallas kernels of a jaxpr, in the order of the program.

    Args:
      jaxpr: of the whole function.
      root: where its origins end.
      overridden: by number, the compiler parameters that were put in place of the program's own.
      platform: what is lowered for.
    """
    equations = pallas.kernel_equations(jaxpr)
    if not equations:
        return ()
    places = jaxprs.equation_places(jaxpr, root.scope)
    found = []
    for number, eqn in enumerate(equations):
        facts = pallas.kernel_facts(eqn, MAX_STEPS)
        if facts["backend"] is None and platform != "cpu":
            facts["backend"] = pallas_params.backend_for(platform, None)
        found.append(_kernel(number, facts, _origins(places.get(id(eqn), ()), root), overridden or {}))
    return tuple(found)


def _origins(places: Iterable[jaxprs.Place], root: Root) -> tuple[Origin, ...]:
    return root.trim(Origin(name, tuple(Frame(*frame) for frame in frames)) for name, frames in places)


def _kernel(
    number: int, facts: dict[str, Any], origins: tuple[Origin, ...], overridden: Mapping[int, Sequence[str]]
) -> Kernel:
    build: dict[str, Callable[[Any], Any]] = {
        "operands": lambda many: tuple(_operand(o) for o in many),
        "prefetch": lambda many: tuple(Scratch(**s) for s in many),
        "scratch": lambda many: tuple(Scratch(**s) for s in many),
        "scoped": lambda many: tuple(Scratch(**s) for s in many),
        "cost": lambda cost: _NO_COST if cost is None else CostEstimate(**cost),
    }
    values = {name: build.get(name, lambda v: v)(value) for name, value in facts.items()}
    return Kernel(number=number, origins=origins, overridden=tuple(overridden.get(number, ())), **values)


def _operand(facts: dict[str, Any]) -> Operand:
    return Operand(**{**facts, "dimensions": tuple(BlockDimension(**d) for d in facts["dimensions"])})


_NO_COST = Unavailable("the caller of pallas_call gave no cost_estimate", "pass cost_estimate=pl.CostEstimate(...)")
