"""The table of instructions, held to XLA's own text and to NumPy's sizes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector.compilation.cost import Cost
from inspector.engines.inline import InlineEngine
from inspector.stages.compiled import Compiled
from tests.absent import needs_gpu, needs_tpu


def scored(x: Any, w: Any) -> Any:
    with jax.named_scope("layer"):
        y = jnp.tanh(x @ w) * 2 + 1  # the marked line
    return y, jnp.argmax(y)


LINES = Path(__file__).read_text(encoding="utf-8").splitlines()
LINE = 1 + next(i for i, line in enumerate(LINES) if line.endswith("# the marked line"))


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    x = np.ones((8, 4), np.float32)
    return inspector.lower(scored, x, x.T).compile(engine=InlineEngine())


def test_columns_and_one_row_an_instruction(compiled: Compiled) -> None:
    table = compiled.instructions()
    assert list(table.columns) == [
        "name", "opcode", "computation", "shape", "operand_bytes", "output_bytes", "flops", "fusion", "scope",
        "source_file", "source_line", "transcendentals", "bytes_accessed", "main_memory_bytes", "counted_in",
        "executions", "estimated_cycles", "phase", "library_line", "total_flops", "total_transcendentals",
        "total_bytes_accessed", "total_main_memory_bytes", "unknown",
    ]  # fmt: skip
    defined = [line for line in compiled.hlo.splitlines() if line.startswith("  ") and " = " in line]
    named = {line.strip().removeprefix("ROOT ").removeprefix("%").split(" = ")[0] for line in defined}
    assert set(table["name"]) == named
    assert len(table) == len(named)


def test_the_outermost_sum_to_the_programs_cost(compiled: Compiled) -> None:
    table = compiled.instructions()
    outermost = table[table["counted_in"].isna()]
    assert isinstance(compiled.cost, Cost)
    assert outermost["flops"].sum() == compiled.cost.flops
    assert outermost["transcendentals"].sum() == compiled.cost.transcendentals
    assert outermost["bytes_accessed"].sum() == compiled.cost.bytes_accessed
    assert set(outermost["computation"]) == {compiled.module().entry.name}
    assert set(outermost["executions"]) == {1}


def scanned(x: Any, ws: Any) -> Any:
    return jax.lax.scan(lambda c, w: (jnp.tanh(c @ w) + 1, c.sum()), x, ws)


def nested(x: Any, ws: Any) -> Any:
    return jax.lax.fori_loop(0, 3, lambda _, c: scanned(c, ws)[0], x)


@pytest.mark.parametrize(
    "target", ["cpu", pytest.param("gpu:h100:1", marks=needs_gpu), pytest.param("tpu:v5e:1x1", marks=needs_tpu)]
)
@pytest.mark.parametrize("fun", [scanned, nested])
def test_the_totals_of_all_rows_sum_to_the_programs_cost(fun: Any, target: str) -> None:
    x, ws = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((64, 64), (5, 64, 64)))
    engine = InlineEngine() if target == "cpu" else None
    program = inspector.lower(fun, x, ws, target=target).compile(target=target, engine=engine)
    table, cost = program.instructions(), program.cost
    assert isinstance(cost, Cost)
    assert "while" in set(table["opcode"])
    assert table["flops"].sum() > cost.flops  # a loop's row holds what the rows of its body have too
    moved = "total_main_memory_bytes" if target.startswith("tpu") else "total_bytes_accessed"
    assert table["total_flops"].sum() == pytest.approx(cost.flops)
    assert table["total_transcendentals"].sum() == pytest.approx(cost.transcendentals)
    assert table[moved].sum() == pytest.approx(cost.bytes_accessed)
    by_opcode = table.groupby("opcode")["total_flops"].sum()
    assert by_opcode["while"] == 0
    assert by_opcode.sum() == pytest.approx(cost.flops)


def test_totals_of_an_unknown_number_of_runs_are_missing_with_the_reason() -> None:
    def looped(x: Any, count: Any) -> Any:
        return jax.lax.fori_loop(0, count, lambda _, v: v @ v, x)

    program = inspector.lower(looped, np.eye(8, dtype=np.float32), np.int32(2)).compile(engine=InlineEngine())
    table = program.instructions()
    unknown = table[
        table["total_flops"].isna() & (table["flops"] > 0) & table["fusion"].isna() & (table["opcode"] != "while")
    ]
    assert len(unknown)
    assert all("total_flops" in reason for reason in unknown["unknown"])


def test_fused_instructions_have_no_memory_traffic(compiled: Compiled) -> None:
    table = compiled.instructions()
    for name, rows in table[table["fusion"].notna()].groupby("fusion"):
        assert rows["flops"].sum() == table.set_index("name").loc[name, "flops"]
        assert set(rows["counted_in"]) == {name}
        assert rows["bytes_accessed"].isna().all()
        assert all("accesses memory as a whole" in reason for reason in rows["unknown"])


def test_sizes_scopes_and_source_lines(compiled: Compiled) -> None:
    table = compiled.instructions()
    dot = table[table["opcode"] == "dot"].iloc[0]
    assert (dot["operand_bytes"], dot["output_bytes"]) == (2 * 8 * 4 * 4, 8 * 8 * 4)
    assert dot["scope"] == "jit(scored)/layer"
    assert (dot["source_file"], dot["source_line"]) == (__file__, LINE)
    sizes = {"f32": 4, "s32": 4, "pred": 1}
    for row in table.itertuples():
        if "(" not in row.shape:
            kind, _, dims = row.shape.partition("[")
            dims = dims.partition("]")[0]
            assert row.output_bytes == sizes[kind] * math.prod(map(int, filter(None, dims.split(",")))), row.shape


def test_fused_instructions_name_their_fusion(compiled: Compiled) -> None:
    table = compiled.instructions()
    fused = table[table["fusion"].notna()]
    assert len(fused)
    module = compiled.module()
    for row in fused.itertuples():
        assert row.computation in [c.name for c in module.instruction(row.fusion).called_computations]
    outside = table[table["fusion"].isna()]
    assert set(outside[outside["computation"] == module.entry.name]["name"]) == {
        i.name for i in module.entry.instructions
    }


def test_numbers_are_numbers(compiled: Compiled) -> None:
    table = compiled.instructions()
    for name in ("flops", "transcendentals", "bytes_accessed", "main_memory_bytes"):
        assert str(table[name].dtype) == "Float64", name
        assert table[name].sum() >= 0
    for name in ("operand_bytes", "output_bytes", "source_line", "executions", "estimated_cycles"):
        assert str(table[name].dtype) == "Int64", name
    assert table.sort_values("flops", ascending=False)["opcode"].iloc[0] in ("dot", "fusion")
