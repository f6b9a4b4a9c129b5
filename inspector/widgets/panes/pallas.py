"""Pallas kernels: grid and blocks, fast memory, compiler parameters, and what their compiler said."""

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
from inspector.widgets.messages import kernels as told
from inspector.widgets.panes.framework.pane import Entry, Pane
from inspector.widgets.tuning import requested, write_value
from inspector.widgets.variants import Variant

# Of a grid, and of the blocks of an array, that the browser gets: more than an eye can follow.
_SHOWN_STEPS = 8192
_SHOWN_BLOCKS = 4096


class PallasPane(Pane):
    """See the module."""

    def kernels(self, variant: Variant, error: BaseException | None) -> Iterable[Entry]:
        """All of a variant's program, and what the compiler had against them."""
        lowered = variant.lowered
        if lowered is None or not lowered.kernels:
            return []
        fields = [self.context.work().kernel_fields(kernel, lowered.program.platform) for kernel in lowered.kernels]
        # Of what came before there was code, the optimized HLO says of every kernel that it has no memory.
        module = variant.compiled_now.module() if variant.state == "done" else None
        return [kernels_message(variant.number, lowered.kernels, fields, variant.target, error, module)]

    def answer(self, request: told.TuneRequest) -> None:
        """A variant like another one, its kernels with other parameters or interpreted."""
        self.context.later(lambda: self._tune(request))

    def _tune(self, request: told.TuneRequest) -> None:
        reply = told.Tuned(type="tuned", id=request["id"], variant=None, error=None)
        try:
            variant = self.context.variant(request["variant"])
            made = self.context.tune(*requested(request, variant, self.context.work()))
            reply["variant"] = made.number
        except Exception as error:  # user code ran: whatever it is, it belongs beside what was asked
            reply["error"] = messages.error_of(error)
        self.context.publish(reply)


def kernels_message(
    variant: int,
    kernels: Sequence[Kernel],
    fields: Sequence[Sequence[ParamField]],
    target: Target,
    error: BaseException | None = None,
    module: Module | None = None,
) -> told.Kernels:
    """The kernels of a variant's program.

    Args:
      variant: its number.
      kernels: of the program.
      fields: the compiler parameters that each kernel can have.
      target: for what it is compiled.
      error: why that failed.
      module: the optimized HLO, once there is one.
    """
    chip = chip_of(target)
    refused = refused_bytes(error, kernels)
    return told.Kernels(
        type="kernels",
        variant=variant,
        rows=[
            _kernel(kernel, known, vmem_budget(kernel, chip, module, refused.get(kernel.number, 0)))
            for kernel, known in zip(kernels, fields, strict=True)
        ],
        trouble=None if error is None else _trouble(str(error), kernels, chip),
    )


def refused_bytes(error: BaseException | None, kernels: Sequence[Kernel]) -> dict[int, int]:
    """By the number of a kernel what the compiler had counted when it refused it for its limit."""
    found = None if error is None else explain(str(error))
    if not isinstance(found, MemoryOverflow) or (found.space, found.limit) != ("vmem", "scoped"):
        return {}
    kernel = kernel_of(found.kernel, kernels)
    return {} if kernel is None else {kernel.number: found.asked_bytes}


def chip_of(target: Target) -> str:
    """Whose fast memory a budget is held against: the target's TPU, else the usual one."""
    return target.chip if target.chip in VMEM else TPU.usual_chip


