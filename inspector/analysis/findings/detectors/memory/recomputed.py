"""Work that `jax.checkpoint` repeats in the backward pass, on a device with room for the values that it would keep."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.analysis.cost.dot_algorithms import products
from inspector.analysis.findings.edits import TraceAgain
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.subject import Subject
from inspector.compilation.tuning import WhatIf
from inspector.errors import Unavailable
from inspector.hlo.source import line_text, phases
from inspector.support.units import counted, format_bytes

KIND = "recomputed"
# Of the time of the recomputed products: other kernels are fused in another way if their values are kept, and a program for
# several devices may exchange more.
_LEAST_SAVED, _LEAST_SAVED_SPLIT = 0.25, 0.6
_ROOM = 0.8  # of the device's memory, after the values are kept
# Moves of each value that is kept. In a loop it is written, read, and the stacked array is filled with zeros first. TPUs
# otherwise fuse a product with the operations that read it. GPUs write it in any case, and only read it once more.
_MOVES, _MOVES_OF_GPUS = 3, 1
_REMEDY = "jax.checkpoint(f, policy=jax.checkpoint_policies.dots_saveable)  # keeps the products"


def recomputed(subject: Subject) -> Iterator[Finding]:
    """Yields one finding for the products that the program recomputes, if their results fit into the device's memory."""
    peak = subject.roofline.peak
    if isinstance(peak, Unavailable) or isinstance(peak.memory_bytes, Unavailable) or not subject.peak_bytes:
        return
    kernels, kept, moved = dict[str, None](), 0.0, 0.0
    is_gpu = subject.compiled.program.platform == "gpu"
    for product in products(subject.module).instructions:
        kernel = subject.kernels.kernel(product)
        if kernel is None or phases(product.op_name) != ("recomputed",):
            continue
        kernels[kernel] = None
        runs = subject.points[kernel].executions
        if isinstance(runs, Unavailable):
            return
        size = float(runs) * product.shape.byte_size
        kept += size
        moved += size * (_MOVES_OF_GPUS if is_gpu and runs == 1 else _MOVES)
    after, spent = subject.peak_bytes + kept, subject.seconds(kernels)
    if not kernels or after > _ROOM * peak.memory_bytes or isinstance(spent, Unavailable) or not spent:
        return
    saved = 1 - moved / peak.memory_bytes_per_s / spent
    if saved < (_LEAST_SAVED if subject.compiled.program.device_count == 1 else _LEAST_SAVED_SPLIT):
        return
    frames = next((f for name in kernels if (f := subject.module.instruction(name).frames)), ())
    place = f", the first in {line_text(frames, is_short=True)}," if frames else ""
    title = (
        f"{counted(len(kernels), 'kernel')} with products{place} repeat{'s' if len(kernels) == 1 else ''} the forward pass for the"
        f" backward pass, though the results fit into memory: {format_bytes(after)} of {format_bytes(peak.memory_bytes)}."
    )
    yield subject.finding(
        KIND, title, _REMEDY, instructions=kernels, frames=frames, saved_part=saved, gain_bytes=-int(kept),
        caution=f"It costs up to {format_bytes(kept)}. Keep it if the batch is going to grow.",
        edits=(TraceAgain(WhatIf(checkpoint="dots_saveable")),),
    )  # fmt: skip
