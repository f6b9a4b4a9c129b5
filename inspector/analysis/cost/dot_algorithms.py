"""The arithmetic of a matrix product: the chip's peak that applies, and the number of passes.

XLA's choice follows from the operands' types and the product's precision: an algorithm (`xla_data.proto`,
`PrecisionConfig.Algorithm`), or a precision of each operand. GPUs round f32 operands to tf32 unless the precision is
`highest`. TPUs compute f32 products as one, three or six products of bf16 parts, and those of other types as in `_passes`;
libtpu writes the algorithms `BF16_BF16_F32_X3` and `_X6` as the precisions `high` and `highest`. The products in a Pallas
kernel may have several algorithms.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping

from inspector.compilation.cost import InstructionCost
from inspector.compilation.kernels.costs import KERNEL
from inspector.compilation.library_costs import LIBRARIES
from inspector.errors import Unavailable
from inspector.hlo.backend_config import product_precision
from inspector.hlo.fused_instructions import Fused
from inspector.hlo.module import Instruction, Module
from inspector.platforms import Peak

_PRODUCTS = frozenset({"dot", "convolution", "ragged-dot"})
_CALLED_PRODUCTS = ("__cudnn$conv", "__cublas$gemm", "__cublas$lt$matmul", KERNEL, *LIBRARIES)
_PARTS = {"bf16": (1, 1, 1), "f16": (1, 2, 2), "f32": (1, 2, 3)}
"""bf16 parts into which TPUs split an operand, by its type and precision: default, high, highest."""
_HIGHEST = 2
_PRECISIONS = {"DEFAULT": 0, "HIGH": 1, "HIGHEST": _HIGHEST}
_UNSET = "ALG_UNSET"
_COMPLEX = {"c64": "f32", "c128": "f64"}


@dataclasses.dataclass(frozen=True, slots=True)
class Algorithm:
    """The arithmetic of a matrix product.

    Attributes:
      peak_name: name of the chip's peak that applies.
      passes: number of operations at that peak per operation of the product.
      doubt: reason why it may take longer; "" if there is none.
    """

    peak_name: str
    passes: int = 1
    doubt: str = ""

    def __str__(self) -> str:
        return self.peak_name + (f" x {self.passes}" if self.passes > 1 else "")


def products(module: Module) -> Fused:
    """Returns the matrix products of a module, including calls of linear algebra libraries and Pallas kernels for TPUs."""
    return Fused(module, [*module.columns.rows_of(_PRODUCTS.__contains__), *module.calls_to(_CALLED_PRODUCTS)])


def algorithm_of(product: Instruction, peak: Peak) -> Algorithm | Unavailable:
    """Returns the arithmetic of a product on a chip; Unavailable if no known peak applies."""
    named, precisions = _precision(product)
    if named:
        return _named(named, peak)
    left, right = (operand.shape.element_type for operand in product.operands[:2])
    kinds = {left, right}
    if len(kinds) == 2 and kinds <= {*_PARTS} and len({*precisions}) == 1 and _has_parts(peak):
        return Algorithm("bf16", _passes(left, right, precisions[0]))
    algorithms = {by_type(kind, precision, peak) for kind in kinds for precision in precisions}
    known = [each for each in algorithms if isinstance(each, Algorithm)]
    if not known or len(known) < len(algorithms):
        return next(each for each in algorithms if isinstance(each, Unavailable))
    if len(known) == 1:
        return known[0]
    fastest = max(known, key=lambda each: peak.flops_per_s[each.peak_name] / each.passes)
    return dataclasses.replace(fastest, doubt="its operands differ in type or precision")


def product_flops(
    product: Instruction, costs: Mapping[str, InstructionCost], peak: Peak
) -> list[tuple[Algorithm | Unavailable, float | Unavailable]]:
    """Returns the FLOPs of a product by arithmetic.

    Without its body, a Pallas kernel has the FLOPs that it declares, at the chip's fastest peak.

    Args:
      product: one of `products`.
      costs: costs of each instruction (`compilation.cost.costs`).
      peak: the chip's figures.
    """
    cost = costs[product.name]
    if cost.body is not None:
        return [(by_type(kind, precision, peak), flops) for kind, precision, flops in cost.body.products]
    if product.custom_call_target.startswith(LIBRARIES):
        kind = product.operands[0].shape.element_type
        return [(by_type(_COMPLEX.get(kind, kind), _HIGHEST, peak), cost.flops)]
    if product.custom_call_target != KERNEL:
        return [(algorithm_of(product, peak), cost.flops)]
    fastest = max(peak.flops_per_s, key=lambda name: peak.flops_per_s[name])
    return [(Algorithm(fastest, doubt="the precision of its products is unknown"), cost.flops)]


def main_algorithm(
    products: Iterable[Instruction], costs: Mapping[str, InstructionCost], peak: Peak
) -> Algorithm | Unavailable:
    """Returns the arithmetic of most operations in a module's products; that of f32 if it has none."""
    flops: collections.Counter[Algorithm | Unavailable] = collections.Counter()
    for product in products:
        for algorithm, known in product_flops(product, costs, peak):
            flops[algorithm] += 0 if isinstance(known, Unavailable) else int(known)
    return flops.most_common(1)[0][0] if flops else by_type("f32", 0, peak)


