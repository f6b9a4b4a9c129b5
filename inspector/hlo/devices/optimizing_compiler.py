"""Finds signs of the compiler that optimized an HLO module, and whether one did."""

from __future__ import annotations

from inspector.hlo.module import Module
from inspector.hlo.reading.field_numbers import BACKEND_CONFIG

_PARTITIONED_ENTRY = "_spmd"
_FUSIONS = frozenset({"fusion"})

# Words in the backend config of an instruction that only one compiler writes.
_CONFIGS = {
    "gpu": (b"fusion_backend_config", b"gemm_backend_config", b"cudnn_conv_backend_config", b"operation_queue_id",
            b"collective_backend_config", b"reification_cost"),
    "tpu": (b"window_config", b"flag_configs", b"scoped_memory_configs", b"used_scoped_memory_configs", b"aliasing_operands"),
    "cpu": (b"outer_dimension_partitions", b"onednn_"),
}  # fmt: skip
_TARGETS = {
    "gpu": ("__cublas$", "__cudnn$", "__cub$", "__triton", "__gpu$"),
    "tpu": ("tpu_custom_call", "ResizeNearest", "AllocateBuffer"),
    "cpu": ("__onednn$", "__cpu$"),
}


def is_optimized(module: Module) -> bool:
    """Reports whether a compiler has optimized a module: it has a schedule, fusions or the entry of XLA's partitioner."""
    return (
        bool(module.columns.module.HasField("schedule"))
        or module.entry.name.endswith(_PARTITIONED_ENTRY)
        or bool(module.columns.rows_of(_FUSIONS.__contains__))
    )


def platform_of(module: Module) -> str | None:
    """Returns the platform whose compiler optimized a module, from names that only it writes; None if there are none."""
    configs = module.columns.coded(BACKEND_CONFIG).values
    found = {
        platform for platform, words in _CONFIGS.items() if any(word in config for config in configs for word in words)
    }
    for platform, prefixes in _TARGETS.items():
        if module.calls_to(prefixes):
            found.add(platform)
    if any(leaf.layout and leaf.layout.tiles for shape in module.known_shapes for leaf in shape.leaves):
        found.add("tpu")  # the other compilers write no tiles
    return found.pop() if len(found) == 1 else None
