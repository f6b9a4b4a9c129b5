"""Pallas kernels of a traced function, and replacements of their compiler parameters.

The user's code is not changed: parameters are replaced in the jaxpr, between tracing and lowering.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import jax

from inspector import platforms
from inspector._jax.lowering import pallas_device, pallas_params
from inspector._jax.lowering.pallas_overrides import KernelChange, KernelHead
from inspector._jax.lowering.reevaluation import Description, Reevaluation
from inspector._jax.lowering.traced import KernelFacts
from inspector.compilation.what_if import AS_CALLED, WhatIf
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
from inspector.support.notebook import short

CompilerParams = Mapping[str | int, Mapping[str, Any]]
"""Fields of `CompilerParams` by kernel: its name, its number, or "*" for all."""

_ALL = "*"

_CHIPS = {chip.name: chip for chip in platforms.chips()}


def fields(backend: Backend) -> tuple[ParamField, ...]:
    """Returns the fields of a backend's `CompilerParams`: those of the installed JAX, then documented fields that it lacks."""
    return tuple(_field(facts) for facts in pallas_params.fields(backend))


def _field(facts: Mapping[str, Any]) -> ParamField:
    known = {name: value for name, value in facts.items() if name not in ("reason", "remedy")}
    lacking = Unavailable(facts["reason"], facts["remedy"]) if facts["reason"] else None
    return ParamField(**known, available=True if lacking is None else lacking)


def fields_of(kernel: Kernel, platform: str) -> tuple[ParamField, ...]:
    """Returns the compiler parameters that a kernel has on a platform ("tpu", "gpu", "cpu")."""
    return fields(cast(Backend, pallas_params.backend_for(platform, kernel.backend)))


_IS_0_11 = jax.__version_info__[:2] == (0, 11)
_WRONG_INTERPRETER = (
    "The Pallas interpreter of JAX 0.11 computes wrong values for a kernel that reads num_programs and was traced for another"
    " shape before in this process. Restart the notebook kernel, or use JAX 0.12."
)


class Overrides:
    """Changes to a program's call and to its Pallas kernels.

    Used for one lowering: `choose` selects the changes to the program's kernels, and `kernels` then describes the kernels
    of the lowered program.

    Attributes:
      what_if: hypothetical changes to the call.
      reevaluation: evaluates the traced program again and changes it; None for none.
      logged: its description of the program's further results, once the program is lowered.
    """

    def __init__(
        self, compiler_params: CompilerParams | None = None, *, interpret: bool = False, platform: str = "cpu",
        chip: str = "", what_if: WhatIf = AS_CALLED, reevaluation: Reevaluation | None = None,
    ) -> None:  # fmt: skip
        """Stores the changes. Names and values are checked when the jaxpr is available.

        Args:
          compiler_params: fields by kernel.
          interpret: whether to run the kernels in JAX's interpreter, on any platform.
          platform: the platform to lower for, which also determines the fields of kernels without parameters.
          chip: the chip that kernels see if no device of the platform is attached, such as "v5e" or "h100"; "" for the
            platform's default chip.
          what_if: hypothetical changes to the call.
          reevaluation: evaluates the traced program again and changes it; None for none.

        Raises:
          OptionError: the fields are not by kernel; `interpret` is neither True nor False.
          ParameterError: an unknown chip.
        """
        if chip and chip not in _CHIPS:
            raise ParameterError(f"chip is {short(chip)}, expected one of {', '.join(_CHIPS)}.")
        self._wanted = dict(by_kernel(compiler_params))
        self._interpret, self._platform = check_bool("interpret", interpret, OptionError), platform
        self._chip = chip
        self.what_if, self.reevaluation = what_if, reevaluation
        self.logged: Description = ()
        self._is_gpu = "triton" in platforms.named(platform).pallas
        self._names: dict[int, tuple[str, ...]] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """The differences from the user's call, and the values that JAX's interpreter may get wrong."""
        changes = (str(self.what_if),) if self.what_if else ()
        return (*changes, _WRONG_INTERPRETER) if self._names and self._interpret and _IS_0_11 else changes

    def device(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context in which kernels see the chip.

        Interpreted kernels on the CPU see the default TPU, because some kernels cannot be traced without a TPU.
        """
        platform = platforms.TPU if self._interpret and self._platform == "cpu" else platforms.named(self._platform)
        chip = _CHIPS.get(self._chip or platform.usual_chip)
        if chip is None:
            return contextlib.nullcontext()
        return pallas_device.as_if_on(platform.kind, chip.device_kind, chip.architecture)

    def choose(self, heads: Sequence[KernelHead]) -> Mapping[int, KernelChange]:
        """Returns the change to each kernel of a program, by number.

        Raises:
          OptionError: `compiler_params` names an unknown kernel.
          LoweringError: a kernel was written for another platform.
        """
        names = [head.name for head in heads]
        chosen = {number: self._fields_of(number, names) for number in range(len(heads))}
        self._refuse_unknown(names)
        self._names = {number: tuple(fields) for number, fields in chosen.items()}
        changes = ((number, self._change(heads[number], number, fields)) for number, fields in chosen.items())
        return {number: change for number, change in changes if change is not None}

    def refuse(self, reason: str) -> None:
        """Refuses changes to a program that cannot be traced again.

        Raises:
          ParameterError: kernels should change.
        """
        if self._wanted or self._interpret:
            named = "compiler_params" if self._wanted else "interpret"
            raise ParameterError(f"{named} cannot be applied: {reason}. Pass the function itself.")

    def kernels(self, kernel_facts: Sequence[KernelFacts], root: Root) -> tuple[Kernel, ...]:
        """Returns the kernels of the lowered program, in its order. Called after `choose`."""
        return kernels_of(kernel_facts, root, self._names, self._platform)

    def _fields_of(self, number: int, names: Sequence[str]) -> dict[str, Any]:
        """Returns the requested fields of one kernel. Its number takes precedence over its name, and its name over "*"."""
        return {
            field: value for key in (_ALL, names[number], number) for field, value in self._wanted.get(key, {}).items()
        }

    def _refuse_unknown(self, names: Sequence[str]) -> None:
        known = {_ALL, *names, *range(len(names))}
        unknown = [key for key in self._wanted if key not in known]
        if unknown:
            kernels = ", ".join(f"{name!r} ({number})" for number, name in enumerate(names)) or "none"
            raise OptionError(
                f"compiler_params names a Pallas kernel {short(unknown[0])}, which the function does not have. Its"
                f" kernels, by name or number: {kernels}; '*' means all kernels."
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
    "The Pallas kernel {name!r} has the compiler parameters of {own} and cannot be lowered for {platform}. Lower for the"
    " platform that it was written for, run it in JAX's interpreter with interpret=True, or, if its body also works on"
    " the other backend, set that backend's parameters: compiler_params={{{name!r}: {{...}}}}."
)


def kernels_of(
    kernel_facts: Sequence[KernelFacts], root: Root, overridden: Mapping[int, Sequence[str]] | None = None,
    platform: str = "cpu",
) -> tuple[Kernel, ...]:  # fmt: skip
    """Returns the Pallas kernels of a traced function, in the order of the program.

    Args:
      kernel_facts: the facts of each kernel.
      root: the lowered function, at which origins end.
      overridden: by kernel number, the names of the compiler parameters that were replaced.
      platform: the platform to lower for.
    """
    kernels = []
    for number, kernel in enumerate(kernel_facts):
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


_NO_COST = Unavailable("pallas_call was called without cost_estimate", "pass cost_estimate=pl.CostEstimate(...)")
