"""Tables: numbers are numbers whatever is missing, and what is missing says why."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import inspector
from inspector.errors import AtLeast, Missing, Unavailable
from inspector.support.tables import UNKNOWN, Column, Kind, make_table, table_of
from tests.kernels import scale, struct

KINDS: dict[str, Kind] = {
    "name": "text", "count": "int", "seconds": "float", "changed": "bool", "parts": "object", UNKNOWN: "reasons",
}  # fmt: skip
WHY = Unavailable("nobody counted", "count")


def test_numbers_stay_numbers_next_to_missing_values() -> None:
    table = make_table(KINDS, [("a", 1, WHY, True, [1]), ("b", WHY, 2.5, WHY, []), ("c", 2, None, False, WHY)])
    assert list(table.columns) == list(KINDS)
    assert [str(table[name].dtype) for name in ("count", "seconds", "changed")] == ["Int64", "Float64", "boolean"]
    assert table["count"].sum() == 3
    assert table.sort_values("count")["name"].tolist() == ["a", "c", "b"]
    assert table[UNKNOWN].tolist() == [
        "seconds: nobody counted (count)",
        "count, changed: nobody counted (count)",
        "parts: nobody counted (count)",
    ]
    assert table["parts"].tolist() == [[1], [], None]
    assert table.isna().sum().sum() == 5


def test_a_table_can_be_drawn_where_values_are_missing() -> None:
    table = make_table(KINDS, [("a", 1, WHY, True, []), ("b", 3, 2.5, False, [])])
    axes = table.plot.bar(x="name", y="seconds")
    assert len(axes.patches) == 2
    plt.close(axes.figure)


def test_a_partially_known_number_is_a_marked_number() -> None:
    table = make_table(KINDS, [("a", 1, AtLeast(2.5, [Missing("call", "custom call", "not counted")]), True, [])])
    assert table["seconds"].sum() == 2.5
    assert table[UNKNOWN][0] == "seconds: at least; 1 custom call not counted"


def test_an_empty_table_has_the_types_of_a_full_one() -> None:
    table = make_table(KINDS, [])
    assert len(table) == 0
    assert [str(table[name].dtype) for name in ("count", "seconds", "changed")] == ["Int64", "Float64", "boolean"]
    assert list(pd.concat([table, table]).columns) == list(KINDS)


def test_a_large_whole_number_stays_exact() -> None:
    assert make_table({"bytes": "int"}, [((1 << 62) + 1,), (None,)])["bytes"][0] == (1 << 62) + 1


def test_nothing_is_missing_without_a_word() -> None:
    with pytest.raises(ValueError, match="the table has no column for reasons: count: nobody counted"):
        make_table({"count": "int"}, [(1,), (WHY,)])


def test_a_row_that_is_too_short_is_refused() -> None:
    with pytest.raises(ValueError):  # noqa: PT011  zip's own
        make_table({"count": "int", "name": "text"}, [(1, "a"), (2,)])


MIXED = {"default", "value"}  # values of flags, of whatever type


def mistakes(table: pd.DataFrame) -> list[str]:
    """Columns that are no numbers and hold some, or hold an object where a value is missing."""
    found = []
    for name, column in table.items():
        values = [value for value in column if not (pd.api.types.is_scalar(value) and pd.isna(value))]
        unknown = [value for value in values if isinstance(value, Unavailable)]
        numbers = [value for value in values if isinstance(value, (int, float, np.number))]
        if unknown or (numbers and name not in MIXED and not pd.api.types.is_numeric_dtype(column.dtype)):
            found.append(f"{name} ({column.dtype}): {(unknown or numbers)[0]!r}")
    return found


def test_mistakes_in_tables() -> None:
    wrong = pd.DataFrame({"a": [1, WHY], "b": [1, "two"], "c": [1.5, 2.5], "d": ["x", None], "e": [True, None]})
    assert [found.partition(" ")[0] for found in mistakes(wrong)] == ["a", "b", "e"]


def _step(x: jax.Array, w: jax.Array) -> jax.Array:
    return jax.lax.fori_loop(0, 3, lambda _, c: jnp.tanh(c @ w), x).sum() + jnp.linalg.qr(w)[0].sum()


@pytest.fixture(scope="module")
def compiled() -> inspector.Compiled:
    x = jax.ShapeDtypeStruct((32, 32), jnp.float32)
    return inspector.lower(_step, x, x).compile(target="cpu", products=("passes", "assembly", "buffers"))


TABLES: Mapping[str, Callable[[inspector.Compiled], pd.DataFrame]] = {
    "passes": lambda c: c.passes.table(),
    "assembly": lambda c: c.assembly.table(),
    "memory": lambda c: c.memory.table(),
    "timeline": lambda c: c.timeline().table(),
    "timeline by space": lambda c: c.timeline().space_table(),
    "instructions": lambda c: c.instructions(),
    "roofline": lambda c: c.roofline().table(),
    "roofline by scope": lambda c: c.roofline().by("scope"),
    "compare": lambda c: inspector.compare(c, dataclasses.replace(c, cost=WHY, memory=WHY)),
    "collectives": lambda c: c.collectives().table(),
    "targets": lambda c: inspector.targets(),
    "option_catalog": lambda c: inspector.option_catalog(),
    "kernel": lambda c: inspector.lower(scale, struct(64, 128), platform="tpu").kernels[0].table(),
}  # type: ignore[misc]


@pytest.mark.parametrize("name", TABLES)
def test_every_public_table_holds_numbers(compiled: inspector.Compiled, name: str) -> None:
    table = TABLES[name](compiled)
    assert mistakes(table) == []
    for column, dtype in table.dtypes.items():
        if pd.api.types.is_numeric_dtype(dtype):
            table[column].sum()
            table.sort_values(column)


def test_a_table_of_replicas_members_and_collectives_holds_numbers() -> None:
    program = inspector.lower(lambda x: jax.lax.psum(x, "i"), np.ones(4, np.float32), axis_env=[("i", 4)])
    summed = program.compile(target="cpu:4")
    found = summed.collectives()
    for table in (found.table(), found.members(found[0].name), summed.run(repeat=1).replicas()):
        assert mistakes(table) == []


@pytest.mark.parametrize("seed", range(5))
def test_a_table_of_shared_cells_is_that_of_its_rows(seed: int) -> None:
    random = np.random.default_rng(seed)
    partly = AtLeast(2.5, [Missing("call", "custom call", "not counted")])
    cells: dict[str, list[object]] = {
        "name": ["a", "b", None],
        "count": [1, WHY, None, 2**40],
        "seconds": [partly, 1.5, WHY, Unavailable("another reason")],
        "changed": [True, None, WHY],
        "parts": [[1], None, []],
    }
    codes = {name: random.integers(-1, len(values), 200) for name, values in cells.items()}
    rows = [[cells[name][codes[name][row]] for name in cells] for row in range(200)]
    shared = {name: Column(values, codes[name]) for name, values in cells.items()}
    pd.testing.assert_frame_equal(table_of(KINDS, shared), make_table(KINDS, rows))
    own = shared | {"seconds": Column([row[2] for row in rows])}
    pd.testing.assert_frame_equal(table_of(KINDS, own), make_table(KINDS, rows))


def test_unused_values_need_no_reason() -> None:
    table = table_of({"count": "int"}, {"count": Column([1, WHY], np.array([0, 0]))})
    assert table["count"].tolist() == [1, 1]
    with pytest.raises(ValueError, match="the table has no column for reasons"):
        table_of({"count": "int"}, {"count": Column([1, WHY], np.array([0, 1]))})
