"""The walk of a Pallas kernel's grid over its arrays: the visited blocks, their order and the number of copies.

A pure function of a `PallasKernel`. The drawings are in `plot.py`, the budget of the fast memory in `vmem.py`. The copies
of a pipeline follow from the blocks: a TPU's pipeline fetches a block when it differs from that of the previous step
(docs.jax.dev, "Grids and BlockSpecs" and "TPU pipelining").
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from inspector.errors import Unavailable
from inspector.hlo.pallas import Operand, PallasKernel
from inspector.support.tables import UNKNOWN, Kind, make_table

if TYPE_CHECKING:
    import pandas as pd

Ints = npt.NDArray[np.int64]

# Maximum numbers of compared blocks and of cells of a compressed array; beyond these, results are unknown.
_MOST_BLOCKS = 2048
_MOST_CELLS = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Visits:
    """The blocks of one operand over the examined grid steps.

    Attributes:
      operand: the operand.
      starts: first element of each distinct block, in the order of their first visit, `[blocks, rank]`.
      block_of_step: index into `starts` for each step, `[steps]`.
      copy_count: number of blocks that a pipeline copies: one whenever the block differs from that of the previous step.
      revisited: whether a block is visited again after another block, `[blocks]` booleans.
      overlapping: whether a block shares elements with another block, `[blocks]` booleans.
      ragged: whether a block extends beyond the array, `[blocks]` booleans.
      covered_elements: number of elements of the array that are in at least one block.
      racing_dimensions: grid dimensions declared parallel along which an output's block stays the same, so that several
        cores may write it simultaneously; () for inputs, and for arrays that the kernel itself writes.
      is_whole: whether all steps of the grid were examined.
    """

    operand: Operand
    starts: Ints
    block_of_step: Ints
    copy_count: int
    revisited: npt.NDArray[np.bool_]
    overlapping: npt.NDArray[np.bool_] | Unavailable
    ragged: npt.NDArray[np.bool_]
    covered_elements: int | Unavailable
    racing_dimensions: tuple[int, ...]
    is_whole: bool

    @property
    def block_count(self) -> int:
        """Returns the number of distinct blocks."""
        return len(self.starts)

    @property
    def copied_bytes(self) -> int:
        """Returns the bytes copied between the array and the fast memory; 0 if the kernel itself makes the copies."""
        return self.copy_count * self.operand.block_bytes if self.operand.is_windowed else 0

    @property
    def remarks(self) -> tuple[str, ...]:
        """Returns warnings about the blocks, one sentence each, the most serious first."""
        return tuple(_remarks(self))


def _remarks(visits: Visits) -> list[str]:
    operand, texts = visits.operand, []
    is_output = operand.role == "output"
    size = math.prod(operand.shape)
    covered = visits.covered_elements
    if visits.racing_dimensions:
        names = ", ".join(map(str, visits.racing_dimensions))
        texts.append(
            f"{operand.name} has the same block along grid dimension {names}, which is declared parallel: several cores"
            " may write the same block."
        )
    if is_output and visits.is_whole and not isinstance(covered, Unavailable) and covered < size:
        texts.append(
            f"{operand.name}: {size - covered:,} of {size:,} elements are not in any block and stay undefined."
        )
    if is_output and (count := int(visits.revisited.sum())):
        texts.append(
            f"{operand.name}: {_counted(count, 'is', 'are')} revisited after other blocks; on a TPU, earlier writes are lost."
            " Make the dimension that causes the revisits the innermost."
        )
    if not isinstance(visits.overlapping, Unavailable) and visits.overlapping.any():
        effect = "the last write wins" if is_output else "the shared elements are read more than once"
        texts.append(f"{operand.name}: {int(visits.overlapping.sum())} blocks overlap; {effect}.")
    if count := int(visits.ragged.sum()):
        texts.append(
            f"{operand.name}: {_counted(count, 'extends', 'extend')} beyond the array; the elements there are undefined."
        )
    return texts


def _counted(count: int, singular: str, plural: str) -> str:
    return f"1 block {singular}" if count == 1 else f"{count} blocks {plural}"


def visits(kernel: PallasKernel) -> tuple[Visits | Unavailable, ...]:
    """Computes the visits of each operand, inputs first; unavailable if an index map needs run-time values."""
    return _visits(kernel)


def remarks(kernel: PallasKernel) -> tuple[str, ...]:
    """Returns the remarks on all operands."""
    return tuple(text for each in visits(kernel) if not isinstance(each, Unavailable) for text in each.remarks)


@functools.lru_cache(maxsize=64)
def _visits(kernel: PallasKernel) -> tuple[Visits | Unavailable, ...]:
    ids = kernel.program_ids
    return tuple(_of(kernel, operand, ids) for operand in kernel.operands)


def _of(kernel: PallasKernel, operand: Operand, ids: Ints | Unavailable) -> Visits | Unavailable:
    starts, count = operand.starts, kernel.step_count
    if isinstance(starts, Unavailable):
        return starts
    if isinstance(ids, Unavailable) or isinstance(count, Unavailable):
        return Unavailable("the grid is known only at run time")
    distinct, block_of_step = _distinct(starts)
    changes = np.flatnonzero(np.diff(block_of_step)) + 1
    runs = block_of_step[np.concatenate([[0], changes])] if len(block_of_step) else block_of_step
    extent = np.array(operand.block_shape, np.int64)
    overlapping = _overlapping(distinct, extent, operand)
    return Visits(
        operand=operand,
        starts=distinct,
        block_of_step=block_of_step,
        copy_count=len(runs),
        revisited=np.bincount(runs, minlength=len(distinct)) > 1,
        overlapping=overlapping,
        ragged=_ragged(distinct, extent, operand),
        covered_elements=_covered(distinct, extent, operand.shape, overlapping),
        racing_dimensions=_racing(kernel, block_of_step, ids)
        if operand.role == "output" and operand.is_windowed
        else (),
        is_whole=len(block_of_step) == count,
    )


def _distinct(starts: Ints) -> tuple[Ints, Ints]:
    """Returns the distinct rows in the order of their first appearance, and the index of each row's distinct row."""
    if not starts.shape[1]:
        return np.zeros((min(1, len(starts)), 0), np.int64), np.zeros(len(starts), np.int64)
    _, first, inverse = np.unique(starts, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return starts[first[order]], rank[inverse.reshape(-1)]


def _overlapping(starts: Ints, extent: Ints, operand: Operand) -> npt.NDArray[np.bool_] | Unavailable:
    """Reports which blocks share elements with another block; blocks on a regular lattice never do."""
    if all(d.kind in ("blocked", "squeezed") for d in operand.dimensions):
        return np.zeros(len(starts), np.bool_)
    if len(starts) > _MOST_BLOCKS:
        return Unavailable(f"{len(starts):,} blocks are too many to compare with one another")
    shared = np.ones((len(starts), len(starts)), np.bool_)
    for column, size in zip(starts.T, extent, strict=True):
        np.logical_and(shared, np.abs(column[:, None] - column[None, :]) < size, out=shared)
    np.fill_diagonal(shared, val=False)
    return np.asarray(shared.any(axis=1))


def _ragged(starts: Ints, extent: Ints, operand: Operand) -> npt.NDArray[np.bool_]:
    """Reports which blocks extend beyond the array and the padding that an "element" block requests."""
    before = np.array([d.padding[0] for d in operand.dimensions], np.int64)
    after = np.array([d.padding[1] for d in operand.dimensions], np.int64)
    shape = np.array(operand.shape, np.int64)
    return np.asarray(((starts < -before) | (starts + extent > shape + after)).any(axis=1))


def _covered(
    starts: Ints, extent: Ints, shape: Sequence[int], overlapping: npt.NDArray[np.bool_] | Unavailable
) -> int | Unavailable:
    low, high = np.clip(starts, 0, shape), np.clip(starts + extent, 0, shape)
    if isinstance(overlapping, Unavailable):
        return overlapping
    if not overlapping.any():
        return int(np.prod(high - low, axis=1).sum())
    edges = [np.unique(np.concatenate([low[:, d], high[:, d]])) for d in range(len(shape))]
    if math.prod(len(e) for e in edges) > _MOST_CELLS:
        return Unavailable("overlapping blocks divide the array into too many pieces to count")
    cells = np.zeros([max(0, len(e) - 1) for e in edges], np.bool_)
    for first, last in zip(low, high, strict=True):
        at = zip(edges, first, last, strict=True)
        cells[tuple(slice(*np.searchsorted(e, [a, b])) for e, a, b in at)] = True
    sizes = functools.reduce(np.multiply.outer, [np.diff(e) for e in edges])
    return int(sizes[cells].sum())


def _racing(kernel: PallasKernel, block_of_step: Ints, ids: Ints) -> tuple[int, ...]:
    """Returns the parallel dimensions along which several steps use the same block."""
    dimensions = []
    for dimension, semantics in enumerate(kernel.dimension_semantics):
        if "parallel" not in semantics:
            continue
        one = np.full(int(block_of_step.max(initial=0)) + 1, -1, np.int64)
        one[block_of_step] = ids[:, dimension]
        if (one[block_of_step] != ids[:, dimension]).any():
            dimensions.append(dimension)
    return tuple(dimensions)


def operand_table(kernel: PallasKernel) -> pd.DataFrame:
    """Returns one row per operand: its blocks, and the copies by the pipeline.

    Columns `name, role, shape, dtype, block_shape, memory_space, block_bytes, blocks, copies, copied_bytes,
    revisited, overlapping, ragged, unknown`; values known only at run time are missing, and `unknown` has the reason.
    """
    return make_table(_COLUMNS, [_row(o, v) for o, v in zip(kernel.operands, visits(kernel), strict=True)])


_COLUMNS: Mapping[str, Kind] = {
    "name": "text", "role": "text", "shape": "object", "dtype": "text", "block_shape": "object", "memory_space": "text",
    "block_bytes": "int", "blocks": "int", "copies": "int", "copied_bytes": "int", "revisited": "int",
    "overlapping": "int", "ragged": "int", UNKNOWN: "reasons",
}  # fmt: skip


def _row(operand: Operand, walk: Visits | Unavailable) -> tuple[object, ...]:
    about = (
        operand.name, operand.role, operand.shape, operand.dtype, operand.block_shape, operand.memory_space,
        operand.block_bytes,
    )  # fmt: skip
    if isinstance(walk, Unavailable):
        return (*about, *[walk] * 6)
    overlapping = walk.overlapping if isinstance(walk.overlapping, Unavailable) else int(walk.overlapping.sum())
    return (
        *about, walk.block_count, walk.copy_count, walk.copied_bytes, int(walk.revisited.sum()), overlapping,
        int(walk.ragged.sum()),
    )  # fmt: skip
