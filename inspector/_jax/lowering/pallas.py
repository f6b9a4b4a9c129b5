"""Pallas kernels in a jaxpr: the arguments of each `pallas_call` and `pl.kernel`.

_Facts are dicts of plain values, with the fields of `inspector.hlo.pallas` as keys. This module imports nothing of
Pallas: a program with a kernel in its jaxpr has already imported it.

Private JAX: the parameters of the primitives `pallas_call` (`GridMapping`, `BlockMapping`, `DebugInfo`), `mpmd_map`
(its meshes) and `run_scoped`; `core.jaxprs_in_params`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import core

from inspector._jax.lowering.index_maps import evaluate_index_map
from inspector._jax.lowering.jaxprs import open_jaxpr
from inspector._jax.lowering.pallas_params import backend_of, plain, plain_params

_Facts = dict[str, Any]


def kernel_equations(jaxpr: Any) -> list[Any]:
    """Returns the equations that call kernels, in program order; those of a jaxpr that is called several times appear once."""
    return [eqn for eqn, _ in kernels_with_arguments(jaxpr)]


def kernels_with_arguments(jaxpr: Any) -> list[tuple[Any, list[str]]]:
    """Returns the same equations, each with the names of its inputs as arguments of the functions around it; "" for others."""
    return list(_kernels_in(open_jaxpr(jaxpr), (), set()))


def _kernels_in(jaxpr: Any, given: Sequence[str], seen: set[int]) -> Iterator[tuple[Any, list[str]]]:
    """Yields the kernels of a jaxpr; `given` are the names of its arguments where it is called, if they are known."""
    if id(jaxpr) in seen:
        return
    seen.add(id(jaxpr))
    own = jaxpr.debug_info.safe_arg_names(len(jaxpr.invars))
    arguments = [str(name) or outer for name, outer in zip(own, given or [""] * len(own), strict=True)]
    names = dict(zip(map(id, jaxpr.invars), arguments, strict=True))
    for eqn in jaxpr.eqns:
        passed = [names.get(id(variable), "") for variable in eqn.invars]
        if eqn.primitive.name in CALLS:
            yield eqn, passed
            continue
        for inner in map(open_jaxpr, core.jaxprs_in_params(eqn.params)):
            yield from _kernels_in(inner, passed if len(inner.invars) == len(passed) else (), seen)


_CORE_CALL = "mpmd_map"  # the primitive of `pl.kernel`
CALLS = ("pallas_call", _CORE_CALL)
"""Primitives that call a kernel."""


def kernel_name(eqn: Any) -> str:
    """Returns the name that the user gave the kernel, or the name of its function."""
    return str(eqn.params["name"] or _body(eqn).debug_info.func_name)


def grid_rank(eqn: Any) -> int:
    """Returns the number of dimensions of a kernel's grid."""
    return len(_mesh(eqn).shape if eqn.primitive.name == _CORE_CALL else eqn.params["grid_mapping"].grid)


def input_count(eqn: Any) -> int:
    """Returns the number of inputs of a kernel."""
    return len(eqn.invars) if eqn.primitive.name == _CORE_CALL else eqn.params["grid_mapping"].num_inputs


def _body(eqn: Any) -> Any:
    """Returns the kernel's jaxpr; the first one if `pl.kernel` runs several on different cores."""
    return open_jaxpr(eqn.params["jaxprs"][0]) if eqn.primitive.name == _CORE_CALL else eqn.params["jaxpr"]


def _mesh(eqn: Any) -> Any:
    return eqn.params["meshes"][0]


def kernel_facts(eqn: Any, arguments: Sequence[str], max_steps: int) -> _Facts:
    """Returns one kernel as the fields of a `Kernel`, without its number, origins and overridden parameters.

    Args:
      eqn: the equation.
      arguments: names of its inputs where it is called, which are clearer than those of `*args` in the kernel.
      max_steps: maximum number of grid steps whose block indices are computed.
    """
    params, body = eqn.params, _body(eqn)
    names = _clear_names(body.debug_info.safe_arg_names(len(body.invars)), arguments)
    find = _core_facts if eqn.primitive.name == _CORE_CALL else _grid_facts
    return {
        "name": kernel_name(eqn),
        "function": body.debug_info.func_src_info,
        "scoped": _scoped(body),
        "cost": _cost(params["cost_estimate"]),
        "backend": own_backend(eqn),
        "params": plain_params(params["compiler_params"]),
        "interpret": bool(params["interpret"]),
        **find(eqn, names, max_steps),
    }


