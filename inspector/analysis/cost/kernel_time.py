"""The estimated time of one execution of a kernel: the longest of its times on the units of the chip.

Every view that shows the time of a kernel uses this module. The units work at the same time:

- The matrix unit computes the products, at the peak of their arithmetic (`analysis/cost/dot_algorithms.py`).
- The vector unit computes all other operations, and the transcendental unit the functions that XLA counts as transcendentals.
- Fourier transforms have a rate of their own on CPUs, because their data access is irregular.
- Sorts have a rate of their own on CPUs, where XLA sorts by calls of a comparator: n log2 n comparisons of n values along the
  sorted dimension, for each array, because all arrays move with the keys. A single array of numbers in their own order is sorted
  without calls.
- The main memory transfers the operands and results that are in it. A CPU serves a kernel from the smallest cache that
  all bytes of the kernel fit into. Reads with a stride have a lower rate there.
- On TPUs, registers are loaded from and stored to VMEM, wherever the operands and results are. Asynchronous copies
  bypass the registers. For a Pallas kernel, the loads and stores in its body count.
- CPUs have work in addition to counted operations and bytes (`analysis/cost/cpu_work.py`): packed operands and padding of
  products, chained operations, transposed reads, indices, and first writes to new memory, for which all units wait.
- PCIe transfers the operands and results in the memory of the host, in one direction at a time.
- On TPUs, the compiler estimates the cycles of most kernels, including overhead that the other times lack. They replace
  the operations of a reduce-window, which XLA counts for each element of a window, and which take fewer steps.

The rates and their sources are in `platforms.Peak`. The vector unit of a chip without a published rate is assumed to be as
fast as the matrix unit; all other units without a rate take no time.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Literal

from inspector.analysis.cost.cpu_work import CpuWork
from inspector.analysis.cost.dot_algorithms import Algorithm, product_flops
from inspector.analysis.cost.matrix_unit import NO_PRODUCT, filled, mean_filled
from inspector.compilation.cost import InstructionCost
from inspector.compilation.library_costs import TOP_K
from inspector.errors import About, Missing, Unavailable, missing
from inspector.hlo.backend_config import estimated_cycles
from inspector.hlo.fused_instructions import Fused
from inspector.hlo.module import Instruction, Module
from inspector.platforms import Peak, Rate

Unit = Literal[
    "matrix unit", "vector unit", "transcendental unit", "Fourier transforms", "comparisons", "chained operations", "main memory", "cache", "VMEM", "PCIe", "compiler's cycles", "links", "none"
]  # fmt: skip
"""A limit of a kernel's time; "none" for a kernel that neither computes nor moves data."""

COMPUTING: tuple[Unit, ...] = (
    "matrix unit",
    "vector unit",
    "transcendental unit",
    "Fourier transforms",
    "comparisons",
    "chained operations",
)
"""The units that compute."""

_MOVING: tuple[Unit, ...] = ("main memory", "cache", "VMEM", "PCIe")
CYCLES: Unit = "compiler's cycles"
"""The unit of a kernel whose time follows from the compiler's estimate of its cycles."""


@dataclasses.dataclass(frozen=True, slots=True)
class KernelTime:
    """The estimated time of one execution of a kernel.

    Attributes:
      units: known seconds on each unit that the kernel uses.
      unit: the unit with the longest time.
      source: source of that unit's rate; "" if there is none.
      compute_s: the longest time on a computing unit, in seconds; Unavailable if the operations are unknown.
      memory_s: the longest time in a memory, in seconds; Unavailable if the bytes are unknown. The larger of `compute_s` and
        `memory_s` is the time of the kernel: it includes the time that follows from the compiler's cycles.
      algorithm: arithmetic of the matrix products, joined by " + " if there are several; "" if there are none.
      filled: upper bound for the share of the matrix unit that the products use.
    """

    units: Mapping[Unit, float]
    unit: Unit
    source: str
    compute_s: float | Unavailable
    memory_s: float | Unavailable
    algorithm: str = ""
    filled: float | Unavailable = NO_PRODUCT

    @property
    def seconds(self) -> float | Unavailable:
        """The time of the kernel; `About` if a part is unknown, Unavailable if its operations or bytes are."""
        if isinstance(self.compute_s, Unavailable):
            return self.compute_s
        if isinstance(self.memory_s, Unavailable):
            return self.memory_s
        return _with_doubts(max(self.compute_s, self.memory_s), (*missing(self.compute_s), *missing(self.memory_s)))


