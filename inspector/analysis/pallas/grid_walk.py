"""How the grid of a Pallas kernel walks over its arrays: which blocks, how often, in which order.

A pure function of a `PallasKernel`. The drawings are in `pallas_plot.py`, the budget of the fast memory in
`pallas_memory.py`. What a pipeline copies follows from the blocks: a TPU's pipeline fetches a block
when it differs from the step before (docs.jax.dev, "Grids and BlockSpecs" and "TPU pipelining").
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

# Pairs of blocks, and cells of a compressed array, that are looked at; beyond, what follows is unknown.
_MOST_BLOCKS = 2048
_MOST_CELLS = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Visits:
    """The blocks of one operand over the grid steps that are looked at.

    Attributes:
      operand: whose.
      starts: first element of each distinct block, in the order of their first visit, `[blocks, rank]`.
      block_of_step: index into `starts` for each step, `[steps]`.
      copy_count: blocks that a pipeline copies: one whenever the block is not that of the step before.
      revisited: blocks that are left and come back, `[blocks]` booleans.
      overlapping: blocks that share elements with another one, `[blocks]` booleans.
      ragged: blocks that reach beyond the array, `[blocks]` booleans.
      covered_elements: elements of the array that are in some block.
      racing_dimensions: grid dimensions said to be parallel along which an output's block stays the
        same, so that cores may write it at once; none for inputs, and for arrays that the kernel writes itself.
      is_whole: every step of the grid was looked at.
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
        """Distinct blocks."""
        return len(self.starts)

    @property
    def copied_bytes(self) -> int:
        """Bytes between the array and the fast memory; 0 where the kernel copies itself."""
        return self.copy_count * self.operand.block_bytes if self.operand.is_windowed else 0

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader should know of it, one sentence each; the array's own trouble first."""
        return tuple(_remarks(self))


def _remarks(visits: Visits) -> list[str]:
    operand, found = visits.operand, []
    is_output = operand.role == "output"
    size = math.prod(operand.shape)
    covered = visits.covered_elements
    if visits.racing_dimensions:
        names = ", ".join(map(str, visits.racing_dimensions))
        found.append(
            f"{operand.name} keeps its block along grid dimension {names}, which is said to be parallel: cores that"
            " share those steps write the same block."
        )
    if is_output and visits.is_whole and not isinstance(covered, Unavailable) and covered < size:
        found.append(f"{operand.name}: {size - covered:,} of {size:,} elements are in no block and stay undefined.")
    if is_output and visits.revisited.any():
        found.append(
            f"{operand.name}: {int(visits.revisited.sum())} blocks are left and come back; on a TPU what was written"
            " before is lost. Make the dimension that revisits them the innermost."
        )
    if not isinstance(visits.overlapping, Unavailable) and visits.overlapping.any():
        worth = "the last write wins" if is_output else "the shared elements are read more than once"
        found.append(f"{operand.name}: {int(visits.overlapping.sum())} blocks overlap; {worth}.")
    if visits.ragged.any():
        found.append(
            f"{operand.name}: {int(visits.ragged.sum())} blocks reach beyond the array; what they hold there is undefined."
        )
    return found


def visits(kernel: PallasKernel) -> tuple[Visits | Unavailable, ...]:
    """The visits of each operand, inputs first; unavailable where an index map needs values of a run."""
    return _visits(kernel)


def remarks(kernel: PallasKernel) -> tuple[str, ...]:
    """The remarks on all operands."""
    return tuple(said for found in visits(kernel) if not isinstance(found, Unavailable) for said in found.remarks)


@functools.lru_cache(maxsize=64)
def _visits(kernel: PallasKernel) -> tuple[Visits | Unavailable, ...]:
    ids = kernel.program_ids
    return tuple(_of(kernel, operand, ids) for operand in kernel.operands)


def _of(kernel: PallasKernel, operand: Operand, ids: Ints | Unavailable) -> Visits | Unavailable:
    starts, count = operand.starts, kernel.step_count
    if isinstance(starts, Unavailable):
        return starts
    if isinstance(ids, Unavailable) or isinstance(count, Unavailable):
        return Unavailable("the grid is not known before a run")
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
    """Distinct rows in the order of their first appearance, and the one of each row."""
    if not starts.shape[1]:
        return np.zeros((min(1, len(starts)), 0), np.int64), np.zeros(len(starts), np.int64)
    _, first, inverse = np.unique(starts, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return starts[first[order]], rank[inverse.reshape(-1)]


def _overlapping(starts: Ints, extent: Ints, operand: Operand) -> npt.NDArray[np.bool_] | Unavailable:
    """Blocks of which another one has elements; those on a regular lattice have none."""
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
    """Blocks beyond the array; the padding that an "element" block asks for is meant."""
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
        return Unavailable("overlapping blocks cut the array into too many pieces to count")
    cells = np.zeros([max(0, len(e) - 1) for e in edges], np.bool_)
    for first, last in zip(low, high, strict=True):
        at = zip(edges, first, last, strict=True)
        cells[tuple(slice(*np.searchsorted(e, [a, b])) for e, a, b in at)] = True
    sizes = functools.reduce(np.multiply.outer, [np.diff(e) for e in edges])
    return int(sizes[cells].sum())


def _racing(kernel: PallasKernel, block_of_step: Ints, ids: Ints) -> tuple[int, ...]:
    """Parallel dimensions along which some block is that of several steps."""
    found = []
    for dimension, semantics in enumerate(kernel.dimension_semantics):
        if "parallel" not in semantics:
            continue
        one = np.full(int(block_of_step.max(initial=0)) + 1, -1, np.int64)
        one[block_of_step] = ids[:, dimension]
        if (one[block_of_step] != ids[:, dimension]).any():
            found.append(dimension)
    return tuple(found)


def operand_table(kernel: PallasKernel) -> pd.DataFrame:
    """One row an operand: its blocks, and what the grid makes the pipeline copy.

    Columns `name, role, shape, dtype, block_shape, memory_space, block_bytes, blocks, copies, copied_bytes,
    revisited, overlapping, ragged, unknown`; what is not known before a run is missing, and `unknown` says why.
    """
    return make_table(_COLUMNS, [_row(o, v) for o, v in zip(kernel.operands, visits(kernel), strict=True)])


_COLUMNS: Mapping[str, Kind] = {
    "name": "text", "role": "text", "shape": "object", "dtype": "text", "block_shape": "object", "memory_space": "text",
    "block_bytes": "int", "blocks": "int", "copies": "int", "copied_bytes": "int", "revisited": "int",
    "overlapping": "int", "ragged": "int", UNKNOWN: "reasons",
}  # fmt: skip


def _row(operand: Operand, found: Visits | Unavailable) -> tuple[object, ...]:
    about = (
        operand.name, operand.role, operand.shape, operand.dtype, operand.block_shape, operand.memory_space,
        operand.block_bytes,
    )  # fmt: skip
    if isinstance(found, Unavailable):
        return (*about, *[found] * 6)
    overlapping = found.overlapping if isinstance(found.overlapping, Unavailable) else int(found.overlapping.sum())
    return (
        *about, found.block_count, found.copy_count, found.copied_bytes, int(found.revisited.sum()), overlapping,
        int(found.ragged.sum()),
    )  # fmt: skip
