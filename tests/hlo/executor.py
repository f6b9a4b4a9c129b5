"""Executes collectives on 8 virtual CPU devices and tells what every device ended up with.

A process of its own, because the hook that puts replica groups into a module is global to a process.
Reads one JSON request a line from standard input, answers one JSON line each:

    {"do": "shard_map", "names", "sizes", "devices", "axes"}      all_gather of device ids under jax.shard_map
    {"do": "groups", "groups", "group_size", "placeholder", "replicas", "partitions", "attributes"}
        an all-gather of device ids with exactly these groups (HLO text of the attribute)
    {"do": "collective", "primitive", "names", "sizes", "devices", "axes", "index_groups", "pairs", "lengths", "length"}
        one collective of jax.lax in nested scans, of `length` values `1000 * position + index` on each device
    {"do": "operation", "hlo", "replicas", "partitions"}          any module of one s32 parameter and result

Answers hold "observed" (by device: replica * partitions + partition) and "module" (base64 of the
optimized HloModuleProto), or "error".
"""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Callable
from typing import Any

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import numpy as np
from jax import lax
from jax.extend import xla as hooks
from jax.extend.backend import get_compile_options
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxlib import _hlo, _jax
from jaxlib import xla_client as xc

from inspector.toolchain.schema import installed_schema

_MODULE: Any = installed_schema().message("xla.HloModuleProto")
_DEVICES = jax.devices()
_FORMS = ("replica_groups", "collective_device_list", "iota_collective_device_list", "mesh_axes_replica_group_list")

# The all-gather whose groups the hook puts into the module being compiled; None leaves modules alone.
_wanted: Any = None


def put_groups(data: bytes) -> bytes | None:
    """The hook: replaces the all-gather's groups, late enough that no pass rewrites them."""
    if _wanted is None:
        return None
    module = _MODULE.FromString(data)
    for instruction in (i for c in module.computations for i in c.instructions if i.opcode == "all-gather"):
        for form in _FORMS:
            instruction.ClearField(form)
            if form == "replica_groups":
                instruction.replica_groups.extend(_wanted.replica_groups)
            elif _wanted.HasField(form):
                getattr(instruction, form).CopyFrom(getattr(_wanted, form))
    return bytes(module.SerializeToString())


def gather_hlo(group_size: int, groups: str, attributes: str) -> str:
    return f"""HloModule gather
ENTRY main {{
  x = s32[1]{{0}} parameter(0), sharding={{manual}}
  ROOT r = s32[{group_size}]{{0}} all-gather(x), dimensions={{0}}, replica_groups={groups}, sharding={{manual}}{attributes}
}}"""


def as_proto(hlo: str) -> Any:
    return _MODULE.FromString(_hlo.hlo_module_from_text(hlo).as_serialized_hlo_module_proto())


def execute(hlo: str, replicas: int, partitions: int) -> dict[str, Any]:
    """Runs a module on device ids 0, 1, 2, ... (blocks of the parameter's length)."""
    count = replicas * partitions
    proto = as_proto(hlo)
    stablehlo = _jax.mlir.hlo_to_stablehlo(proto.SerializeToString())
    options = get_compile_options(
        replicas, partitions, device_assignment=np.arange(count).reshape(replicas, partitions)
    )
    options.executable_build_options.use_spmd_partitioning = True
    devices = _DEVICES[:count]
    executable = devices[0].client.compile_and_load(stablehlo, xc.DeviceList(tuple(devices)), options)
    entry = next(c for c in proto.computations if c.id == proto.entry_computation_id)
    length = next(i for i in entry.instructions if i.opcode == "parameter").shape.dimensions[0]
    argument = jax.device_put(
        np.arange(count * length, dtype=np.int32), NamedSharding(Mesh(np.array(devices), ("d",)), P("d"))
    )
    shards = executable.execute_sharded([argument]).disassemble_into_single_device_arrays()[0]
    return answer([np.asarray(shard).tolist() for shard in shards], executable.hlo_modules()[0])


