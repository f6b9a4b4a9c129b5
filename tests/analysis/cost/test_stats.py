"""Numbers of programs, side by side."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector.analysis.cost.stats import _in_order, compare, program_stats, stats
from inspector.compilation.cost import Cost
from inspector.compilation.memory import ASSIGNMENT, Memory, MemorySpace
from inspector.compilation.options.options import Options
from inspector.compilation.target import Target
from inspector.engines.inline import InlineEngine
from inspector.errors import AtLeast, Missing, Unavailable
from inspector.stages.compiled import Compiled

HEAPS = Path(__file__).parents[2] / "hlo" / "data" / "heaps"
MAIN = MemorySpace(argument_bytes=100, output_bytes=50, alias_bytes=20, constant_bytes=8, temp_bytes=1000)


def of_spaces(temp_bytes: int = 1000, **others: MemorySpace) -> Memory:
    spaces = {"HBM": dataclasses.replace(MAIN, temp_bytes=temp_bytes), **others}
    return Memory("HBM", spaces, ASSIGNMENT, {}, 7, 0)


MEMORY = of_spaces()
ON_HOST = of_spaces(host=MemorySpace(temp_bytes=64))


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
    assert MEMORY.peak_bytes == 100 + 50 - 20 + 8 + 1000


def test_differences_are_in_the_rows_unit(compiled: Compiled) -> None:
    first = dataclasses.replace(compiled, memory=MEMORY, cost=Cost(10.0, 2.0, 3.0))
    other = dataclasses.replace(
        first,
        memory=of_spaces(temp_bytes=400),
        cost=Cost(15.0, 2.0, 1.0),
        options=Options(flags={"a": 1}),
    )
    table = compare(first, other)
    assert list(table.columns) == ["defaults", "a=1", "delta a=1", "unknown"]
    assert table.loc["peak_bytes"].tolist()[:3] == [1138, 538, -600]
    assert table.loc["flops"].tolist()[:3] == [10, 15, 5]
    assert table.index.name == "number"


def test_unknown_statistics_have_no_difference(compiled: Compiled) -> None:
    none = Unavailable("no statistics")
    first = dataclasses.replace(compiled, memory=ON_HOST)
    blind = dataclasses.replace(compiled, memory=none, cost=Cost(none, 1.0, 1.0), timings={}, target=Target("cpu:2"))
    for a, b, name in ((first, blind, "cpu:2"), (blind, first, "attached")):
        table = compare(a, b)
        unknown = ("cpu:2", f"delta {name}")
        for key in ("peak_bytes", "host_temp_bytes", "flops"):
            assert table["cpu:2"].isna()[key], key
            assert table[f"delta {name}"].isna()[key], key
            assert table.loc[key, "unknown"] == f"{', '.join(n for n in table if n in unknown)}: no statistics"
        known = [next(row.value for row in stats(c) if row.key == "transcendentals") for c in (a, b)]
        assert table.loc["transcendentals", f"delta {name}"] == known[1] - known[0]  # type: ignore[operator]
        assert table[f"delta {name}"].isna()["compile_s"]


def test_host_memory_that_only_one_uses_is_compared_with_zero(compiled: Compiled) -> None:
    on_host = dataclasses.replace(compiled, memory=ON_HOST, target=Target("cpu:1"))
    table = compare(dataclasses.replace(compiled, memory=MEMORY), on_host)
    assert table.loc["host_temp_bytes"].tolist()[:3] == [0, 64, 64]


def test_equal_labels_are_distinguished(compiled: Compiled) -> None:
    assert list(compare(compiled, compiled, compiled).columns) == [
        "defaults", "defaults (1)", "delta defaults (1)", "defaults (2)", "delta defaults (2)", "unknown",
    ]  # fmt: skip


def test_nothing_to_compare() -> None:
    with pytest.raises(ValueError, match=r"compare\(\) takes one or more Compiled, got none"):
        compare()


def test_the_program_in_numbers(compiled: Compiled) -> None:
    rows = {row.key: row.value for row in program_stats(compiled)}
    assert set(rows) == {"kernels", "fusions", "custom_calls", "collectives", "collective_bytes"}
    assert rows["kernels"] >= 1  # type: ignore[operator]
    table = compare(compiled, compiled)
    assert table.loc["kernels"].tolist()[:3] == [rows["kernels"], rows["kernels"], 0]


def test_columns_are_numbers_whatever_is_missing(compiled: Compiled) -> None:
    blind = dataclasses.replace(compiled, cost=Unavailable("no cost analysis"), target=Target("cpu:2"))
    table = compare(compiled, blind)
    assert [str(kind) for kind in table.dtypes[:3]] == ["Float64"] * 3
    assert table["cpu:2"].sum() > 0
    assert table.sort_values("delta cpu:2").index[-1] in table.index


def test_a_partially_known_number_is_marked_and_has_no_difference(compiled: Compiled) -> None:
    part = AtLeast(4176, [Missing("lu.3", "custom call")])
    known = dataclasses.replace(compiled, cost=Cost(part, 0.0, part), target=Target("cpu:2"))
    table = compare(compiled, known)
    assert table.loc["flops", "cpu:2"] == 4176
    assert table["delta cpu:2"].isna()["flops"]
    assert table.loc["flops", "unknown"] == (
        "cpu:2: at least; 1 custom call not counted; delta cpu:2: partly known: 1 custom call not counted"
    )
    assert table.loc["transcendentals", "unknown"] == ""


def scanned(x: Any, w: Any) -> Any:
    return jax.lax.scan(lambda c, _: (jnp.tanh(c @ w), None), x, None, length=6)[0]


def unrolled(x: Any, w: Any) -> Any:
    for _ in range(6):
        x = jnp.tanh(x @ w)
    return x


def test_a_scanned_program_has_the_costs_of_the_unrolled_one() -> None:
    x = np.ones((32, 32), np.float32)
    one, other = (inspector.lower(f, x, x).compile(engine=InlineEngine()) for f in (unrolled, scanned))
    table = compare(one, other)
    flat, loop = table.iloc[:, 0], table.iloc[:, 1]
    assert flat["flops"] == 6 * 2 * 32**3
    assert flat["flops"] <= loop["flops"] < 1.01 * flat["flops"]  # and the loop's counter
    assert flat["transcendentals"] == loop["transcendentals"]
    assert loop["kernels"] >= flat["kernels"] >= 6


def test_memory_spaces_of_different_platforms(compiled: Compiled) -> None:
    on_tpu = dataclasses.replace(
        compiled, memory=of_spaces(VMEM=MemorySpace(temp_bytes=64)), target=Target("tpu:v5e:2x4")
    )
    table = compare(compiled, on_tpu)
    first, second = table.columns[:2]
    assert table.loc["vmem_allocated_bytes", second] == 64
    assert table.loc["peak_bytes", second] == MEMORY.peak_bytes
    assert table[first].isna()["vmem_allocated_bytes"]
    assert "the cpu program has no such memory space" in table.loc["vmem_allocated_bytes", "unknown"]


def test_numbers_that_only_some_programs_have_stand_where_they_do_there() -> None:
    assert _in_order([["a", "c"], ["b", "a", "x", "c", "d"], ["d", "e"]]) == ["b", "a", "x", "c", "d", "e"]
    assert _in_order([[], ["a"]]) == ["a"]
