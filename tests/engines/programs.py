"""Programs for engine tests, lowered by JAX alone, so that engines are tested without `lowering/`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax
from jax._src.interpreters import mlir
from jax._src.sharding_impls import UnspecifiedValue
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxlib import _hlo, _jax

from inspector._jax.lowering.callbacks import host_callbacks
from inspector.compilation.options.options import Options
from inspector.compilation.program import Argument, Program, Result
from inspector.hlo.devices.mesh import Mesh


def theirs(compiled: Any) -> str:
    """The text of JAX's `Compiled` as after MLIR's bytecode, which keeps no end of a place that begins in column 0."""
    return re.sub(r"(?<= column=0 end_column=)\d+", "0", compiled.as_text())


def lower(fun: Callable[..., Any], *args: Any, **jit: Any) -> Program:
    """A `Program` for the CPU, with the build options that JAX itself would use."""
    lowered = jax.jit(fun, **jit).trace(*args).lower(lowering_platforms=("cpu",))
    return as_program(lowered, mesh_of(args))


def as_program(lowered: Any, mesh: Mesh | None = None) -> Program:
    """A `Program` from JAX's `Lowered`."""
    compile_args = lowered._lowering.compile_args
    kept = sorted(compile_args["kept_var_idx"])
    infos = jax.tree.leaves(lowered.args_info)
    arguments = tuple(
        Argument(f"x{i}", tuple(a.shape), _name(a.dtype), kept.index(i) if i in kept else None, a.donated)
        for i, a in enumerate(infos)
    )
    results = tuple(Result("", tuple(r.shape), _name(r.dtype)) for r in jax.tree.leaves(lowered.out_info))
    tokens = (False,) * len(compile_args["ordered_effects"])
    options = Options(
        num_replicas=1,
        num_partitions=compile_args["num_devices"],
        use_spmd_partitioning=True,
        use_shardy_partitioner=True,
        allow_spmd_sharding_propagation_to_parameters=tokens + _free(compile_args["in_shardings"]),
        allow_spmd_sharding_propagation_to_output=tokens + _free(compile_args["out_shardings"]),
    )
    callbacks = tuple(compile_args["host_callbacks"])
    module = lowered._lowering.stablehlo()
    return Program(
        name=str(module.operation.attributes["sym_name"]).strip('"'),
        module=mlir.module_to_bytecode(module),
        arguments=arguments,
        results=results,
        options=options,
        mesh=mesh,
        platform="cpu",
        host_callbacks=bool(callbacks),
        callbacks=host_callbacks(callbacks, compile_args["keepalive"]),
    )


def mesh_of(args: Any) -> Mesh | None:
    """The abstract mesh of the first sharded argument."""
    for a in jax.tree.leaves(args):
        sharding = getattr(a, "sharding", None)
        if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, AbstractMesh):
            return Mesh(tuple(sharding.mesh.axis_names), tuple(sharding.mesh.axis_sizes), "partition")
    return None


def _free(shardings: Any) -> tuple[bool, ...]:
    return tuple(isinstance(s, UnspecifiedValue) for s in shardings)


def _name(dtype: Any) -> str:
    return str(dtype) if jax.dtypes.issubdtype(dtype, jax.dtypes.extended) else np.dtype(dtype).name


REPLICAS = """HloModule jit_replicas
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a,b)
}
ENTRY main {
  x = f32[2] parameter(0)
  y = f32[2] parameter(1)
  m = f32[2] multiply(x,y)
  r = f32[2] all-reduce(m), replica_groups={}, to_apply=add
  id = u32[] replica-id()
  ROOT t = (f32[2],f32[2],u32[]) tuple(r,m,id)
}"""


def replicas(count: int) -> Program:
    """A program for an axis environment of one axis: a sum over replicas, a product, the replica's id."""
    proto = _hlo.hlo_module_from_text(REPLICAS).as_serialized_hlo_module_proto()
    return Program(
        name="jit_replicas",
        module=_jax.mlir.hlo_to_stablehlo(proto),
        arguments=(Argument("x", (2,), "float32", 0), Argument("y", (2,), "float32", 1)),
        results=(Result("0", (2,), "float32"), Result("1", (2,), "float32"), Result("2", (), "uint32")),
        options=Options(num_replicas=count, use_spmd_partitioning=True, use_shardy_partitioner=True),
        mesh=Mesh(("i",), (count,), "replica"),
        platform="cpu",
    )


def sharded_step() -> tuple[Callable[..., Any], tuple[Any, ...], Callable[..., Any]]:
    """A function over an abstract 4x2 mesh, its arguments, and the same in NumPy."""
    mesh = AbstractMesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    specs = (P("x", "y"), P("y", None))

    def local(x: jax.Array, w: jax.Array) -> tuple[jax.Array, ...]:
        product = lax.psum(x @ w, "y")
        return product, lax.psum(product.sum(), "x"), lax.ppermute(x, "y", [(0, 1), (1, 0)])

    def numpy_step(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, ...]:
        return x @ w, (x @ w).sum(), np.roll(x, x.shape[1] // 2, axis=1)

    out_specs = (P("x", None), P(), P("x", "y"))
    fun = jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=out_specs, check_vma=False)
    args = tuple(
        jax.ShapeDtypeStruct(shape, np.float32, sharding=NamedSharding(mesh, s))
        for shape, s in zip(((16, 8), (8, 6)), specs, strict=True)
    )
    return fun, args, numpy_step


def random_inputs(args: Any) -> tuple[np.ndarray, ...]:
    """Arrays for arguments, normally distributed."""
    generator = np.random.default_rng(0)
    return tuple(generator.normal(size=a.shape).astype(a.dtype) for a in args)