def answer(observed: list[list[int]], module: _hlo.HloModule) -> dict[str, Any]:
    data = base64.b64encode(module.as_serialized_hlo_module_proto()).decode()
    return {"observed": observed, "module": data}


def shard_map(names: list[str], sizes: list[int], devices: list[int], axes: list[str]) -> dict[str, Any]:
    mesh = Mesh(np.array(_DEVICES)[devices].reshape(sizes), tuple(names))
    spec = P(tuple(names))
    gather = jax.shard_map(
        lambda x: lax.all_gather(x, tuple(axes), tiled=True), mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False
    )
    ids = jax.device_put(np.array(devices, np.int32), NamedSharding(mesh, spec))
    compiled = jax.jit(gather).lower(ids).compile()
    by_device = {shard.device.id: np.asarray(shard.data).tolist() for shard in compiled(ids).addressable_shards}
    return answer([by_device[device] for device in range(len(devices))], compiled.runtime_executable().hlo_modules()[0])


def collective(
    primitive: str,
    names: list[str],
    sizes: list[int],
    devices: list[int],
    axes: list[str],
    index_groups: list[list[int]] | None,
    pairs: list[list[int]],
    lengths: list[int],
    length: int,
) -> dict[str, Any]:
    of_one = {"axis_index_groups": index_groups}
    named = axes[0] if index_groups or len(axes) == 1 else tuple(axes)
    apply: dict[str, Callable[[Any], Any]] = {
        "psum": lambda x: lax.psum(x, named, **of_one),
        "pmean": lambda x: lax.pmean(x, named),
        "all_gather": lambda x: lax.all_gather(x, named, **of_one).reshape(-1),
        "all_gather_tiled": lambda x: lax.all_gather(x, named, tiled=True, **of_one),
        "psum_scatter": lambda x: lax.psum_scatter(x, named, tiled=True, **of_one),
        "all_to_all": lambda x: lax.all_to_all(x, named, 0, 0, tiled=True, **of_one),
        "ppermute": lambda x: lax.ppermute(x, named, pairs),
    }

    def nested(depth: int, x: Any) -> Any:
        if depth == len(lengths):
            return apply[primitive](x)

        def body(carry: Any, factor: Any) -> tuple[Any, Any]:
            return carry + 1, nested(depth + 1, x * factor + carry)  # so that no round is that of another

        return lax.scan(body, np.float32(0), np.ones(lengths[depth], np.float32))[1][0]

    mesh = Mesh(np.array(_DEVICES)[devices].reshape(sizes), tuple(names))
    spec = P(tuple(names))
    mapped = jax.shard_map(lambda x: nested(0, x), mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    values = (1000 * np.arange(len(devices))[:, None] + np.arange(length)).astype(np.float32).reshape(-1)
    array = jax.device_put(values, NamedSharding(mesh, spec))
    compiled = jax.jit(mapped).lower(array).compile()
    by_device = {shard.device.id: np.asarray(shard.data).tolist() for shard in compiled(array).addressable_shards}
    return answer([by_device[device] for device in devices], compiled.runtime_executable().hlo_modules()[0])


def groups(
    groups: str, group_size: int, placeholder: str, replicas: int, partitions: int, attributes: str
) -> dict[str, Any]:
    global _wanted
    wanted = as_proto(gather_hlo(group_size, groups, attributes))
    _wanted = next(i for c in wanted.computations for i in c.instructions if i.opcode == "all-gather")
    try:
        return execute(gather_hlo(group_size, placeholder, attributes), replicas, partitions)
    finally:
        _wanted = None


_ANSWERS: dict[str, Callable[..., dict[str, Any]]] = {
    "shard_map": shard_map,
    "collective": collective,
    "groups": groups,
    "operation": execute,
}


def main() -> None:
    hooks.register_hlo_module_transformation(put_groups, name="put_groups", platforms="cpu")
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = _ANSWERS[request.pop("do")](**request)
        except Exception as e:  # reported to the test that asked
            reply = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