ON_LINKS = KernelTime({}, "none", "", 0.0, 0.0)
"""The time of a collective, without its time on the links."""


class KernelTimes:
    """The times of a module's kernels. Equal kernels are computed once."""

    def __init__(self, module: Module, products: Fused, costs: Mapping[str, InstructionCost], peak: Peak) -> None:
        """Stores the arguments.

        Args:
          module: the optimized HLO.
          products: the matrix products of the module (`dot_algorithms.products`).
          costs: costs of each instruction (`compilation.cost.costs`).
          peak: the chip's figures.
        """
        self._products, self._costs, self._peak = products, costs, peak
        self._windows = Fused(module, module.columns.rows_of("reduce-window".__eq__))
        self._cpu = CpuWork(module, peak) if isinstance(peak.strided, Rate) else None
        self._kinds: list[int] = module.alike.kinds.tolist()
        self._known: dict[tuple[int, int], KernelTime] = {}

    def of(self, kernel: Instruction) -> KernelTime:
        """Returns the time of one execution of a kernel, without communication."""
        cost = self._costs[kernel.name]
        key = self._kinds[kernel.row], id(cost)
        known = self._known.get(key)
        if known is None:
            known = self._time(kernel, cost)
            if not _names_parts(known):
                self._known[key] = known
        first_writes_s = self._cpu.first_writes_s(kernel) if self._cpu is not None else 0.0
        return _delayed(known, first_writes_s) if first_writes_s else known

    def _time(self, kernel: Instruction, cost: InstructionCost) -> KernelTime:
        peak, products = self._peak, [*self._products.of(kernel)]
        units: dict[Unit, float] = {}
        cycles_s = _by_cycles(kernel, peak)
        compute_s, algorithm = _computed(
            kernel, products, self._windows if cycles_s else None, self._costs, peak, self._cpu, units
        )
        memory_s = _moved(kernel, cost, peak, self._cpu, units)
        full = _filled(products, self._costs, peak.matrix_unit)
        if isinstance(compute_s, Unavailable) or isinstance(memory_s, Unavailable):
            return KernelTime(units, "none", "", compute_s, memory_s, algorithm, full)
        if cycles_s:
            units[CYCLES] = cycles_s
            if cycles_s > compute_s > memory_s:
                compute_s = _with_doubts(cycles_s, missing(compute_s))
            elif cycles_s > memory_s >= compute_s:
                memory_s = _with_doubts(cycles_s, missing(memory_s))
        unit = max(units, key=lambda each: units[each])
        unit = unit if units[unit] else "none"
        return KernelTime(units, unit, _source(unit, kernel, peak), compute_s, memory_s, algorithm, full)


def _delayed(time: KernelTime, seconds: float) -> KernelTime:
    """Returns a time with the seconds for which all units wait for new pages."""

    def later(known: float | Unavailable) -> float | Unavailable:
        return known if isinstance(known, Unavailable) else _with_doubts(float(known) + seconds, missing(known))

    units = {unit: known + seconds for unit, known in time.units.items()}
    return dataclasses.replace(time, units=units, compute_s=later(time.compute_s), memory_s=later(time.memory_s))


def _names_parts(known: KernelTime) -> bool:
    return any(not isinstance(part, Unavailable) and missing(part) for part in (known.compute_s, known.memory_s))


