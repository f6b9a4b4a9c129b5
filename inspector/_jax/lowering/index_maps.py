"""Evaluates the index maps of Pallas kernels over a whole grid at once.

Most index maps only select some of the program ids, which needs no JAX. The others run as one vectorized
function on the CPU.

Private JAX: `core.Literal`, `core.eval_jaxpr`, `BlockMapping.index_map_jaxpr`.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
from jax._src import core

from inspector._jax.lowering.jaxprs import open_jaxpr
from inspector.errors import Unavailable


def evaluate_index_map(closed: Any, grid: Sequence[int | None], rank: int, max_steps: int) -> bytes | Unavailable:
    """Returns the block indices of the grid's first steps, row-major, as little-endian int32 `[steps, max(1, rank)]`.

    Args:
      closed: the index map's jaxpr, from program ids and scalar operands to block indices.
      grid: number of steps in each dimension.
      rank: number of dimensions of the array.
      max_steps: maximum number of grid steps to evaluate.
    """
    jaxpr = open_jaxpr(closed)
    sizes = [size for size in grid if size is not None]
    if len(sizes) < len(grid):
        return Unavailable("the grid has a dynamic dimension, whose size is known only at run time")
    if len(jaxpr.outvars) != rank:
        return Unavailable("the index map returns slices, not indices")
    scalars = jaxpr.invars[len(grid) :]
    read = {id(v) for eqn in jaxpr.eqns for v in eqn.invars}
    if any(id(v) in read for v in scalars):
        return Unavailable("the index map reads a scalar operand, whose values are known only at run time")
    steps = np.arange(min(math.prod(sizes), max_steps))
    ids = [c.astype(np.int32) for c in np.unravel_index(steps, sizes)] if sizes else []
    columns = _columns(closed, jaxpr, ids, len(steps), len(scalars))
    table = np.stack(columns, axis=1) if columns else np.zeros((len(steps), 1))
    return table.astype("<i4").tobytes()


def _columns(
    closed: Any, jaxpr: Any, ids: list[npt.NDArray[np.int32]], count: int, scalars: int
) -> list[npt.NDArray[np.integer[Any]]]:
    """Returns one array of block indices for each dimension."""
    if not jaxpr.eqns:
        known = dict(zip((id(v) for v in jaxpr.invars), ids, strict=False))
        known |= {
            id(v): np.full(count, c) for v, c in zip(jaxpr.constvars, getattr(closed, "consts", ()), strict=False)
        }
        return [np.full(count, v.val) if isinstance(v, core.Literal) else known[id(v)] for v in jaxpr.outvars]

    def one(*step: Any) -> Any:
        return core.eval_jaxpr(jaxpr, getattr(closed, "consts", ()), *step, *([0] * scalars))

    with _on_cpu():
        results = jax.jit(jax.vmap(one))(*ids) if ids else one()
        return [np.broadcast_to(np.asarray(result), (count,)) for result in results]


@contextlib.contextmanager
def _on_cpu() -> Iterator[None]:
    """Runs JAX on the CPU, since an accelerator may be busy; on the default device if JAX is configured without a CPU."""
    try:
        device = jax.local_devices(backend="cpu")[0]
    except RuntimeError:
        device = None
    with jax.default_device(device):
        yield
