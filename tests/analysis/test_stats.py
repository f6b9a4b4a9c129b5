"""Numbers of programs, side by side."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector.analysis.stats import compare, stats
from inspector.compilation.compiled import Compiled, Cost, Memory
from inspector.compilation.options import Options
from inspector.compilation.target import Target
from inspector.engines.inline import InlineEngine
from inspector.errors import Unavailable

MEMORY = Memory(100, 50, 20, 1000, 7, 0, 0, 0, 0, 0)


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    x = np.ones((8, 4), np.float32)
    return inspector.lower(lambda a, b: jnp.tanh(a @ b), x, x.T).compile(engine=InlineEngine())


def test_every_number_is_the_compilers(compiled: Compiled) -> None:
    rows = {row.key: row for row in stats(compiled)}
    # By hand: arguments 2 x 8x4 floats, result 8x8 floats, a multiply and an add each, one tanh an element.
    assert rows["argument_bytes"].value == 2 * 8 * 4 * 4
    assert rows["output_bytes"].value == 8 * 8 * 4
    assert rows["flops"].value == 2 * 8 * 8 * 4
    assert rows["transcendentals"].value == 64
    assert rows["compile_s"].value == compiled.timings["compile_s"]
    assert not any(key.startswith("host_") for key in rows)
    assert all(
        row.unit == ("bytes" if "bytes" in key else "seconds" if key.endswith("_s") else "count")
        for key, row in rows.items()
    )


def test_the_peak_counts_a_reused_argument_once() -> None:
    assert MEMORY.peak_bytes == 100 + 50 - 20 + 1000


def test_differences_are_in_the_rows_unit(compiled: Compiled) -> None:
    first = dataclasses.replace(compiled, memory=MEMORY, cost=Cost(10.0, 2.0, 3.0))
    other = dataclasses.replace(
        first,
        memory=dataclasses.replace(MEMORY, temp_bytes=400),
        cost=Cost(15.0, 2.0, 1.0),
        options=Options(flags={"a": 1}),
    )
    table = compare(first, other)
    assert list(table.columns) == ["defaults", "a=1", "delta a=1"]
    assert table.loc["peak_bytes"].tolist() == [1130, 530, -600]
    assert table.loc["flops"].tolist() == [10, 15, 5]
    assert table.index.name == "number"


def test_what_one_does_not_know_has_no_difference(compiled: Compiled) -> None:
    none = Unavailable("no statistics")
    first = dataclasses.replace(compiled, memory=dataclasses.replace(MEMORY, host_temp_bytes=64))
    blind = dataclasses.replace(compiled, memory=none, cost=Cost(none, 1.0, 1.0), timings={}, target=Target("cpu", 2))
    for a, b, name in ((first, blind, "cpu:2"), (blind, first, "attached")):
        table = compare(a, b)
        for key in ("peak_bytes", "host_temp_bytes", "flops"):
            assert table.loc[key, "cpu:2"] == none, key
            assert table.loc[key, f"delta {name}"] == none, key
        assert table.loc["transcendentals", f"delta {name}"] == stats(b)[-3].value - stats(a)[-3].value  # type: ignore[operator]
        assert isinstance(table.loc["compile_s", f"delta {name}"], Unavailable)


def test_host_memory_that_only_one_uses_is_compared_with_zero(compiled: Compiled) -> None:
    on_host = dataclasses.replace(
        compiled, memory=dataclasses.replace(MEMORY, host_temp_bytes=64), target=Target("cpu", 1)
    )
    table = compare(dataclasses.replace(compiled, memory=MEMORY), on_host)
    assert table.loc["host_temp_bytes"].tolist() == [0, 64, 64]


def test_equal_labels_are_told_apart(compiled: Compiled) -> None:
    assert list(compare(compiled, compiled, compiled).columns) == [
        "defaults", "defaults (1)", "delta defaults (1)", "defaults (2)", "delta defaults (2)",
    ]  # fmt: skip


def test_nothing_to_compare() -> None:
    with pytest.raises(ValueError, match=r"compare\(\) takes one or more Compiled, got none"):
        compare()
