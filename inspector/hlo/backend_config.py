"""Parts of instructions' backend configs that have the same meaning on several backends."""

from __future__ import annotations

import base64
import dataclasses
import functools
import json
import re
from collections.abc import Mapping
from typing import Any

from inspector.errors import Unavailable
from inspector.hlo.module import Instruction


@dataclasses.dataclass(frozen=True, slots=True)
class CollectiveAlgorithm:
    """The algorithm that libtpu chose for a collective.

    Attributes:
      emitter: libtpu's name of the code generator, such as "1DAllGatherOnMajorDim" or "RotatedPincerEmitter".
      strategy: libtpu's name of the route, such as "UniDirectionNDRingStrategy"; "" if it has none.
      colors: number of parts of the data that take separate routes at the same time; 0 if not recorded.
      ring_sizes: number of devices in each phase of the first route; () if not recorded.
    """

    emitter: str
    strategy: str = ""
    colors: int = 0
    ring_sizes: tuple[int, ...] = ()

    def __str__(self) -> str:
        return self.strategy or self.emitter


def collective_algorithm(instruction: Instruction) -> CollectiveAlgorithm | Unavailable:
    """Returns the algorithm of a collective, if the TPU compiler recorded it. Permutes have none."""
    if b"collective_algorithm_config" not in (config := instruction.backend_config):
        return _NO_ALGORITHM
    noted = _noted(config).get("collective_algorithm_config")
    if not isinstance(noted, Mapping) or not isinstance(noted.get("emitter"), str):
        return _NO_ALGORITHM
    strategy, details = str(noted.get("strategy", "")), str(noted.get("debug", ""))
    colors, rings = _COLORS.search(details), _RING_SIZES.search(details)
    sizes = tuple(int(size) for size in rings[1].split()) if rings else ()
    return CollectiveAlgorithm(noted["emitter"], strategy, int(colors[1]) if colors else 0, sizes)


def known_trip_count(loop: Instruction) -> int | Unavailable:
    """Returns the trip count of a `while`, if XLA recorded it."""
    noted = _noted(loop.backend_config).get("known_trip_count")
    if isinstance(noted, Mapping) and str(noted.get("n", "")).isdecimal():
        return int(noted["n"])
    return Unavailable(f"the trip count of {loop.name} is known only at run time")


def estimated_cycles(instruction: Instruction) -> int | Unavailable:
    """Returns the TPU compiler's estimate of the cycles of one execution, for operations that it splits into windows."""
    window = _noted(instruction.backend_config).get("window_config")
    if isinstance(window, Mapping) and str(window.get("estimated_cycles", "")).isdecimal():
        return int(window["estimated_cycles"])
    return _NO_CYCLES


def declared_costs(call: Instruction) -> Mapping[str, float] | None:
    """Returns the cost estimate that a Pallas TPU kernel declares, or None.

    The keys are `flops`, `transcendentals` and `bytes_accessed`.
    """
    noted = _noted(call.backend_config).get("custom_call_config")
    estimate = noted.get("cost_estimate") if isinstance(noted, Mapping) else None
    if not isinstance(estimate, Mapping):
        return None
    numbers = {name: str(estimate.get(name, "0")) for name in ("flops", "transcendentals", "bytes_accessed")}
    if not all(text.isdecimal() and len(text) <= _MOST_DIGITS for text in numbers.values()):
        return None
    costs = {name: float(text) for name, text in numbers.items()}
    return costs if any(costs.values()) else None


def kernel_body(call: Instruction) -> bytes | None:
    """Returns the body of a TPU kernel, which is MLIR bytecode from Pallas or text from libtpu; None if there is none."""
    noted = _noted(call.backend_config).get("custom_call_config")
    body = noted.get("body") if isinstance(noted, Mapping) else None
    if not isinstance(body, str):
        return None
    try:
        return base64.b64decode(body, validate=True)
    except ValueError:
        return None


def vmem_scratch_bytes(instruction: Instruction) -> int | Unavailable:
    """Returns the bytes of vector memory that a TPU instruction uses in addition to its operands and results."""
    size = _vmem_bytes(instruction, "used_scoped_memory_configs")
    return _NO_SCRATCH if size is None else size


def vmem_limit_bytes(call: Instruction) -> int:
    """Returns the limit of the vector memory that a Pallas TPU kernel sets itself; 0 if it sets none."""
    return _vmem_bytes(call, "scoped_memory_configs") or 0


def _vmem_bytes(instruction: Instruction, field: str) -> int | None:
    """Returns the sum of the sizes in vector memory that a field of the backend config lists; None without the field."""
    scopes = _noted(instruction.backend_config).get(field)
    if not isinstance(scopes, list):
        return None
    return sum(int(s.get("size", 0)) for s in scopes if isinstance(s, Mapping) and s.get("memory_space") == _VMEM)


def product_dimensions(call: Instruction) -> dict[str, list[int]]:
    """Returns the contracting and batch dimensions of a cuBLAS call, by field of `xla.DotDimensionNumbers`; else {}."""
    noted = _gemm(call.backend_config).get("dot_dimension_numbers")
    if not isinstance(noted, Mapping):
        return {}
    return {name: [int(number) for number in noted[name]] for name in _DIMENSIONS if name in noted}


def product_precision(call: Instruction) -> Mapping[str, Any]:
    """Returns the `xla.PrecisionConfig` of a cuBLAS call, as JSON; else {}."""
    noted = _gemm(call.backend_config).get("precision_config")
    return noted if isinstance(noted, Mapping) else {}


def _gemm(config: bytes) -> Mapping[str, Any]:
    noted = _noted(config).get("gemm_backend_config")
    return noted if isinstance(noted, Mapping) else {}


_NO_ALGORITHM = Unavailable("only the TPU compiler records the algorithm of a collective")
_COLORS = re.compile(r"\bcolors:(\d{1,4})\b")
_RING_SIZES = re.compile(r"\bcores:\{([\d ]{1,64})\}")
_VMEM = "1"
_MOST_DIGITS = 19  # of 64 bits
_DIMENSIONS = (
    "lhs_contracting_dimensions", "rhs_contracting_dimensions", "lhs_batch_dimensions", "rhs_batch_dimensions",
)  # fmt: skip
_NO_SCRATCH = Unavailable("only the TPU compiler records it")
_NO_CYCLES = Unavailable("only the TPU compiler estimates cycles, and only for operations that it splits into windows")


@functools.lru_cache(maxsize=4096)
def _noted(config: bytes) -> Mapping[str, Any]:
    if not config.startswith(b"{"):
        return {}
    try:
        noted = json.loads(config)
    except ValueError:  # not every backend writes JSON
        return {}
    return noted if isinstance(noted, dict) else {}
