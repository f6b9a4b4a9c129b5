"""The detectors of findings. A line for each kind."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from inspector.analysis.findings.detectors.arithmetic.float64 import float64
from inspector.analysis.findings.detectors.arithmetic.highest_precision import highest_precision
from inspector.analysis.findings.detectors.arithmetic.padding import padding
from inspector.analysis.findings.detectors.arithmetic.product_as_sum import product_as_sum
from inspector.analysis.findings.detectors.arithmetic.sort_for_top_k import sort_for_top_k
from inspector.analysis.findings.detectors.arithmetic.transposed_argument import transposed_argument
from inspector.analysis.findings.detectors.arithmetic.upcast_product import upcast_product
from inspector.analysis.findings.detectors.collectives.exposed_communication import exposed_communication
from inspector.analysis.findings.detectors.collectives.invariant_collective import invariant_collective
from inspector.analysis.findings.detectors.collectives.manual_ring import manual_ring
from inspector.analysis.findings.detectors.collectives.small_collectives import small_collectives
from inspector.analysis.findings.detectors.collectives.wide_collective import wide_collective
from inspector.analysis.findings.detectors.host.callback_in_loop import callback_in_loop
from inspector.analysis.findings.detectors.host.unrolled_blocks import unrolled_blocks
from inspector.analysis.findings.detectors.memory.block_traffic import block_traffic
from inspector.analysis.findings.detectors.memory.copied_result import copied_result
from inspector.analysis.findings.detectors.memory.full_rewrite import full_rewrite
from inspector.analysis.findings.detectors.memory.large_constant import large_constant
from inspector.analysis.findings.detectors.memory.over_memory import over_memory
from inspector.analysis.findings.detectors.memory.recomputed import recomputed
from inspector.analysis.findings.detectors.memory.scan_residuals import scan_residuals
from inspector.analysis.findings.detectors.memory.unaligned_blocks import unaligned_blocks
from inspector.analysis.findings.detectors.memory.undonated import undonated
from inspector.analysis.findings.detectors.memory.unused_argument import unused_argument
from inspector.analysis.findings.detectors.memory.wide_storage import wide_storage
from inspector.analysis.findings.detectors.sharding.axis_order import axis_order
from inspector.analysis.findings.detectors.sharding.replicated_argument import replicated_argument
from inspector.analysis.findings.detectors.sharding.resharded_argument import resharded_argument
from inspector.analysis.findings.detectors.sharding.resharding import resharding
from inspector.analysis.findings.detectors.sharding.uneven_shards import uneven_shards
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.subject import Subject


@dataclasses.dataclass(frozen=True, slots=True)
class Detector:
    """A kind of finding.

    Attributes:
      kind: its name.
      finds: what it finds, for the documentation and the command line.
      find: returns its findings in a program.
    """

    kind: str
    finds: str
    find: Callable[[Subject], Iterable[Finding]]


DETECTORS: tuple[Detector, ...] = (
    Detector("over-memory", "a peak that does not fit into the device", over_memory),
    Detector("undonated", "state that is returned updated, but not donated", undonated),
    Detector("upcast-product", "matrix products of operands converted to a wider type", upcast_product),
    Detector("large-constant", "large arrays that the function closes over", large_constant),
    Detector("callback-in-loop", "callbacks to the host in a loop", callback_in_loop),
    Detector("product-as-sum", "sums of elementwise products that are matrix products", product_as_sum),
    Detector("padding", "product dimensions just above a multiple of the matrix unit", padding),
    Detector("highest-precision", "products at a higher precision than the default", highest_precision),
    Detector("sort-for-top-k", "sorts of which only the first or last values are used", sort_for_top_k),
    Detector("full-rewrite", "arrays that are written as a whole though a slice changes", full_rewrite),
    Detector("transposed-argument", "arguments that each execution transposes first", transposed_argument),
    Detector("float64", "64-bit floats in a program with narrower arguments", float64),
    Detector("recomputed", "products recomputed in the backward pass while memory has room", recomputed),
    Detector(
        "invariant-collective", "collectives of data that the loop around them does not change", invariant_collective
    ),
    Detector("replicated-argument", "large arguments that could be split over one more axis", replicated_argument),
    Detector("scan-residuals", "values that a loop keeps for its backward pass", scan_residuals),
    Detector("copied-result", "results that are copies of an argument or of another result", copied_result),
    Detector("unused-argument", "large arguments that the program does not use", unused_argument),
    Detector("block-traffic", "Pallas kernels that copy the same blocks again and again", block_traffic),
    Detector("unaligned-blocks", "Pallas kernels whose arrays are mostly padding", unaligned_blocks),
    Detector("wide-storage", "arrays stored in a wider float type than their values need", wide_storage),
    Detector("unrolled-blocks", "equal blocks that a Python loop repeats", unrolled_blocks),
    Detector("resharded-argument", "arguments in another sharding than their only use needs", resharded_argument),
    Detector("exposed-communication", "collectives that independent work could hide", exposed_communication),
    Detector("small-collectives", "many small collectives that could be one", small_collectives),
    Detector("wide-collective", "collectives that send a wider float type than their values need", wide_collective),
    Detector("manual-ring", "rings of permutes that one collective replaces", manual_ring),
    Detector("uneven-shards", "dimensions that are split over more devices than divide them", uneven_shards),
    Detector("axis-order", "devices of a mesh in an order that makes its collectives slow", axis_order),
    Detector("resharding", "shardings that are changed by whole copies, or changed and changed back", resharding),
)

KINDS = tuple(detector.kind for detector in DETECTORS)
