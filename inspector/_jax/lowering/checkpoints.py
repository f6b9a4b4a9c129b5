"""Changes the checkpoints of a function while JAX traces it: removes them, gives them a policy, or adds one to each loop.

`jax.checkpoint` and `jax.lax.scan` bind one primitive each, with the function inside as a jaxpr, before JAX differentiates it.
So the changes are made where the primitives are bound, and apply to checkpoints in libraries too.

Private JAX: `ad_checkpoint.remat_p`, `loops.scan_p`, `core.eval_jaxpr`, `core.new_jaxpr_eqn`, `core.Var`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax._src import ad_checkpoint, core
from jax._src.lax.control_flow import loops

from inspector._jax.lowering.equations import scan_counts
from inspector._jax.lowering.jaxprs import open_jaxpr
from inspector._jax.lowering.separate_traces import separate_traces
from inspector.support.segments import segment_length

_ONE_AT_A_TIME = threading.RLock()  # the primitives belong to the process


@contextlib.contextmanager
def changed_checkpoints(how: str) -> Iterator[None]:
    """Returns a context in which this thread traces functions with other checkpoints.

    Args:
      how: "none" removes checkpoints; "loops" adds one to the body of each `jax.lax.scan`; "segments" splits each long one into loops with a
        checkpoint each; the name of one of `jax.checkpoint_policies` gives each checkpoint that policy; "" changes nothing.
    """
    if not how:
        yield
        return
    of_loops = {"loops": _bind_scan, "segments": _bind_segments}
    primitive, bind = (
        (loops.scan_p, of_loops[how]) if how in of_loops else (ad_checkpoint.remat_p, _bind_checkpoint(how))
    )
    with _ONE_AT_A_TIME, separate_traces(f"checkpoint: {how}"):
        before: _Bind = primitive.bind
        own = vars(primitive).get("bind")
        thread = threading.get_ident()

        def bound(*args: Any, **params: Any) -> Any:
            changes = threading.get_ident() == thread
            return bind(before, *args, **params) if changes else before(*args, **params)

        primitive.bind = bound  # type: ignore[method-assign]
        try:
            yield
        finally:
            if own is None:
                del primitive.bind
            else:
                primitive.bind = own  # type: ignore[method-assign]


_Bind = Callable[..., Any]


def _bind_checkpoint(how: str) -> _Bind:
    """Returns a replacement for binding a checkpoint."""
    policy = None if how == "none" else getattr(jax.checkpoint_policies, how)

    def bind(before: _Bind, *args: Any, jaxpr: Any, differentiated: bool, **params: Any) -> Any:
        if differentiated:  # of a derivative, whose values were chosen before
            return before(*args, jaxpr=jaxpr, differentiated=differentiated, **params)
        if how == "none":
            return core.eval_jaxpr(open_jaxpr(jaxpr), getattr(jaxpr, "consts", ()), *args)
        return before(*args, jaxpr=jaxpr, differentiated=differentiated, **params | {"policy": policy})

    return bind


class _InSegment(int):
    """Marks the loops of segments by their `unroll`. JAX passes it on to the loops that it derives from them, so that they are not split again."""


def _bind_segments(before: _Bind, *args: Any, jaxpr: Any, length: int, **params: Any) -> Any:
    """Binds a long loop as a loop over segments of it, each of which is a checkpoint."""
    size = segment_length(length)
    if size == 1 or isinstance(params["unroll"], _InSegment):
        return before(*args, jaxpr=jaxpr, length=length, **params)
    inside = params | {"unroll": _InSegment(params["unroll"])}
    constants, carried = scan_counts(params)
    rest = args[constants:]
    consts, start, xs = args[:constants], [*rest[:carried]], rest[carried:]

    @jax.checkpoint
    def segment(carry: Any, xs: Any) -> Any:
        results = before(*consts, *carry, *xs, jaxpr=jaxpr, length=size, **inside)
        return [*results[:carried]], results[carried:]

    parts = [x.reshape(length // size, size, *x.shape[1:]) for x in xs]
    end, ys = jax.lax.scan(
        segment, start, parts, length=length // size, reverse=params["reverse"], unroll=_InSegment(1)
    )
    return [*end, *(y.reshape(length, *y.shape[2:]) for y in ys)]


def _bind_scan(before: _Bind, *args: Any, jaxpr: Any, **params: Any) -> Any:
    """Binds a loop whose body is a checkpoint, unless it has one already."""
    body = open_jaxpr(jaxpr)
    if not body.constvars and not any(eqn.primitive is ad_checkpoint.remat_p for eqn in body.eqns):
        inputs, outputs = ([core.Var(each.aval) for each in each] for each in (body.invars, body.outvars))
        inside = {"jaxpr": body, "prevent_cse": True, "differentiated": False, "policy": None}
        equation = core.new_jaxpr_eqn(inputs, outputs, ad_checkpoint.remat_p, inside, body.effects)
        whole = body.replace(invars=inputs, outvars=outputs, eqns=[equation])
        jaxpr = whole if body is jaxpr else jaxpr.replace(jaxpr=whole)
    return before(*args, jaxpr=jaxpr, **params)