def _computed(
    kernel: Instruction,
    products: Sequence[Instruction],
    uncounted: Fused | None,
    costs: Mapping[str, InstructionCost],
    peak: Peak,
    cpu: CpuWork | None,
    units: dict[Unit, float],
) -> tuple[float | Unavailable, str]:
    """Returns the longest time on a computing unit and the arithmetic of the matrix products. Adds the times to `units`.

    Operations of `uncounted` instructions take no time. A CPU also has the additional work of `cpu`.
    """
    cost = costs[kernel.name]
    whole, functions = cost.flops, cost.transcendentals
    if isinstance(whole, Unavailable):
        return whole, ""
    counted = [(p, a, f) for p in products for a, f in product_flops(p, costs, peak)]
    known = [(p, a, float(f)) for p, a, f in counted if isinstance(a, Algorithm) and not isinstance(f, Unavailable)]
    rest = float(whole) - sum(float(f) for _, _, f in counted if not isinstance(f, Unavailable))
    for each in uncounted.of(kernel) if uncounted is not None else ():
        flops = costs[each.name].flops
        rest -= 0.0 if isinstance(flops, Unavailable) else float(flops)
    if products:
        executed = [(a, f if cpu is None else cpu.executed_flops(p, f)) for p, a, f in known]
        units["matrix unit"] = sum(f * a.passes / peak.flops_per_s[a.peak_name] for a, f in executed)
        units["matrix unit"] += sum(map(cpu.packing_s, products)) if cpu is not None else 0.0
    transforms = _per_s(peak.transforms)
    if rest > 0 and kernel.opcode == "fft" and transforms:
        units["Fourier transforms"] = rest / transforms
    elif (
        rest > 0
        and (kernel.opcode == "sort" or kernel.custom_call_target == TOP_K)
        and (comparisons := _comparison_rate(kernel, peak)) is not None
    ):
        units["comparisons"] = comparisons_of(kernel) / comparisons.per_s
    elif rest > 0:
        units["vector unit"] = rest / (_per_s(peak.vector) or max(peak.flops_per_s.values()))
    if cpu is not None and (chained_s := cpu.chained_s(kernel)):
        units["chained operations"] = chained_s
    doubts = [*missing(whole)]
    if not isinstance(functions, Unavailable) and (rate := _per_s(peak.transcendental)):
        units["transcendental unit"] = (
            float(functions) if cpu is None else cpu.exponentials(kernel, float(functions))
        ) / rate
    if len(known) < len(counted) or any(a.doubt for _, a, _ in known):
        doubts.append(Missing(kernel.name, "kernel of partly known precision", "partly counted"))
    names = " + ".join(dict.fromkeys(str(a) for _, a, _ in known))
    return _with_doubts(max((units.get(unit, 0.0) for unit in COMPUTING), default=0.0), doubts), names


def _comparison_rate(sort: Instruction, peak: Peak) -> Rate | None:
    """Returns the rate of a sort's comparisons; None if it is unknown."""
    is_direct = (
        sort.opcode == "sort"
        and not sort.shape.is_tuple
        and sort.to_apply is not None
        and _is_comparison(sort.to_apply.root)
    )
    rate = peak.direct_comparisons if is_direct else peak.comparisons
    return None if isinstance(rate, Unavailable) else rate


def _is_comparison(root: Instruction) -> bool:
    """Reports whether the result of a comparator is one comparison of its arguments."""
    return root.opcode == "compare" and all(operand.opcode == "parameter" for operand in root.operands)


def comparisons_of(sort: Instruction) -> float:
    """Returns n log2 n for each sorted array and each row of n values; one for each element of a `TopK`."""
    if sort.custom_call_target == TOP_K:
        return float(math.prod(sort.operands[0].shape.dimensions))
    (dimension,) = sort.proto.dimensions or (0,)
    arrays = sort.shape.leaves
    return sum(math.prod(a.dimensions) * math.log2(max(2, a.dimensions[dimension])) for a in arrays)