def _clear_names(names: Sequence[str], arguments: Sequence[str]) -> list[str]:
    """Returns the names of a kernel's parameters; those of `*args` are named after the arguments, if these differ."""
    clear = [_by_argument(str(name), arguments[i] if i < len(arguments) else "") for i, name in enumerate(names)]
    return [name if clear.count(name) == 1 else str(names[i]) for i, name in enumerate(clear)]


def _by_argument(name: str, argument: str) -> str:
    return argument if name.endswith("]") and argument and not argument.endswith("]") else name


def _grid_facts(eqn: Any, names: Sequence[str], max_steps: int) -> _Facts:
    """Returns the grid, blocks and scratch buffers of a `pallas_call`."""
    mapping = eqn.params["grid_mapping"]
    grid = tuple(size if isinstance(size, int) else None for size in mapping.grid)
    first_block, first_scratch = mapping.num_index_operands, mapping.num_index_operands + len(mapping.block_mappings)
    return {
        "grid": grid,
        "operands": [
            _operand(block, names[first_block + i], "input" if i < mapping.num_inputs else "output", grid, max_steps)
            for i, block in enumerate(mapping.block_mappings)
        ],
        "prefetch": [_scratch(aval, names[i]) for i, aval in enumerate(mapping.index_map_avals[len(mapping.grid) :])],
        "scratch": [_scratch(aval, names[first_scratch + i]) for i, aval in enumerate(mapping.scratch_avals)],
        "aliases": tuple((i - first_block, o) for i, o in eqn.params["input_output_aliases"]),
        "vmapped": tuple(mapping.vmapped_dims),
    }


def _core_facts(eqn: Any, names: Sequence[str], max_steps: int) -> _Facts:
    """Returns the whole arrays of a `pl.kernel`, and its grid, which is the mesh of cores."""
    mesh, avals = _mesh(eqn), [v.aval for v in _body(eqn).invars]
    grid = tuple(int(size) for size in mesh.shape.values())
    inputs, outputs = len(eqn.invars), len(eqn.invars) + len(eqn.outvars)
    semantics = getattr(mesh, "dimension_semantics", None) or ("parallel",) * len(grid)
    return {
        "grid": grid,
        "operands": [
            _whole(_scratch(aval, names[i]), "input" if i < inputs else "output", min(math.prod(grid), max_steps))
            for i, aval in enumerate(avals[:outputs])
        ],
        "prefetch": [],
        "scratch": [_scratch(aval, names[outputs + i]) for i, aval in enumerate(avals[outputs:])],
        "aliases": tuple((int(i), int(o)) for i, o in dict(eqn.params["input_output_aliases"]).items()),
        "vmapped": (),
        "core_type": str(plain(getattr(mesh, "core_type", ""))).lower(),
        "cores": tuple(
            (str(axis), size, str(plain(how)))
            for axis, size, how in zip(mesh.shape, grid, semantics, strict=True)
        ),
    }  # fmt: skip


def _whole(array: _Facts, role: str, steps: int) -> _Facts:
    """Returns an operand that is whole in every step."""
    shape = array["shape"]
    return {
        **array,
        "origin": "",
        "role": role,
        "dimensions": [{"kind": "blocked", "size": size, "padding": (0, 0)} for size in shape],
        "index_map": "",
        "index_bytes": bytes(4 * steps * max(1, len(shape))),
    }