def _kernel(kernel: Kernel, fields: Sequence[ParamField], budget: VmemBudget | Unavailable) -> told.Kernel:
    ids = kernel.program_ids
    shown = 0 if isinstance(ids, Unavailable) else min(len(ids), _SHOWN_STEPS)
    operands = [_operand(o, v, shown) for o, v in zip(kernel.operands, visits(kernel), strict=True)]
    return told.Kernel(
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


def _memory(budget: VmemBudget) -> told.KernelMemory:
    parts = [
        told.KernelAllocation(
            name=a.name,
            what=f"{a.role}, {_shape(a.dtype, a.shape)}" + ("" if a.buffer_count else ", in VMEM whole"),
            buffers=a.buffer_count,
            size_bytes=a.padded_bytes,
        )
        for a in budget.allocations
    ]
    if budget.own_bytes:
        own = told.KernelAllocation(name="the compiler", what="its own", buffers=1, size_bytes=budget.own_bytes)
        parts.append(own)
    return told.KernelMemory(
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


def _operand(operand: Operand, found: Visits | Unavailable, shown: int) -> told.KernelOperand:
    known = None if isinstance(found, Unavailable) else found
    steps = [] if known is None else _shown_steps(known, shown)
    starts = [] if known is None else known.starts[: max(steps, default=-1) + 1].tolist()
    return told.KernelOperand(
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
        reason=found.reason if isinstance(found, Unavailable) else "",
    )


def _shown_steps(found: Visits, shown: int) -> list[int]:
    """The blocks of the first steps, up to the first block that is one too many."""
    steps = found.block_of_step[:shown]
    beyond = np.flatnonzero(steps >= _SHOWN_BLOCKS)
    listed: list[int] = steps[: beyond[0] if len(beyond) else None].tolist()
    return listed


def _indices(marks: Any, count: int) -> list[int]:
    if isinstance(marks, Unavailable):
        return []
    found: list[int] = np.flatnonzero(marks[:count]).tolist()
    return found


def _facts(kernel: Kernel) -> list[tuple[str, str]]:
    facts: list[tuple[str, str]] = [("backend", kernel.backend or "as the platform")]
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
            ("cost estimate", f"{format_count(cost.flops, 'flop')}, {format_bytes(cost.bytes_accessed)} accessed")
        )
    return facts


def _shape(dtype: str, shape: Sequence[int]) -> str:
    return f"{dtype}[{','.join(map(str, shape))}]"


def _param(kernel: Kernel, field: ParamField) -> told.KernelParam:
    value = dict(kernel.params).get(field.name, field.default)
    return told.KernelParam(
        name=field.name,
        type=field.type,
        value=write_value(value),
        default=write_value(field.default),
        choices=[write_value(c) for c in field.choices],
        description=field.description,
        overridden=field.name in kernel.overridden,
        reason="" if field.available is True else str(field.available).removeprefix("unavailable: "),
    )


# ---------------------------------------------------------------- what the compiler said


def _trouble(text: str, kernels: Sequence[Kernel], chip: str) -> told.KernelTrouble | None:
    found = explain_kernel(text)
    if found is None:
        return None
    kernel = kernel_of(found.kernel, kernels)
    number = None if kernel is None else kernel.number
    if isinstance(found, KernelRefused):
        frames = found.frames or (kernel.origins[0].frames if kernel is not None and kernel.origins else ())
        return told.KernelTrouble(
            summary=str(found), kernel=number, advice=[], asked_bytes=None, limit_bytes=None, allocations=[],
            source=source_line(frames), help_url=found.help_url,
        )  # fmt: skip
    return told.KernelTrouble(
        summary=str(found),
        kernel=number,
        advice=list(advice(found, kernels, chip)),
        asked_bytes=found.asked_bytes,
        limit_bytes=found.limit_bytes,
        allocations=_listed(found),
        source=None,
        help_url="",
    )


def _listed(found: MemoryOverflow) -> list[told.KernelAllocation]:
    return [
        told.KernelAllocation(name=a.tag or "allocation", what=a.shape, buffers=1, size_bytes=a.size_bytes)
        for a in found.allocations
    ]


# ---------------------------------------------------------------- without the browser's app


def kernels_html(kernels: Sequence[Kernel], target: Target, error: BaseException | None = None) -> str:
    """The kernels for a page without a kernel of its own: blocks, memory, remarks, and what the compiler had against them."""
    parts, chip, refused = list[str](), chip_of(target), refused_bytes(error, kernels)
    trouble = None if error is None else _trouble(str(error), kernels, chip)
    if trouble is not None:
        said = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in trouble["advice"])
        parts.append(f"<p>✗ The compiler refused: {html.escape(trouble['summary'])}</p><ul>{said}</ul>")
    for kernel in kernels:
        budget = vmem_budget(kernel, chip, refused_bytes=refused.get(kernel.number, 0))
        remarks = "".join(f"<li>{html.escape(r)}</li>" for r in kernel.remarks())
        parts.append(
            f"<details><summary>Pallas: {html.escape(repr(kernel)[1:-1])}; {html.escape(str(budget))}</summary>"
            f"{kernel.table().to_html(index=False, border=0)}{f'<ul>{remarks}</ul>' if remarks else ''}</details>"
        )
    return "".join(parts)