def _moved(
    kernel: Instruction, cost: InstructionCost, peak: Peak, cpu: CpuWork | None, units: dict[Unit, float]
) -> float | Unavailable:
    """Returns the longest time in a memory. Adds the times to `units`.

    Args:
      kernel: the kernel.
      cost: its cost.
      peak: the chip's figures.
      cpu: the additional work of a CPU.
      units: seconds on each unit.
    """
    moved, everywhere = cost.main_memory_bytes, cost.bytes_accessed
    if cost.body is not None:
        everywhere = cost.body.vmem_bytes
    if isinstance(moved, Unavailable):
        return moved
    cache = next((each for each in peak.caches if moved <= each.byte_size), None)
    strided = cpu.strided_bytes(kernel) if cpu is not None else 0.0
    plain, runs_s = max(0.0, float(moved) - strided), cpu.runs_s(kernel) if cpu is not None else 0.0
    again = cpu.reread_bytes(kernel) if cpu is not None else 0.0
    holding = next((each for each in peak.caches if min(again, moved) <= each.byte_size), None)
    strided_per_s = (
        holding.strided_bytes_per_s or holding.bytes_per_s
        if holding is not None
        else _per_s(peak.strided) or peak.memory_bytes_per_s
    )
    delayed_s = strided / strided_per_s + runs_s
    if cache is not None:
        units["cache"] = plain / cache.bytes_per_s + delayed_s
    else:
        units["main memory"] = plain / peak.memory_bytes_per_s + delayed_s
    bypasses_registers = kernel.opcode.endswith("-start")
    if not bypasses_registers and not isinstance(everywhere, Unavailable) and (rate := _per_s(peak.vmem)):
        units["VMEM"] = float(everywhere) / rate
    doubts, on_host = [*missing(moved)], cost.host_bytes
    if not isinstance(on_host, Unavailable) and on_host:
        if rate := _per_s(peak.host):
            units["PCIe"] = float(on_host) / rate
        else:
            doubts.append(Missing(kernel.name, "copy to or from the host", "counted without PCIe"))
    return _with_doubts(max(units.get(unit, 0.0) for unit in _MOVING), doubts)


def _by_cycles(kernel: Instruction, peak: Peak) -> float:
    """Returns the seconds of the compiler's estimate; 0 if there is none."""
    rate = _per_s(peak.clock)
    cycles = estimated_cycles(kernel) if rate else 0
    return 0.0 if isinstance(cycles, Unavailable) or not rate else cycles / rate


def _source(unit: Unit, kernel: Instruction, peak: Peak) -> str:
    """Returns the source of the rate of a unit in a kernel."""
    rates = {
        "transcendental unit": peak.transcendental,
        "Fourier transforms": peak.transforms,
        "chained operations": peak.chained,
        "VMEM": peak.vmem,
        "vector unit": peak.vector,
        "PCIe": peak.host,
    }
    if unit == CYCLES:
        return f"estimated_cycles of libtpu at {_text(peak.clock)}"
    if unit == "none":
        return ""
    rate = _comparison_rate(kernel, peak) if unit == "comparisons" else rates.get(unit)
    return rate.source if isinstance(rate, Rate) else peak.source


def _text(clock: Rate | Unavailable) -> str:
    return clock.reason if isinstance(clock, Unavailable) else f"{clock.per_s / 1e9:.2f} GHz, {clock.source}"


def _per_s(rate: Rate | Unavailable) -> float:
    """Returns a rate; 0 if it is unknown."""
    return 0.0 if isinstance(rate, Unavailable) else rate.per_s


def _with_doubts(seconds: float, doubts: Sequence[Missing]) -> float:
    return About(float(seconds), doubts) if doubts else float(seconds)


def _filled(inside: Sequence[Instruction], costs: Mapping[str, InstructionCost], side: int) -> float | Unavailable:
    """Returns an upper bound for the share of the matrix unit that a kernel's products use, weighted by FLOPs."""
    found = [(filled(product, side), costs[product.name].flops) for product in inside]
    known = [
        (share, 0.0 if isinstance(flops, Unavailable) else float(flops))
        for share, flops in found
        if not isinstance(share, Unavailable) and flops
    ]
    if len(known) < len(found) or not known:
        return next((share for share, _ in found if isinstance(share, Unavailable)), NO_PRODUCT)
    return mean_filled(known)
