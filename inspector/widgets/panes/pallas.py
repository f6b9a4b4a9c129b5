"""The Pallas pane: grids and blocks, fast memory, compiler parameters and compiler errors of Pallas kernels."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from inspector.analysis.memory.tpu_errors import (
    KernelRefused,
    MemoryOverflow,
    advice,
    explain,
    explain_kernel,
    kernel_of,
)
from inspector.analysis.pallas.grid_walk import Visits, visits
from inspector.analysis.pallas.vmem import HOW_SURE, VMEM, VmemBudget, vmem_budget
from inspector.compilation.target import Target
from inspector.errors import Unavailable
from inspector.hlo.module import Module
from inspector.hlo.pallas import Operand, ParamField
from inspector.platforms import TPU
from inspector.stages.kernel import Kernel
from inspector.support.units import format_bytes, format_count
from inspector.widgets import messages
from inspector.widgets.cells import source_line
from inspector.widgets.messages import kernels as kernel_messages
from inspector.widgets.panes.framework.pane import Entry, Pane
from inspector.widgets.tuning import requested, write_value
from inspector.widgets.variants import Variant

# Limits for the grid steps and the blocks of an array that the browser receives: more than a user can follow.
_SHOWN_STEPS = 8192
_SHOWN_BLOCKS = 4096


class PallasPane(Pane):
    """Shows the Pallas kernels of each variant."""

    def kernels(self, variant: Variant, error: BaseException | None) -> Iterable[Entry]:
        """Returns all kernels of a variant's program, with the compiler's reason if it rejected one."""
        lowered = variant.lowered
        if lowered is None or not lowered.kernels:
            return []
        fields = [self.context.work().kernel_fields(kernel, lowered.program.platform) for kernel in lowered.kernels]
        # Before code generation, the optimized HLO reports that no kernel has memory.
        module = variant.compiled_now.module() if variant.state == "done" else None
        return [kernels_message(variant.number, lowered.kernels, fields, variant.target, error, module)]

    def answer(self, request: kernel_messages.TuneRequest) -> None:
        """Starts a variant whose kernels have other parameters or are interpreted."""
        self.context.later(lambda: self._tune(request))

    def _tune(self, request: kernel_messages.TuneRequest) -> None:
        reply = kernel_messages.Tuned(type="tuned", id=request["id"], variant=None, error=None)
        try:
            variant = self.context.variant(request["variant"])
            tuned = self.context.tune(*requested(request, variant, self.context.work()))
            reply["variant"] = tuned.number
        except Exception as error:  # user code can raise anything; shown next to the request
            reply["error"] = messages.error_of(error)
        self.context.publish(reply)


def kernels_message(
    variant: int,
    kernels: Sequence[Kernel],
    fields: Sequence[Sequence[ParamField]],
    target: Target,
    error: BaseException | None = None,
    module: Module | None = None,
) -> kernel_messages.Kernels:
    """Returns the message about the kernels of a variant's program.

    Args:
      variant: number of the variant.
      kernels: kernels of the program.
      fields: available compiler parameters of each kernel.
      target: target of the compile.
      error: error of the compile, if it failed.
      module: the optimized HLO, if it is available.
    """
    chip = chip_of(target)
    refused = refused_bytes(error, kernels)
    return kernel_messages.Kernels(
        type="kernels",
        variant=variant,
        rows=[
            _kernel(kernel, known, vmem_budget(kernel, chip, module, refused.get(kernel.number, 0)))
            for kernel, known in zip(kernels, fields, strict=True)
        ],
        trouble=None if error is None else _trouble(str(error), kernels, chip),
    )


def refused_bytes(error: BaseException | None, kernels: Sequence[Kernel]) -> dict[int, int]:
    """Returns the bytes that the compiler counted for a kernel that it rejected because of the memory limit, by kernel number."""
    overflow = None if error is None else explain(str(error))
    if not isinstance(overflow, MemoryOverflow) or (overflow.space, overflow.limit) != ("vmem", "scoped"):
        return {}
    kernel = kernel_of(overflow.kernel, kernels)
    return {} if kernel is None else {kernel.number: overflow.asked_bytes}


def chip_of(target: Target) -> str:
    """Returns the chip whose fast memory is the budget: the target's TPU, else the default TPU."""
    return target.chip if target.chip in VMEM else TPU.usual_chip


