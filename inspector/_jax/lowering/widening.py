"""Evaluates a traced program again with every floating-point value widened to 64 bits: a reference for its results.

Integers, booleans and random keys keep their types, so random bits and indices stay the same. Comparisons, and the branches and
loops that depend on them, follow the widened values. Operations that depend on the bits of a float are computed at the original
width. So are kernels and custom calls, which have no wider form; these are listed.

Private JAX: `JaxprEqnContext.manager`, jaxprs in the parameters of reductions and scatters.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from inspector._jax.lowering.equation_log import Frames
from inspector._jax.lowering.equations import (
    AxisEnv,
    bind,
    called_jaxpr,
    kind_of,
    lowered_on_cpu,
    manual_axes,
    scan_counts,
)
from inspector._jax.lowering.jaxprs import frames_of, open_jaxpr
from inspector._jax.lowering.stages import Traced, traced_as, with_donated

"""(file, line, function) of user frames, innermost first."""


@dataclasses.dataclass(frozen=True, slots=True)
class Narrow:
    """An operation of the reference that is computed at the program's own width.

    Attributes:
      primitive: JAX's name, such as `pallas_call`.
      frames: its user frames.
    """

    primitive: str
    frames: Frames


def widened_call(traced: Traced) -> tuple[Traced, tuple[Narrow, ...]]:
    """Returns a traced call with widened values, and its operations that are not widened. Arguments keep their types."""
    program = Widened(traced.jaxpr)
    return call_without_donations(traced, program), program.narrow


def widened_jaxpr(closed: Any, axis_env: AxisEnv) -> tuple[Any, tuple[Narrow, ...]]:
    """Returns a closed jaxpr with widened values, and its operations that are not widened. Arguments keep their types."""
    program = Widened(closed)
    return jax.make_jaxpr(program, axis_env=list(axis_env) or None)(*closed.in_avals), program.narrow


def call_without_donations(traced: Traced, program: Callable[..., Any]) -> Traced:
    """Returns a traced call of another program of the same arguments, without donations: its results have other types."""
    made = traced_as(lowered_on_cpu(traced), program)
    return with_donated(made, (False,) * len(made.jaxpr.in_avals))


class Widened:
    """A program evaluated with widened values. When called with the program's arguments, it returns its results as a list.

    Attributes:
      found: operations that are not widened, by the `id` of their equation, once it was called.
    """

    def __init__(self, closed: Any) -> None:
        self._closed = closed
        self.found: dict[int, Narrow] = {}

    @property
    def narrow(self) -> tuple[Narrow, ...]:
        """The operations that are not widened, each once, in the order of the program. Complete once it was called."""
        return tuple(dict.fromkeys(self.found.values()))

    def __call__(self, *arrays: Any) -> list[Any]:
        return self.evaluate(self._closed, [widened(array) for array in arrays])

    def evaluate(self, closed: Any, operands: Sequence[Any], frames: Frames = ()) -> list[Any]:
        """Evaluates a jaxpr with widened operands; `frames` are those of the equation that it belongs to."""
        jaxpr = open_jaxpr(closed)
        constants = map(widened, getattr(closed, "consts", ()))
        known: dict[Any, Any] = dict(zip(jaxpr.constvars, constants, strict=True))
        known |= zip(jaxpr.invars, operands, strict=True)

        def read(atom: Any) -> Any:
            return literal(atom) if hasattr(atom, "val") else known[atom]

        for eqn in jaxpr.eqns:
            with eqn.ctx.manager:
                known |= zip(eqn.outvars, self.equation(eqn, list(map(read, eqn.invars)), frames), strict=True)
        return list(map(read, jaxpr.outvars))

    def equation(self, eqn: Any, inputs: Sequence[Any], outer: Frames) -> list[Any]:
        """Evaluates an equation with widened inputs."""
        frames = frames_of(eqn) or outer
        if (inside := _INSIDE.get(kind_of(eqn))) is not None:
            return inside(self, eqn, inputs, frames)
        return self.simple(eqn, inputs, frames)

    def simple(self, eqn: Any, inputs: Sequence[Any], frames: Frames) -> list[Any]:
        """Evaluates an equation without inner control flow."""
        name = str(eqn.primitive.name)
        if name in _LEFT_OUT:
            return []
        if not any(map(is_widened, (v.aval for v in (*eqn.invars, *eqn.outvars)))):
            return bind(eqn, inputs)
        if name == "is_finite":
            return [is_finite(inputs[0])]
        if _tests_for_nan(eqn):
            return [_is_nan(inputs[0])]
        if name == "reduce_precision":
            return list(inputs)
        if name in _OF_BITS:
            return _at_own_width(eqn, inputs)
        if name not in _OPAQUE and not _narrows(eqn):
            try:
                return [widened(each) for each in bind(eqn, inputs, **self._widened_parameters(eqn))]
            except Exception:
                pass  # a primitive may reject wide operands with any error
        self.found[id(eqn)] = Narrow(name, frames)
        return _at_own_width(eqn, inputs)

    def _widened_parameters(self, eqn: Any) -> dict[str, Any]:
        changed: dict[str, Any] = {}
        for name, value in eqn.params.items():
            if name in _TYPES and value is not None and is_float(value):
                changed[name] = wide_type(value)
            elif name == "precision":
                changed[name] = None
            elif hasattr(open_jaxpr(value), "eqns"):
                changed[name] = self._widened_jaxpr(value)
        return changed

    def _widened_jaxpr(self, jaxpr: Any) -> Any:
        """Returns the function of a reduction or a scatter for wide operands."""
        avals = [
            jax.ShapeDtypeStruct(v.aval.shape, wide_type(v.aval.dtype) if is_float(v.aval.dtype) else v.aval.dtype)
            for v in open_jaxpr(jaxpr).invars
        ]
        made = jax.make_jaxpr(lambda *operands: self.evaluate(jaxpr, operands))(*avals)
        return made if hasattr(jaxpr, "jaxpr") else open_jaxpr(made)

    def call(self, eqn: Any, inputs: Sequence[Any], frames: Frames) -> list[Any]:
        """Evaluates the equations of a called jaxpr in its place."""
        return self.evaluate(called_jaxpr(eqn), inputs, frames)

    def solve(self, eqn: Any, inputs: Sequence[Any], frames: Frames) -> list[Any]:
        """Evaluates the solver of a linear system."""
        lengths = eqn.params["const_lengths"]
        begin = lengths.matvec + lengths.vecmat
        total = begin + lengths.solve + lengths.transpose_solve
        return self.evaluate(
            eqn.params["jaxprs"].solve, [*inputs[begin : begin + lengths.solve], *inputs[total:]], frames
        )

    def scan(self, eqn: Any, inputs: Sequence[Any], frames: Frames) -> list[Any]:
        """Evaluates a scan."""
        params = eqn.params
        constants, carried = scan_counts(params)

        def body(carry: list[Any], slices: list[Any]) -> tuple[list[Any], list[Any]]:
            results = self.evaluate(params["jaxpr"], [*inputs[:constants], *carry, *slices], frames)
            return results[:carried], results[carried:]

        begin, slices = list(inputs[constants : constants + carried]), list(inputs[constants + carried :])
        last, stacked = jax.lax.scan(body, begin, slices, params["length"], params["reverse"], params["unroll"])
        return [*last, *stacked]

    def while_loop(self, eqn: Any, inputs: Sequence[Any], frames: Frames) -> list[Any]:
        """Evaluates a while loop, whose condition follows the widened values."""
        params = eqn.params
        conditions, bodies = params["cond_nconsts"], params["body_nconsts"]
        for_condition, for_body = inputs[:conditions], inputs[conditions : conditions + bodies]
        results: Sequence[Any] = jax.lax.while_loop(
            lambda carry: self.evaluate(params["cond_jaxpr"], [*for_condition, *carry], frames)[0],
            lambda carry: self.evaluate(params["body_jaxpr"], [*for_body, *carry], frames),
            list(inputs[conditions + bodies :]),
        )
        return list(results)

    def cond(self, eqn: Any, inputs: Sequence[Any], frames: Frames) -> list[Any]:
        """Evaluates the branch that the widened values select."""

        def branch(jaxpr: Any) -> Callable[[Sequence[Any]], list[Any]]:
            return lambda values: self.evaluate(jaxpr, values, frames)

        index, *operands = inputs
        branches = [branch(jaxpr) for jaxpr in eqn.params["branches"]]
        results: Sequence[Any] = jax.lax.switch(index, branches, operands)
        return list(results)

    def shard_map(self, eqn: Any, inputs: Sequence[Any], frames: Frames) -> list[Any]:
        """Evaluates a `shard_map` over the same axes."""
        params = eqn.params
        mapped: Callable[..., Sequence[Any]] = jax.shard_map(
            lambda *values: self.evaluate(params["jaxpr"], values, frames),
            mesh=params["mesh"],
            in_specs=tuple(params["in_specs"]),
            out_specs=list(params["out_specs"]),
            axis_names=set(manual_axes(params)),
            check_vma=params["check_vma"],
        )
        return list(mapped(*inputs))


_INSIDE: Mapping[str, Callable[..., list[Any]]] = {
    "call": Widened.call,
    "scan": Widened.scan,
    "while": Widened.while_loop,
    "cond": Widened.cond,
    "shard_map": Widened.shard_map,
    "custom_linear_solve": Widened.solve,
}

_TYPES = frozenset({"new_dtype", "dtype", "preferred_element_type", "out_dtype", "accumulation_dtype"})
"""Parameters of primitives that are types of results."""

_LEFT_OUT = frozenset({"debug_callback", "debug_print"})
"""Primitives that print and compute nothing."""

CALLBACKS = frozenset({"pure_callback", "io_callback"})
"""Primitives that call a function of the user in this process."""

_OF_BITS = frozenset({"bitcast_convert_type", "nextafter"})
"""Primitives whose meaning depends on the bits of their operands."""

_OPAQUE = frozenset(
    {
        *CALLBACKS, "pallas_call", "ffi_call", "call_exported", "xla_call_module",
        "custom_partitioning", "random_gamma", "rng_uniform", "tpu_custom_call", "scaled_matmul",
        "scaled_matmul_wrapper", "dot_product_attention_fwd_wrapper", "dot_product_attention_bwd_wrapper",
    }
)  # fmt: skip
"""Primitives without a wider form: kernels, calls of other libraries, and samplers that draw other bits for another type."""


def is_float(dtype: Any) -> bool:
    """Reports whether a type is floating-point or complex."""
    return bool(jnp.issubdtype(dtype, jnp.inexact))


def is_widened(aval: Any) -> bool:
    """Reports whether the values of an abstract value are widened."""
    return hasattr(aval, "dtype") and is_float(aval.dtype)


def wide_type(dtype: Any) -> np.dtype[Any]:
    """Returns the 64-bit type of a floating-point or complex type."""
    return np.dtype(np.complex128 if jnp.issubdtype(dtype, jnp.complexfloating) else np.float64)


def widened(value: Any) -> Any:
    """Returns a floating-point or complex array with 64-bit values, and any other value as it is."""
    dtype = getattr(value, "dtype", None)
    if dtype is None or not is_float(dtype) or dtype == wide_type(dtype):
        return value
    return jax.lax.convert_element_type(value, wide_type(dtype))


def literal(atom: Any) -> Any:
    """Returns the value of a literal, rounded to its own type and then widened."""
    value = np.asarray(atom.val, dtype=atom.aval.dtype)
    return value.astype(wide_type(value.dtype)) if is_float(value.dtype) else value


def narrowed(value: Any, aval: Any) -> Any:
    """Returns a value with the type that it has in the program."""
    return jax.lax.convert_element_type(value, aval.dtype) if is_widened(aval) else value


def is_finite(values: Any) -> Any:
    """Reports which elements are finite, from their bits: fast-math flags remove other tests."""
    if jnp.issubdtype(values.dtype, jnp.complexfloating):
        return is_finite(jnp.real(values)) & is_finite(jnp.imag(values))
    bits, exponent, _ = _parts(values)
    return (bits & exponent) != exponent


def _is_nan(values: Any) -> Any:
    bits, exponent, fraction = _parts(values)
    return ((bits & exponent) == exponent) & ((bits & fraction) != 0)


def _parts(values: Any) -> tuple[Any, Any, Any]:
    """Returns the bits of floating-point numbers, and the masks of exponent and fraction."""
    if values.dtype.itemsize == 1:
        values = values.astype(jnp.float32)
    about: Any = jnp.finfo(values.dtype)  # type: ignore[no-untyped-call]
    unsigned = np.dtype(f"uint{about.bits}")
    masks = ((1 << about.nexp) - 1) << about.nmant, (1 << about.nmant) - 1
    exponent, fraction = (np.asarray(mask, unsigned) for mask in masks)
    return jax.lax.bitcast_convert_type(values, unsigned), exponent, fraction


def _tests_for_nan(eqn: Any) -> bool:
    """Reports whether an equation is `x != x`, which is `jnp.isnan`."""
    if eqn.primitive.name != "ne":
        return False
    left, right = eqn.invars
    return left is right and bool(jnp.issubdtype(left.aval.dtype, jnp.floating))


def _at_own_width(eqn: Any, inputs: Sequence[Any]) -> list[Any]:
    own = [narrowed(value, v.aval) for value, v in zip(inputs, eqn.invars, strict=True)]
    return [widened(each) for each in bind(eqn, own)]


def _narrows(eqn: Any) -> bool:
    """Reports whether an equation quantizes to a type of at most 8 bits, which is its purpose."""
    return any(is_widened(v.aval) and v.aval.dtype.itemsize <= 1 for v in eqn.outvars)
