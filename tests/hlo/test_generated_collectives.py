"""Random programs of collectives, as reported against what numpy says of their mesh and what devices exchanged.

Every program holds one collective within none to two nested scans. Groups, axes, bytes and executions are computed here
from the mesh alone; who exchanged with whom is observed by running the same collective on device ids.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from inspector.analysis.collectives.collective import Collective
from inspector.errors import Unavailable
from inspector.hlo.devices.mesh import Mesh
from tests.hlo.conftest import Execute
from tests.hlo.test_groups_observed import decoded

OPCODES = {
    "psum": "all-reduce",
    "pmean": "all-reduce",
    "all_gather": "all-gather",
    "all_gather_tiled": "all-gather",
    "psum_scatter": "reduce-scatter",
    "all_to_all": "all-to-all",
    "ppermute": "collective-permute",
}
LENGTH = 24  # of what a device holds: a multiple of every size of a group
F32 = 4


@dataclass(frozen=True)
class Program:
    """One collective on one mesh.

    Attributes:
      primitive: a key of `OPCODES`.
      sizes: of the mesh's axes.
      devices: device ids at the mesh's positions, row-major.
      axes: indices of the axes that it names, in its order.
      index_groups: positions along the axis, where it has `axis_index_groups`.
      pairs: of a ppermute.
      lengths: of the scans around it, outermost first.
    """

    primitive: str
    sizes: tuple[int, ...]
    devices: tuple[int, ...]
    axes: tuple[int, ...]
    index_groups: tuple[tuple[int, ...], ...] | None
    pairs: tuple[tuple[int, int], ...]
    lengths: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"axis{i}" for i in range(len(self.sizes)))

    @property
    def request(self) -> dict[str, Any]:
        return {
            "do": "collective", "primitive": self.primitive, "names": self.names, "sizes": self.sizes,
            "devices": self.devices, "axes": [self.names[i] for i in self.axes], "index_groups": self.index_groups,
            "pairs": self.pairs, "lengths": self.lengths, "length": LENGTH,
        }  # fmt: skip

    def lines(self) -> np.ndarray:
        """(lines, members): positions in the mesh that differ in the named axes alone."""
        positions = np.arange(math.prod(self.sizes)).reshape(self.sizes)
        others = [i for i in range(len(self.sizes)) if i not in self.axes]
        return positions.transpose(*others, *self.axes).reshape(-1, math.prod(self.sizes[i] for i in self.axes))

    def groups(self) -> set[tuple[int, ...]]:
        chosen = self.pairs or self.index_groups
        return {tuple(line.tolist()) if chosen is None else tuple(int(line[i]) for i in group)
                for line in self.lines() for group in (chosen or [()])}  # fmt: skip


def program(seed: int) -> Program:
    draw = random.Random(seed)
    primitive = list(OPCODES)[seed % len(OPCODES)]
    while True:
        sizes = tuple(draw.randint(1, 4) for _ in range(draw.randint(1, 3)))
        axes = tuple(draw.sample(range(len(sizes)), draw.randint(1, len(sizes))))
        if primitive in ("ppermute", "all_to_all"):
            axes = axes[:1]
        size = math.prod(sizes[i] for i in axes)
        if math.prod(sizes) <= 8 and (size > 1 or draw.random() < 0.1):
            break
    order = draw.sample(range(size), size)
    pairs = tuple(zip(range(size), order, strict=True))[: draw.randint(1, size)] if primitive == "ppermute" else ()
    index_groups = None
    if primitive not in ("ppermute", "pmean") and len(axes) == 1 and size == 4 and draw.random() < 0.5:
        index_groups = (tuple(order[:2]), tuple(order[2:]))
    devices = tuple(draw.sample(range(math.prod(sizes)), math.prod(sizes)))
    lengths = tuple(draw.randint(2, 4) for _ in range(draw.randint(0, 2)))
    return Program(primitive, sizes, devices, axes, index_groups, pairs, lengths)


def check(execute: Execute, one: Program) -> bool:
    """Reports whether the compiled program has a collective; one with a single member may be optimized away."""
    reply = execute(**one.request)
    mesh = Mesh(one.names, one.sizes, "partition")
    found = decoded(reply, mesh, 1, math.prod(one.sizes))
    same = [c for c in found if c.opcode == OPCODES[one.primitive]]
    groups = one.groups()
    if not same:
        assert not found
        assert all(len(set(group)) == 1 for group in groups), one
        check_observed(one, reply["observed"])
        return False
    (collective,) = same
    check_reported(one, collective, groups)
    check_observed(one, reply["observed"])
    return True


def check_reported(one: Program, collective: Collective, groups: set[tuple[int, ...]]) -> None:
    size = len(next(iter(groups)))
    assert not isinstance(collective.participants, Unavailable)
    assert set(collective.participants) == groups, one
    assert len(collective.participants) == len(groups)
    if one.index_groups is None and not one.pairs:
        assert isinstance(collective.axes, tuple)
        large = tuple(one.names[i] for i in one.axes if one.sizes[i] > 1)
        assert tuple(a for a in collective.axes if one.sizes[one.names.index(a)] > 1) == large, one
    assert collective.executions == math.prod(one.lengths), one
    put_in, got_out = LENGTH * F32, LENGTH * F32
    if one.primitive.startswith("all_gather"):
        got_out *= size
    elif one.primitive == "psum_scatter":
        got_out //= size
    assert (collective.operand_bytes, collective.result_bytes) == (put_in, got_out), one


def received(primitive: str, held: list[np.ndarray], block: slice) -> np.ndarray:
    """Returns the result of a member whose block is `block`, from the values of all members of its group."""
    if primitive.startswith("all_gather"):
        return np.concatenate(held)
    if primitive == "all_to_all":
        return np.concatenate([each[block] for each in held])
    total = np.sum(held, axis=0)
    if primitive == "psum_scatter":
        return total[block]
    return total / len(held) if primitive == "pmean" else total


def check_observed(one: Program, observed: list[list[float]]) -> None:
    """Each device put in LENGTH values `1000 * position + index`; the program returns what the collective gave."""
    own = {p: 1000.0 * p + np.arange(LENGTH) for p in range(math.prod(one.sizes))}
    expected = {position: np.zeros(LENGTH) for position in own} if one.pairs else {}
    for group in one.groups():
        if one.pairs:
            expected[group[1]] = own[group[0]]
            continue
        held = [own[member] for member in group]
        for k, member in enumerate(group):
            block = slice(k * LENGTH // len(group), (k + 1) * LENGTH // len(group))
            expected[member] = received(one.primitive, held, block)
    for position, values in expected.items():
        np.testing.assert_allclose(observed[position], values, rtol=1e-6, err_msg=str(one))


def test_a_few(execute: Execute) -> None:
    assert sum(check(execute, program(seed)) for seed in range(28)) > 20


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(4))
def test_several_hundred(execute: Execute, part: int) -> None:
    assert sum(check(execute, program(seed)) for seed in range(28 + 100 * part, 128 + 100 * part)) > 70
