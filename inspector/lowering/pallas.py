"""Pallas kernels of a traced function: as values, and with other compiler parameters in their place.

The user's code stays as it is: parameters are replaced in the jaxpr, between tracing and lowering.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import jax

from inspector import platforms
from inspector._jax.lowering import pallas_device, pallas_params
from inspector._jax.lowering.observing import Logged, ObserveLimits
from inspector._jax.lowering.pallas_overrides import KernelChange, KernelHead
from inspector._jax.lowering.traced import KernelFacts
from inspector.compilation.tuning import AS_CALLED, WhatIf
from inspector.errors import LoweringError, OptionError, ParameterError, Unavailable, check_bool
from inspector.hlo.pallas import (
    Backend,
    BlockDimension,
    CostEstimate,
    Operand,
    ParamField,
    ScratchOperand,
    by_kernel,
)
from inspector.hlo.source import Origin, Root
from inspector.lowering.listings import origins_of
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


_IS_0_11 = jax.__version_info__[:2] == (0, 11)
_WRONG_INTERPRETER = (
    "The Pallas interpreter of JAX 0.11 computes wrong values for a kernel that reads num_programs and was traced for another"
    " shape before in this process. Restart the notebook kernel, or use JAX 0.12."
)


class Overrides:
    """What is put in place of what the program says: of its call, and of its Pallas kernels.

    Used for one lowering: it chooses what the program's kernels get, and then makes the `kernels` of what came of it.

    Attributes:
      what_if: what the call is supposed to be.
      limits: of a log of what collectives take and give, which the program then returns too; None for none.
      logged: what is in that, once it is lowered.
    """

    def __init__(
        self, compiler_params: CompilerParams | None = None, *, interpret: bool = False, platform: str = "cpu",
        chip: str = "", what_if: WhatIf = AS_CALLED, limits: ObserveLimits | None = None,
    ) -> None:  # fmt: skip
        """Names and values are checked when there is a jaxpr.

        Args:
          compiler_params: fields by kernel.
          interpret: let JAX's interpreter run the kernels, on any platform.
          platform: what is lowered for; says whose fields a kernel without parameters can have.
          chip: what kernels take for their device where there is none of the platform, such as "v5e"
            or "h100"; "" for the usual one.
          what_if: what the call is supposed to be.
          limits: of a log of what collectives take and give; None for none.

        Raises:
          OptionError: the fields are not by kernel; `interpret` is neither True nor False.
          ParameterError: no such chip.
        """
        if chip and chip not in _CHIPS:
            raise ParameterError(f"chip is {chip!r}, which is none of {', '.join(_CHIPS)}.")
        self._wanted = dict(by_kernel(compiler_params))
        self._interpret, self._platform = check_bool("interpret", interpret, OptionError), platform
        self._chip = chip
        self.what_if, self.limits = what_if, limits
        self.logged: tuple[Logged, ...] = ()
        self._is_gpu = "triton" in platforms.named(platform).pallas
        self._names: dict[int, tuple[str, ...]] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """The differences from the user's call, and the values that JAX's interpreter may get wrong."""
        supposed = (str(self.what_if),) if self.what_if else ()
        return (*supposed, _WRONG_INTERPRETER) if self._names and self._interpret and _IS_0_11 else supposed

    def device(self) -> contextlib.AbstractContextManager[None]:
        """While it is open, kernels see the chip; the interpreter's the usual TPU, without which some cannot be traced."""
        platform = platforms.TPU if self._interpret and self._platform == "cpu" else platforms.named(self._platform)
        chip = _CHIPS.get(self._chip or platform.usual_chip)
        if chip is None:
            return contextlib.nullcontext()
        return pallas_device.as_if_on(platform.kind, chip.device_kind, chip.architecture)

    def choose(self, heads: Sequence[KernelHead]) -> Mapping[int, KernelChange]:
        """What each kernel of a program gets.

        Raises:
          OptionError: no such kernel.
          LoweringError: a kernel is for another platform.
        """
        names = [head.name for head in heads]
        chosen = {number: self._fields_of(number, names) for number in range(len(heads))}
        self._refuse_strangers(names)
        self._names = {number: tuple(fields) for number, fields in chosen.items()}
        changes = ((number, self._change(heads[number], number, fields)) for number, fields in chosen.items())
        return {number: change for number, change in changes if change is not None}

    def refuse(self, reason: str) -> None:
        """For what cannot be traced any more.

        Raises:
          ParameterError: something is wanted.
        """
        if self._wanted or self._interpret:
            named = "compiler_params" if self._wanted else "interpret"
            raise ParameterError(f"{named} cannot be honored: {reason}. Pass the function itself.")

    def kernels(self, found: Sequence[KernelFacts], root: Root) -> tuple[Kernel, ...]:
        """The kernels of the program that was chosen for, in its order."""
        return kernels_of(found, root, self._names, self._platform)

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

    def _change(self, head: KernelHead, number: int, fields: Mapping[str, Any]) -> KernelChange | None:
        backend = pallas_params.backend_for(self._platform, head.backend)
        if not fields and not self._interpret and head.backend not in (None, backend):
            raise LoweringError(_FOREIGN.format(name=head.name, own=head.backend, platform=self._platform))
        is_bare = not head.has_params and self._is_gpu and not pallas_params.has_default(backend)
        if not (fields or is_bare or self._interpret):
            return None
        where = f"kernel {head.name!r}" if head.name else f"kernel {number}"
        return KernelChange(backend, fields if fields or is_bare else None, self._interpret, where)