def _scoped(jaxpr: Any) -> list[_Facts]:
    """Returns the scratch buffers that a body allocates with `pl.run_scoped`; of alternative allocations, the larger ones."""
    most: list[_Facts] = []
    for eqn in jaxpr.eqns:
        inner = [_scoped(open_jaxpr(j)) for j in core.jaxprs_in_params(eqn.params)]
        largest = max(inner, key=_scoped_bits, default=[])
        if eqn.primitive.name == "run_scoped":
            scoped = open_jaxpr(eqn.params["jaxpr"])
            names = scoped.debug_info.safe_arg_names(len(scoped.invars))
            largest = [_scratch(v.aval, name) for v, name in zip(scoped.invars, names, strict=True)] + largest
        most = max(most, largest, key=_scoped_bits)
    return most


def _scoped_bits(allocations: Sequence[_Facts]) -> tuple[int, int]:
    bits = sum(math.prod(a["shape"]) * a["element_bits"] for a in allocations if a["memory_space"] == "vmem")
    return bits, len(allocations)


def own_backend(eqn: Any) -> str | None:
    """Returns the backend of a kernel's compiler parameters or mesh of cores; None without either."""
    backend = backend_of(eqn.params["compiler_params"])
    return backend_of(_mesh(eqn)) if backend is None and eqn.primitive.name == _CORE_CALL else backend


def _cost(estimate: Any) -> dict[str, int] | None:
    if estimate is None:
        return None
    return {name: int(getattr(estimate, name)) for name in ("flops", "transcendentals", "bytes_accessed")}


def _operand(block: Any, name: str, role: str, grid: tuple[int | None, ...], max_steps: int) -> _Facts:
    aval = block.transformed_block_aval
    buffered = getattr(block.pipeline_mode, "buffer_count", None)
    return {
        "name": name,
        "origin": str(block.origin),
        "role": role,
        "shape": tuple(int(s) for s in block.array_aval.shape),
        "dtype": _dtype(block.array_aval.dtype),
        "element_bits": _bits(block.array_aval.dtype),
        "dimensions": [_dimension(d) for d in block.block_shape],
        "memory_space": _memory_space(aval),
        "index_map": str(block.index_map_jaxpr),
        "index_bytes": evaluate_index_map(block.index_map_jaxpr, grid, len(block.block_shape), max_steps),
        "buffer_count": buffered if isinstance(buffered, int) else None,
    }


def _dimension(dimension: Any) -> _Facts:
    """Describes a block dimension by the name of its class, which is public in Pallas; the class itself is not imported here."""
    kind = type(dimension).__name__.lower()
    size = getattr(dimension, "block_size", getattr(dimension, "size", 1))
    padding = tuple(getattr(dimension, "padding", (0, 0)) or (0, 0))
    return {
        "kind": kind if kind in ("blocked", "element", "squeezed") else "other",
        "size": int(size) if isinstance(size, (int, np.integer)) else 1,
        "padding": padding,
    }


def _scratch(aval: Any, name: str) -> _Facts:
    inner = getattr(aval, "inner_aval", aval)
    return {
        "name": name,
        "shape": tuple(int(s) for s in getattr(inner, "shape", ())),
        "dtype": _dtype(getattr(inner, "dtype", None)),
        "element_bits": _bits(getattr(inner, "dtype", None)),
        "memory_space": _memory_space(aval),
    }


def _memory_space(aval: Any) -> str:
    space = getattr(aval, "memory_space", None)
    space = getattr(space, "memory_space", space)  # a memory space of one core
    return "default" if space is None else str(getattr(space, "value", space)).lower()


def _dtype(dtype: Any) -> str:
    return "" if dtype is None else str(dtype)


def _bits(dtype: Any) -> int:
    """Returns the bits per element, 0 for semaphores and other non-numeric types."""
    if dtype is None or jnp.issubdtype(dtype, jax.dtypes.extended):
        return 0
    if dtype == np.bool_:
        return 32  # Mosaic stores booleans as 32-bit words
    for kind, info in ((jnp.floating, jnp.finfo), (jnp.integer, jnp.iinfo)):
        if jnp.issubdtype(dtype, kind):
            describe: Any = info  # untyped
            bits: int = describe(dtype).bits
            return bits
    return int(np.dtype(dtype).itemsize) * 8