def _kernel(
    kernel: Kernel, fields: Sequence[ParamField], budget: VmemBudget | Unavailable
) -> kernel_messages.KernelMessage:
    ids = kernel.program_ids
    shown = 0 if isinstance(ids, Unavailable) else min(len(ids), _SHOWN_STEPS)
    operands = [_operand(o, v, shown) for o, v in zip(kernel.operands, visits(kernel), strict=True)]
    return kernel_messages.KernelMessage(
        number=kernel.number,
        name=kernel.name,
        function=kernel.function,
        source=source_line(kernel.origins[0].frames if kernel.origins else ()),
        grid=list(kernel.grid),
        semantics=list(kernel.dimension_semantics),
        step_count=None if isinstance(kernel.step_count, Unavailable) else kernel.step_count,
        steps_shown=min([shown, *(len(o["steps"]) for o in operands if not o["reason"])]),
        facts=_facts(kernel),
        operands=operands,
        memory=None if isinstance(budget, Unavailable) else _memory(budget),
        memory_reason=budget.reason if isinstance(budget, Unavailable) else "",
        params=[_param(kernel, field) for field in fields],
        interpret=kernel.interpret,
    )


def _memory(budget: VmemBudget) -> kernel_messages.KernelMemory:
    parts = [
        kernel_messages.KernelAllocation(
            name=a.name,
            what=f"{a.role}, {_shape(a.dtype, a.shape)}" + ("" if a.buffer_count else ", entirely in VMEM"),
            buffers=a.buffer_count,
            size_bytes=a.padded_bytes,
        )
        for a in budget.allocations
    ]
    if budget.own_bytes:
        own = kernel_messages.KernelAllocation(name="compiler", what="internal", buffers=1, size_bytes=budget.own_bytes)
        parts.append(own)
    return kernel_messages.KernelMemory(
        chip=budget.chip,
        allocations=parts,
        total_bytes=budget.total_bytes,
        limit_bytes=budget.limit_bytes,
        limit_source=budget.limit_source,
        capacity_bytes=budget.capacity_bytes,
        how_sure=HOW_SURE[budget.certainty],
        fits=None if isinstance(budget.fits, Unavailable) else budget.fits,
        verdict=budget.verdict,
        remark=budget.remark,
    )


def _operand(operand: Operand, visited: Visits | Unavailable, shown: int) -> kernel_messages.KernelOperand:
    known = None if isinstance(visited, Unavailable) else visited
    steps = [] if known is None else _shown_steps(known, shown)
    starts = [] if known is None else known.starts[: max(steps, default=-1) + 1].tolist()
    return kernel_messages.KernelOperand(
        name=operand.name,
        role=operand.role,
        shape=list(operand.shape),
        dtype=operand.dtype,
        block=", ".join(map(str, operand.dimensions)),
        block_shape=list(operand.block_shape),
        memory_space=operand.memory_space,
        index_map=operand.index_map,
        block_bytes=operand.block_bytes,
        starts=starts,
        steps=steps,
        revisited=[] if known is None else _indices(known.revisited, len(starts)),
        overlapping=[] if known is None else _indices(known.overlapping, len(starts)),
        copies=known.copy_count if known is not None and operand.is_windowed and known.is_whole else None,
        copied_bytes=known.copied_bytes if known is not None and operand.is_windowed and known.is_whole else None,
        remarks=[] if known is None else list(known.remarks),
        reason=visited.reason if isinstance(visited, Unavailable) else "",
    )


def _shown_steps(visited: Visits, shown: int) -> list[int]:
    """Returns the blocks of the first steps, up to the first block beyond the limit."""
    steps = visited.block_of_step[:shown]
    beyond = np.flatnonzero(steps >= _SHOWN_BLOCKS)
    listed: list[int] = steps[: beyond[0] if len(beyond) else None].tolist()
    return listed


def _indices(marks: Any, count: int) -> list[int]:
    if isinstance(marks, Unavailable):
        return []
    indices: list[int] = np.flatnonzero(marks[:count]).tolist()
    return indices