_FOREIGN = (
    "The Pallas kernel {name!r} has the compiler parameters of {own} and cannot be lowered for {platform}. Lower it for"
    " what it was written for, let JAX's interpreter run it with interpret=True, or, when its body suits the other"
    " backend too, give it that one's parameters, such as compiler_params={{{name!r}: {{...}}}}."
)


def kernels_of(
    found: Sequence[KernelFacts], root: Root, overridden: Mapping[int, Sequence[str]] | None = None,
    platform: str = "cpu",
) -> tuple[Kernel, ...]:  # fmt: skip
    """The Pallas kernels of a traced function, in the order of the program.

    Args:
      found: what the function says of them.
      root: where their origins end.
      overridden: by number, the compiler parameters that were put in place of the program's own.
      platform: what is lowered for.
    """
    kernels = []
    for number, kernel in enumerate(found):
        facts: dict[str, Any] = dict(kernel.facts)
        if facts["backend"] is None and platform != "cpu":
            facts["backend"] = pallas_params.backend_for(platform, None)
        kernels.append(_kernel(number, facts, origins_of(kernel.places, root), overridden or {}))
    return tuple(kernels)


def _kernel(
    number: int, facts: dict[str, Any], origins: tuple[Origin, ...], overridden: Mapping[int, Sequence[str]]
) -> Kernel:
    build: dict[str, Callable[[Any], Any]] = {
        "operands": lambda many: tuple(_operand(o) for o in many),
        "prefetch": lambda many: tuple(ScratchOperand(**s) for s in many),
        "scratch": lambda many: tuple(ScratchOperand(**s) for s in many),
        "scoped": lambda many: tuple(ScratchOperand(**s) for s in many),
        "cost": lambda cost: _NO_COST if cost is None else CostEstimate(**cost),
    }
    values = {name: build.get(name, lambda v: v)(value) for name, value in facts.items()}
    return Kernel(number=number, origins=origins, overridden=tuple(overridden.get(number, ())), **values)


def _operand(facts: dict[str, Any]) -> Operand:
    return Operand(**{**facts, "dimensions": tuple(BlockDimension(**d) for d in facts["dimensions"])})


_NO_COST = Unavailable("the caller of pallas_call gave no cost_estimate", "pass cost_estimate=pl.CostEstimate(...)")