def _precision(product: Instruction) -> tuple[str, tuple[int, ...]]:
    """Returns the algorithm's name, "" if none is set, and the precision of each operand, 0 to 2."""
    if product.opcode == "custom-call" and (config := product_precision(product)):
        names = [str(name) for name in config.get("operand_precision", ())]
        algorithm = str(config.get("algorithm", _UNSET))
        return _short_name(algorithm), tuple(_PRECISIONS.get(name, 0) for name in names) or (0,)
    proto = product.proto
    if not proto.HasField("precision_config"):
        return "", (0,)
    message = proto.precision_config
    name = message.DESCRIPTOR.fields_by_name["algorithm"].enum_type.values_by_number[message.algorithm].name
    return _short_name(name), tuple(min(int(p), _HIGHEST) for p in message.operand_precision) or (0,)


def _short_name(algorithm: str) -> str:
    return "" if algorithm == _UNSET else algorithm.removeprefix("ALG_DOT_")


def _named(name: str, peak: Peak) -> Algorithm | Unavailable:
    """Reads an algorithm's name such as `BF16_BF16_F32_X3`: types of the operands and of the sum, and number of passes."""
    parts = name.lower().split("_")
    kind = "f8" if "f8" in parts else parts[0]
    passes = int(parts[-1][1:]) if parts[-1].startswith("x") else 1
    return Algorithm(kind, passes) if kind in peak.flops_per_s else _no_peak(name, peak)


def by_type(kind: str, precision: int, peak: Peak) -> Algorithm | Unavailable:
    """Returns the arithmetic of a product of operands of a type, in HLO's notation, at a precision from 0 to 2."""
    peaks = peak.flops_per_s
    if kind in _COMPLEX:
        real = by_type(_COMPLEX[kind], precision, peak)
        doubt = "a complex product takes three or four real ones"
        return real if isinstance(real, Unavailable) else Algorithm(real.peak_name, 3 * real.passes, doubt)
    if kind == "f32" and "tf32" in peaks and precision < _HIGHEST:
        return Algorithm("tf32")
    if kind == "f32" and _has_parts(peak):
        return Algorithm("bf16", _passes(kind, kind, precision))
    name = "f8" if kind.startswith("f8") else {"u8": "s8"}.get(kind, kind)
    if name in peaks:
        return Algorithm(name)
    if name in ("f8", "f16", "f64") and "bf16" in peaks:  # wider than bf16, or converted to it first
        passes = _passes(kind, kind, precision) if kind in _PARTS and _has_parts(peak) else 1
        return Algorithm("bf16", passes, doubt=f"the {peak.chip} has no known peak for {kind}")
    if name == "f64" and "f32" in peaks:
        return Algorithm(
            "f32", 2, doubt=f"the {peak.chip} has no known peak for f64, which is assumed to take twice the time"
        )
    return Algorithm("f32") if name == "bf16" and "f32" in peaks else _no_peak(kind, peak)


def _has_parts(peak: Peak) -> bool:
    """Reports whether a chip computes wide products as several products of bf16 parts, as TPUs do."""
    return "f32" not in peak.flops_per_s and "tf32" not in peak.flops_per_s and "bf16" in peak.flops_per_s


def _passes(left: str, right: str, precision: int) -> int:
    """Returns the number of products of bf16 parts of two operands.

    It is that of libtpu's cycles: products of two small parts are left out, so that it is 1, 3 and 6 for f32.
    """
    counts = _PARTS[left][precision], _PARTS[right][precision]
    return sum(i + j < max(counts) for i in range(counts[0]) for j in range(counts[1]))


def _no_peak(kind: str, peak: Peak) -> Unavailable:
    return Unavailable(f"the {peak.chip} has no known peak for {kind}, only for {', '.join(peak.flops_per_s)}")