def _facts(kernel: Kernel) -> list[tuple[str, str]]:
    facts: list[tuple[str, str]] = [("backend", kernel.backend or "platform default")]
    if kernel.prefetch:
        facts.append(("scalar prefetch", ", ".join(f"{s.name} {_shape(s.dtype, s.shape)}" for s in kernel.prefetch)))
    if kernel.scratch:
        facts.append(
            ("scratch", ", ".join(f"{s.name} {_shape(s.dtype, s.shape)} in {s.memory_space}" for s in kernel.scratch))
        )
    if kernel.scoped:
        facts.append(
            ("scoped", ", ".join(f"{s.name} {_shape(s.dtype, s.shape)} in {s.memory_space}" for s in kernel.scoped))
        )
    if kernel.cores:
        mesh = ", ".join(f"{axis}={size}" for axis, size, _ in kernel.cores)
        facts.append(("cores", f"{mesh} ({kernel.core_type})" if kernel.core_type else mesh))
    if kernel.aliases:
        facts.append(("aliases", ", ".join(f"input {i} → output {o}" for i, o in kernel.aliases)))
    if kernel.vmapped:
        facts.append(("vmapped dimensions", ", ".join(map(str, kernel.vmapped))))
    if not isinstance(kernel.cost, Unavailable):
        cost = kernel.cost
        facts.append(
            ("cost estimate", f"{format_count(cost.flops, 'FLOP')}, {format_bytes(cost.bytes_accessed)} accessed")
        )
    return facts


def _shape(dtype: str, shape: Sequence[int]) -> str:
    return f"{dtype}[{','.join(map(str, shape))}]"


def _param(kernel: Kernel, field: ParamField) -> kernel_messages.KernelParam:
    value = dict(kernel.params).get(field.name, field.default)
    return kernel_messages.KernelParam(
        name=field.name,
        type=field.type,
        value=write_value(value),
        default=write_value(field.default),
        choices=[write_value(c) for c in field.choices],
        description=field.description,
        overridden=field.name in kernel.overridden,
        reason="" if field.available is True else str(field.available).removeprefix("unavailable: "),
    )


# ---------------------------------------------------------------- compiler errors


def _trouble(text: str, kernels: Sequence[Kernel], chip: str) -> kernel_messages.KernelTrouble | None:
    failure = explain_kernel(text)
    if failure is None:
        return None
    kernel = kernel_of(failure.kernel, kernels)
    number = None if kernel is None else kernel.number
    if isinstance(failure, KernelRefused):
        frames = failure.frames or (kernel.origins[0].frames if kernel is not None and kernel.origins else ())
        return kernel_messages.KernelTrouble(
            summary=str(failure), kernel=number, advice=[], asked_bytes=None, limit_bytes=None, allocations=[],
            source=source_line(frames), help_url=failure.help_url,
        )  # fmt: skip
    return kernel_messages.KernelTrouble(
        summary=str(failure),
        kernel=number,
        advice=list(advice(failure, kernels, chip)),
        asked_bytes=failure.asked_bytes,
        limit_bytes=failure.limit_bytes,
        allocations=_listed(failure),
        source=None,
        help_url="",
    )


def _listed(overflow: MemoryOverflow) -> list[kernel_messages.KernelAllocation]:
    return [
        kernel_messages.KernelAllocation(name=a.tag or "allocation", what=a.shape, buffers=1, size_bytes=a.size_bytes)
        for a in overflow.allocations
    ]


# ---------------------------------------------------------------- without the browser's app


def kernels_html(kernels: Sequence[Kernel], target: Target, error: BaseException | None = None) -> str:
    """Returns the kernels as HTML for a page without a notebook kernel: blocks, memory, remarks and compiler errors."""
    parts, chip, refused = list[str](), chip_of(target), refused_bytes(error, kernels)
    trouble = None if error is None else _trouble(str(error), kernels, chip)
    if trouble is not None:
        items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in trouble["advice"])
        parts.append(f"<p>✗ Rejected by the compiler: {html.escape(trouble['summary'])}</p><ul>{items}</ul>")
    for kernel in kernels:
        budget = vmem_budget(kernel, chip, refused_bytes=refused.get(kernel.number, 0))
        remarks = "".join(f"<li>{html.escape(r)}</li>" for r in kernel.remarks())
        parts.append(
            f"<details><summary>Pallas: {html.escape(repr(kernel)[1:-1])}; {html.escape(str(budget))}</summary>"
            f"{kernel.table().to_html(index=False, border=0)}{f'<ul>{remarks}</ul>' if remarks else ''}</details>"
        )
    return "".join(parts)
