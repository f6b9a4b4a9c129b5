"""Walks the grid of a Pallas kernel for TPUs: counts operations and copies, as often as the compiled kernel executes them.

A pure function of the plain form of a kernel (`_jax/modules/mosaic.py`). Integers that follow from the grid and from
constants are computed for all grid steps at once, so that conditions (`pl.when`), loops and index maps are exact.

- A condition that depends on data counts its cheaper branch, a loop whose length depends on data counts nothing. Both are
  reported as unknown.
- The pipeline copies a block when its index differs from that of the previous step. For an index that depends on data, the
  known coordinates give a lower bound.
- The kernel's own copies (`enqueue_dma`) count at both ends that are outside of the fast memories.
- Operations without a used result count nothing. Elements count as in XLA: one operation for each element of a vector.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from inspector.compilation.kernels.operations import Types, Work, element_bits, is_control, is_copy, is_scalar, work_of
from inspector.compilation.kernels.values import Known, Scope, evaluate, merged, taken

_AFFINE = re.compile(r"affine_map<\([^()]*\) -> \(([^()]*)\)>")  # without expressions in brackets
_MOST_STEPS = 1 << 18  # of the grid; a larger grid counts as a multiple of its first part
_BUDGET = 1 << 21  # about the number of evaluated operations, a few seconds
_RARELY = 0.25  # of the steps
_POINTS = 2000  # executions for which the evaluation of one operation takes twice the time of a single one
_THROUGH = ("tpu.region", "tpu.trace")  # operations whose region runs once


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """The blocks of one argument.

    Attributes:
      shape: elements of a block along each dimension of the array.
      bits: bits of an element.
      copies: number of copies of a block in one execution.
      repeated: grid dimensions along which the block nearly always stays the same; () if a part of the index depends on data.
    """

    shape: tuple[int, ...]
    bits: int
    copies: float
    repeated: tuple[int, ...]

    @property
    def block_bytes(self) -> float:
        """Bytes of one block."""
        return math.prod(self.shape) * self.bits / 8

    @property
    def copied_bytes(self) -> float:
        """Bytes of all copies in one execution."""
        return self.block_bytes * self.copies


@dataclasses.dataclass(frozen=True, slots=True)
class KernelWalk:
    """The work of one execution of a kernel.

    Attributes:
      work: operations and bytes.
      arguments: number of arguments, without grid indices and scratch.
      steps: number of grid steps, with 1 for each unknown dimension.
      unwalked_steps: number of steps that count like those before.
      unknown_dimensions: number of grid dimensions known only at run time.
      unknown_conditions, unknown_loops: numbers of conditions and loops in the body that depend on data.
      copies_itself: whether the body itself starts copies.
      unknown_blocks: for each argument with blocks that depend on data, the maximum number of copies.
      grid: number of steps along each grid dimension, with 1 for each unknown one.
      windows: the blocks of each argument that the pipeline copies.
    """

    work: Work
    arguments: int
    steps: int
    unwalked_steps: int
    unknown_dimensions: int
    unknown_conditions: int
    unknown_loops: int
    copies_itself: bool
    unknown_blocks: Mapping[int, int]
    grid: tuple[int, ...] = ()
    windows: Mapping[int, Window] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(slots=True)
class _Region:
    """A region of operations.

    Attributes:
      arguments: its arguments.
      steps: operations that compute integers or have regions.
      ends: operands of its last operation.
      work: the work of all other operations in one execution.
      size: number of operations that are evaluated, including those of inner regions.
      has_control: whether it contains conditions or loops.
    """

    arguments: Sequence[int]
    steps: list[tuple[str, Sequence[int], Sequence[int], Mapping[str, Any], list[_Region]]]
    ends: Sequence[int]
    work: Work
    size: int
    has_control: bool


def walk(kernel: Mapping[str, Any]) -> KernelWalk:
    """Returns the work of one execution of a kernel, with copies by argument; grid indices and scratch are not arguments.

    Raises:
      ValueError: the kernel has an unknown form.
    """
    return _Walk(kernel).whole()


class _Walk:
    def __init__(self, kernel: Mapping[str, Any]) -> None:
        functions = {each["name"]: each for each in kernel["functions"]}
        main = next((each for each in functions.values() if "scratch_operands" in each["attributes"]), None)
        if main is None:
            raise ValueError("the kernel has no main function")
        self._types: Types = kernel["types"]
        self._attributes, arguments = main["attributes"], main["arguments"]
        bounds = self._attributes.get("iteration_bounds", [])
        self._dynamic = sum(size < 0 for size in bounds)
        self._grid = [max(size, 1) if size >= 0 else 1 for size in bounds] if 0 not in bounds else [0]
        end = len(arguments) - self._attributes["scratch_operands"]
        self._ids, self._arguments = arguments[: len(bounds)], arguments[len(bounds) : end]
        self._origins = {value: number for number, value in enumerate(self._arguments)}
        self._copies_itself = False
        self._body = self._region((arguments, main["operations"]))
        self._maps = {
            name: self._region((each["arguments"], each["operations"]))
            for name, each in functions.items()
            if each is not main
        }
        self._work: Work = {}
        self._budget = float(_BUDGET)
        self._conditions, self._loops = set[int](), set[int]()

    def whole(self) -> KernelWalk:
        steps = math.prod(self._grid)
        walked, inner = steps, list(self._grid)
        while walked > _MOST_STEPS and len(inner) > 1:
            walked //= inner.pop(0)
        part = walked * max(1, _MOST_STEPS // max(1, walked)) if walked < steps else steps
        part = min(part, steps, _MOST_STEPS)
        ids = np.unravel_index(np.arange(part), self._grid) if self._grid else ()
        scope = Scope(part)
        for value, index in zip(self._ids, ids, strict=False):
            scope.set(value, index.astype(np.int64))
        windows, unknown = self._windows(scope)
        self._work = {}
        self._run(self._body, scope)
        scale = steps / part if part else 1.0
        for name in self._work:
            self._work[name] *= scale
        for number, window in windows.items():
            times = window.copies * scale if window.copies > 1 else window.copies
            windows[number] = window = dataclasses.replace(window, copies=times if steps else 0.0)
            _add(self._work, {f"copied {number}": window.copied_bytes})
        return KernelWalk(
            self._work, len(self._arguments), steps, steps - part, self._dynamic, len(self._conditions), len(self._loops),
            self._copies_itself, dict.fromkeys(unknown, steps), tuple(self._grid), windows,
        )  # fmt: skip

    def _windows(self, scope: Scope) -> tuple[dict[int, Window], list[int]]:
        """Returns the blocks of each argument, and the arguments whose blocks depend on data."""
        windows = self._attributes.get("window_params", [])
        first = self._attributes.get("scalar_prefetch", 0)
        found: dict[int, Window] = {}
        unknown = []
        for number, value in enumerate(self._arguments):
            _, dimensions, element, space = self._types[value]
            if space not in ("vmem", "smem"):
                continue
            window = windows[number - first] if 0 <= number - first < len(windows) else {}
            index_map = self._maps.get(window.get("transform_indices", ""))
            affine = _AFFINE.match(window.get("transform_indices", ""))
            sizes, times, repeated = window.get("window_bounds", dimensions), 1, tuple(range(len(self._grid)))
            if (index_map is not None or affine) and scope.size:
                if index_map is not None:
                    inner = scope.child()
                    for argument, given in zip(index_map.arguments, self._ids, strict=False):
                        inner.set(argument, scope.get(given))
                    coordinates = self._run(index_map, inner)
                else:
                    coordinates = (
                        [self._coordinate(each.strip(), scope) for each in affine[1].split(",")] if affine else []
                    )
                times = _changes(coordinates, scope.size)
                repeated = _repeated(coordinates, self._grid)
                if any(each is None for each in coordinates):
                    unknown.append(number)
            found[number] = Window(tuple(sizes), element_bits(element), times, repeated)
        return found, unknown

    def _coordinate(self, text: str, scope: Scope) -> Known:
        """Returns one result of an affine map: a grid index such as "d0", or a number; None for another expression."""
        if text.lstrip("-").isdecimal():
            return np.asarray(int(text), np.int64)
        number = text.removeprefix("d")
        return scope.get(self._ids[int(number)]) if number.isdecimal() and int(number) < len(self._ids) else None

    def _region(self, region: tuple[Sequence[int], Sequence[Any]]) -> _Region:
        arguments, operations = region
        live = _live(operations)
        found = _Region(arguments, [], live[-1][1] if live else (), {}, 0, has_control=False)
        for name, operands, results, attributes, regions in live:
            if len(results) == 1 and operands and self._types[results[0]][0] == "memref":
                origin = self._origins.get(operands[0])
                if origin is not None:
                    self._origins[results[0]] = origin
            self._copies_itself |= is_copy(name)
            inner = [self._region(each) for each in regions]
            _add(found.work, work_of(name, operands, results, attributes, self._types, self._origins))
            if inner or any(is_scalar(self._types[value]) for value in results):
                found.steps.append((name, operands, results, attributes, inner))
                found.size += 1 + sum(each.size for each in inner)
                found.has_control |= is_control(name) or any(each.has_control for each in inner)
        return found

    def _run(self, region: _Region, scope: Scope) -> list[Known]:
        """Counts the executions of a region. Returns the operands of its last operation."""
        executions = scope.executions
        if executions:
            _add(self._work, region.work, executions)
        self._budget -= region.size * (1 + scope.size / _POINTS)
        for name, operands, results, attributes, regions in region.steps:
            known = self._step(name, operands, results, attributes, regions, scope)
            for value, each in zip(results, known, strict=False):
                scope.set(value, each)
        return [scope.get(value) for value in region.ends]

    def _step(
        self, name: str, operands: Sequence[int], results: Sequence[int], attributes: Mapping[str, Any],
        regions: Sequence[_Region], scope: Scope,
    ) -> Sequence[Known]:  # fmt: skip
        if not regions:
            elements = [self._types[value][2] for value in (*results[:1], *operands[:1])]
            return [evaluate(name, [scope.get(value) for value in operands], attributes, elements)]
        if name == "scf.if":
            return self._branches(operands[0], regions, scope, len(results))
        if name == "scf.for":
            return self._loop(operands, results, regions[0], scope)
        if name == "scf.while":
            return self._while(operands, regions, scope, len(results))
        if name in _THROUGH and len(regions) == 1:
            return self._run(regions[0], scope)
        return self._cheapest(regions, scope, len(results))

    def _branches(self, condition: int, regions: Sequence[_Region], scope: Scope, count: int) -> Sequence[Known]:
        holds = scope.get(condition)
        if holds is None:
            return self._cheapest(regions, scope, count)
        if not holds.ndim:
            chosen = regions[0 if holds else 1] if len(regions) > (0 if holds else 1) else None
            return self._run(chosen, scope.child()) if chosen else [None] * count
        values: list[Known] = [np.asarray(0, np.int64)] * count
        for region, rows in zip(regions, (np.flatnonzero(holds), np.flatnonzero(holds == 0)), strict=False):
            if len(rows):
                ends = self._run(region, scope.child(rows))
                values = [merged(v, e, rows, scope.size) for v, e in zip(values, ends, strict=False)]
        return values

    def _cheapest(self, regions: Sequence[_Region], scope: Scope, count: int) -> Sequence[Known]:
        """Counts the smallest number of any region for each kind of work."""
        before, parts = self._work, []
        for region in regions:
            self._work = {}
            self._run(region, scope.child())
            parts.append(self._work)
        self._work = before
        names = {name for part in parts for name in part}
        least = {name: min(part.get(name, 0.0) for part in parts) for name in names}
        if any(part.get(name, 0.0) > least[name] for part in parts for name in names):
            self._conditions.add(id(regions[0]))
        _add(self._work, least)
        return [None] * count

    def _loop(self, operands: Sequence[int], results: Sequence[int], region: _Region, scope: Scope) -> Sequence[Known]:
        lower, upper, step = (scope.get(value) for value in operands[:3])
        if lower is None or upper is None or step is None or (step <= 0).any():
            self._loops.add(id(region))
            return [None] * len(results)
        trips = np.maximum(0, -((lower - upper) // step))
        most = int(trips.max(initial=0)) if scope.size else 0
        is_followed = region.has_control or any(is_scalar(self._types[value]) for value in results)
        if not is_followed or most * region.size * (1 + scope.size / _POINTS) > self._budget:
            self._run(region, scope.child(weight=trips))
            return [None] * len(results)
        carried = [scope.get(value) for value in operands[3:]]
        for number in range(most):
            rows = np.flatnonzero(trips > number) if trips.ndim and (trips <= number).any() else None
            inner = scope.child(rows)
            inner.set(region.arguments[0], taken(lower + number * step, rows))
            for argument, known in zip(region.arguments[1:], carried, strict=False):
                inner.set(argument, taken(known, rows))
            ends = self._run(region, inner)
            carried = [merged(c, e, rows, scope.size) for c, e in zip(carried, ends, strict=False)]
        return carried

    def _while(self, operands: Sequence[int], regions: Sequence[_Region], scope: Scope, count: int) -> Sequence[Known]:
        """Follows a loop whose condition is the same in all executions and known; any other one counts nothing."""
        before, after = regions
        carried, counted = [scope.get(value) for value in operands], self._work.copy()
        while self._budget > 0:
            inner = scope.child()
            for argument, known in zip(before.arguments, carried, strict=False):
                inner.set(argument, known)
            holds, *passed = self._run(before, inner)
            if holds is None or (holds.ndim and holds.min(initial=1) != holds.max(initial=0)):
                break
            if not holds.any():
                return passed
            inner = scope.child()
            for argument, known in zip(after.arguments, passed, strict=False):
                inner.set(argument, known)
            carried = self._run(after, inner)
        self._work = counted
        self._loops.add(id(before))
        return [None] * count


def _add(work: Work, more: Mapping[str, float], times: float = 1.0) -> None:
    for name, amount in more.items():
        work[name] = work.get(name, 0.0) + amount * times


def _changes(coordinates: Sequence[Known], steps: int) -> int:
    """Returns the number of runs of equal known coordinates."""
    changed = np.zeros(max(0, steps - 1), bool)
    for each in coordinates:
        if each is not None and each.ndim:
            changed |= np.diff(each) != 0
    return 1 + int(changed.sum())


def _repeated(coordinates: Sequence[Known], grid: Sequence[int]) -> tuple[int, ...]:
    """Returns the grid dimensions along which known coordinates nearly always stay the same: a mask may skip some blocks.

    Returns () if they are not known for the whole grid.
    """
    steps = math.prod(grid)
    if any(each is None or (each.ndim and each.size != steps) for each in coordinates):
        return ()
    changing = [each.reshape(grid) for each in coordinates if each is not None and each.ndim]
    found = []
    for axis, size in enumerate(grid):
        changes = [np.diff(each, axis=axis) != 0 for each in changing]
        if size <= 1 or np.mean(np.logical_or.reduce(changes or [np.zeros(1, bool)])) <= _RARELY:
            found.append(axis)
    return tuple(found)


def _live(operations: Sequence[Any]) -> list[Any]:
    """Returns the operations without those whose results are not used, also in inner regions."""
    used = set[int]()

    def kept(inner: Sequence[Any]) -> list[Any]:
        found = []
        for name, operands, results, attributes, regions in reversed(inner):
            if results and not regions and used.isdisjoint(results) and "dma" not in name:
                continue
            inside = [(arguments, kept(each)) for arguments, each in regions]
            used.update(operands)
            found.append((name, operands, results, attributes, inside))
        return found[::-1]

    return kept(operations)
