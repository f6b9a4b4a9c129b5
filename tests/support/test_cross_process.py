"""Values whose parts live in one process: pickled without them, copied with them, sent to other processes."""

from __future__ import annotations

import ast
import copy
import dataclasses
import multiprocessing
import operator
import pickle
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector.stages.lowered import Lowered
from inspector.support.cross_process import Portable
from tests.project import without_hidden

PACKAGE = Path(inspector.__file__).parent
ONES = np.ones(3, np.float32)


@dataclasses.dataclass(frozen=True, slots=True)
class Point(Portable):
    x: int
    live: Any = dataclasses.field(default=None, compare=False)


class Local:
    """A pytree whose structure holds what does not pickle."""

    def __init__(self, value: Any) -> None:
        self.value = value


jax.tree_util.register_pytree_node(
    Local, lambda local: ((local.value,), lambda: None), lambda _, values: Local(values[0])
)


def lowered_with_a_callback() -> Lowered:
    def f(x: jax.Array) -> Local:
        doubled = jax.pure_callback(lambda value: np.asarray(value) * 2, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
        return Local(doubled + 1)

    return inspector.lower(f, jnp.ones(3))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_values_pickle_without_process_local_state(protocol: int) -> None:
    point = Point(1, live=lambda: None)
    other = pickle.loads(pickle.dumps(point, protocol))
    assert other == point
    assert (other.x, other.live) == (1, None)
    assert point.live is not None


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda value: copy.deepcopy([value])[0]])
def test_a_copy_keeps_process_local_state(copied: Any) -> None:
    point = Point(1, live=lambda: None)
    assert copied(point).live is point.live


def test_a_lowered_whose_result_is_a_users_class_pickles() -> None:
    lowered = lowered_with_a_callback()
    other = pickle.loads(pickle.dumps(lowered))
    assert other == lowered
    assert (other.out_shape, other.program.callbacks) == (None, None)
    assert other.outputs == lowered.outputs


def test_a_copy_of_a_lowered_still_calls_back() -> None:
    compiled = copy.deepcopy(lowered_with_a_callback()).compile()
    np.testing.assert_array_equal(compiled.run(ONES, repeat=1).outputs[0], ONES * 3)


def test_a_lowered_crosses_to_a_spawned_process() -> None:
    lowered = lowered_with_a_callback()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(operator.attrgetter("program.digest"), (lowered,)) == lowered.program.digest


def test_no_class_relies_on_methods_that_old_pythons_replace() -> None:
    """Before 3.11.4 a frozen dataclass with slots loses them; nobody would notice on a newer Python."""
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in without_hidden(PACKAGE, "*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name in ("__getstate__", "__setstate__")
    ]
    assert not found, f"give these a __reduce__, as inspector.support.cross_process does: {found}"
