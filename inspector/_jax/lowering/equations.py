"""Evaluates the equations of a jaxpr again: calls, loops and their bodies, and the binding of one equation.

For evaluations that change the program, such as `observing.py` and `widening.py`.

Private JAX: `Primitive.get_bind_params`, `source_info_util.user_context`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeAlias

from jax._src import source_info_util

from inspector._jax.lowering.collectives_on_cpu import ON_CPU
from inspector._jax.lowering.jaxprs import equations
from inspector._jax.lowering.stages import Lowered, Traced
from inspector.platforms import CPU, CUDA

AxisEnv: TypeAlias = Sequence[tuple[Hashable, int]]


_CALLS = frozenset(
    {
        "jit", "pjit", "closed_call", "core_call", "remat2", "checkpoint", "custom_jvp_call", "custom_vjp_call",
        "custom_vmap_call",
    }
)  # fmt: skip


def kind_of(eqn: Any) -> str:
    """Returns "call" for an equation that calls one jaxpr in its place, otherwise the primitive's name."""
    name = str(eqn.primitive.name)
    return "call" if name in _CALLS else name


def called_jaxpr(eqn: Any) -> Any:
    """Returns the jaxpr that a call evaluates."""
    return next(eqn.params[name] for name in ("jaxpr", "call_jaxpr", "fun_jaxpr", "call") if name in eqn.params)


def manual_axes(params: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the axes that a `shard_map` makes manual, in the order of its mesh."""
    return tuple(name for name in params["mesh"].axis_names if name in params["newly_manual_axes"])


def scan_counts(params: Mapping[str, Any]) -> tuple[int, int]:
    """Returns the number of constant operands and of carried operands of a scan."""
    if "num_consts" in params:
        return int(params["num_consts"]), int(params["num_carry"])
    constants, carried, _ = params["ft_in"].unpack()
    return len(constants), len(carried)


def lowered_on_cpu(traced: Traced) -> Lowered:
    """Lowers a traced call to learn the shardings of its arguments, for the CPU or a platform that has its collectives."""
    lacking = any(str(eqn.primitive.name) in ON_CPU for eqn in equations(traced.jaxpr))
    lowered: Lowered = traced.lower(lowering_platforms=((CUDA if lacking else CPU).lowering,))
    return lowered


def bind(eqn: Any, inputs: Sequence[Any], **changed: Any) -> list[Any]:
    """Binds the primitive of an equation to other inputs.

    Args:
      eqn: the equation.
      inputs: its inputs.
      changed: parameters that replace those of the equation.
    """
    params = {**eqn.params, **changed}
    with source_info_util.user_context(eqn.source_info.traceback, name_stack=eqn.source_info.name_stack):
        if (on_cpu := ON_CPU.get(str(eqn.primitive.name))) is not None:
            return [on_cpu(*inputs, **params)]
        results = eqn.primitive.bind(*inputs, **eqn.primitive.get_bind_params(params))
    return list(results) if eqn.primitive.multiple_results else [results]
