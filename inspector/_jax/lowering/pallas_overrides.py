"""Overrides the compiler parameters of a traced function's Pallas kernels.

Private JAX: `JaxprEqn.replace` and `Jaxpr.replace`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from inspector._jax.lowering.jaxprs import open_jaxpr
from inspector._jax.lowering.pallas import CALLS, grid_rank, input_count, kernel_equations, kernel_name, own_backend
from inspector._jax.lowering.pallas_params import with_fields
from inspector._jax.lowering.stages import with_jaxpr
from inspector._jax.values import UserValue


@dataclasses.dataclass(frozen=True, slots=True)
class KernelHead:
    """Properties that identify a kernel.

    Attributes:
      name: the user's name for it, or the name of its function.
      backend: backend of its compiler parameters or mesh of cores; None without either.
      has_params: whether it has compiler parameters.
    """

    name: str
    backend: str | None
    has_params: bool


@dataclasses.dataclass(frozen=True, slots=True)
class KernelChange:
    """New parameters of one kernel.

    Attributes:
      backend: backend of the compiler parameters.
      fields: values by field, which override the kernel's own or default ones; None to leave the parameters unchanged.
      interpret: whether JAX's interpreter runs it.
      where: a description of the kernel, for messages.
    """

    backend: str
    fields: Mapping[str, UserValue] | None
    interpret: bool
    where: str


Choose = Callable[[Sequence[KernelHead]], Mapping[int, KernelChange]]
"""Chooses the changes, by kernel number, for the kernels of a program in order."""


def with_changes(traced: jax.stages.Traced, choose: Choose) -> jax.stages.Traced:
    """Returns the same call with other parameters for its kernels; the call itself if nothing changes.

    Raises:
      UnknownFlagError: the installed JAX does not have a field.
      FlagTypeError: a value has the wrong type.
      OptionError: a value is invalid, or the backend is not available. Also raises the errors of `choose`.
    """
    return with_jaxpr(traced, changed_jaxpr(traced.jaxpr, choose))


def changed_jaxpr(jaxpr: Any, choose: Choose) -> Any:
    """Changes a whole function's jaxpr, as `with_changes`.

    Unchanged jaxprs stay the same objects, so that they remain in JAX's caches.
    """
    equations = kernel_equations(jaxpr)
    changes = choose(
        [KernelHead(kernel_name(eqn), own_backend(eqn), eqn.params["compiler_params"] is not None) for eqn in equations]
    )
    if not changes:
        return jaxpr
    params = {id(equations[number]): _params(equations[number], change) for number, change in changes.items()}
    return _Rewriter(lambda eqn: params.get(id(eqn))).rewrite(jaxpr)


def _params(eqn: Any, change: KernelChange) -> dict[str, Any]:
    changed: dict[str, Any] = {"interpret": True} if change.interpret else {}
    if change.fields is not None:
        changed["compiler_params"] = with_fields(
            change.backend, eqn.params["compiler_params"], change.fields, change.where,
            grid_rank=grid_rank(eqn), input_count=input_count(eqn),
        )  # fmt: skip
    return changed


_ParamsOf = Callable[[Any], Mapping[str, Any] | None]


class _Rewriter:
    def __init__(self, params_of: _ParamsOf) -> None:
        self._params_of = params_of
        self._done: dict[int, tuple[Any, Any]] = {}  # keeps the original alive, so that its id is not reused

    def rewrite(self, jaxpr: Any) -> Any:
        if id(jaxpr) not in self._done:
            self._done[id(jaxpr)] = (jaxpr, self._rewritten(jaxpr))
        return self._done[id(jaxpr)][1]

    def _rewritten(self, jaxpr: Any) -> Any:
        if not hasattr(jaxpr, "eqns") or open_jaxpr(jaxpr) is not jaxpr:  # a ClosedJaxpr, up to JAX 0.10
            inner = open_jaxpr(jaxpr)
            new = self.rewrite(inner)
            return jaxpr if new is inner else jaxpr.replace(jaxpr=new)
        eqns = [self._equation(eqn) for eqn in jaxpr.eqns]
        return jaxpr if all(a is b for a, b in zip(eqns, jaxpr.eqns, strict=True)) else jaxpr.replace(eqns=eqns)

    def _equation(self, eqn: Any) -> Any:
        if eqn.primitive.name in CALLS:
            changed = self._params_of(eqn)
            return eqn if not changed else eqn.replace(params={**eqn.params, **changed})
        params = {name: self._parameter(value) for name, value in eqn.params.items()}
        return eqn if all(params[n] is v for n, v in eqn.params.items()) else eqn.replace(params=params)

    def _parameter(self, value: Any) -> Any:
        """Rewrites a parameter that is a jaxpr or a sequence of them, as `core.jaxprs_in_params` recognizes them."""
        if isinstance(value, (tuple, list)):
            new = [self._parameter(v) for v in value]
            return value if all(a is b for a, b in zip(new, value, strict=True)) else type(value)(new)
        return self.rewrite(value) if hasattr(open_jaxpr(value), "eqns") else value
