"""The part of a program that makes its compile slow: divisions, bodies of loops, the search."""

from __future__ import annotations

import pickle
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector._jax.modules.slicing import SlicedOperation
from inspector.api.bisection import compile_search
from inspector.api.bisection.cut_program import CutProgram
from inspector.api.bisection.division import divisions
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.request import CompileRequest
from inspector.engines.shared_engines import worker_engine
from inspector.errors import CancelledError, CompilationError, OptionError, ParameterError, TargetError, Unavailable
from inspector.execution.inputs import Input
from inspector.execution.run import start
from tests.absent import needs_tpu

X = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)


def sorts(x: jax.Array, count: int) -> jax.Array:
    for number in range(count):
        x = jnp.sort(x + number, axis=-1)
    return x


def layers(x: jax.Array, w: jax.Array, slow: tuple[int, ...], count: int = 3) -> jax.Array:
    for i in range(count):
        with jax.named_scope(f"layer_{i}"):
            with jax.named_scope("mlp"):
                x = jnp.tanh(x @ w)
            if i in slow:
                with jax.named_scope("order"):
                    x = sorts(x, 2)
    return x


@pytest.fixture
def cost_of_sorts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compile takes a second for each sort, and 10 ms for each product."""

    def seconds(compiled: CompiledProgram) -> float:
        instructions = [line for line in compiled.hlo.splitlines() if "= " in line]
        return sum(1.0 if " sort(" in line else 0.01 if " dot(" in line else 0.0 for line in instructions)

    monkeypatch.setattr(compile_search, "_seconds", seconds)


def searched(fun: Any, *args: Any, **kwargs: Any) -> inspector.CompileTime:
    return inspector.compile_time(inspector.lower(fun, *args), target="cpu", show_progress=False, **kwargs)


def slowest(found: inspector.CompileTime) -> Any:
    assert not isinstance(found.slowest, Unavailable), found.slowest
    return found.slowest


@pytest.mark.usefixtures("cost_of_sorts")
def test_the_slow_scope_of_all_layers_is_found() -> None:
    found = searched(lambda x, w: layers(x, w, (0, 1, 2)), X, X)
    part = slowest(found)
    assert part.part == "layer_*/order/sort"
    assert part.lines == (f"{__file__}:{sorts.__code__.co_firstlineno + 2}",)
    assert part.lines_text == f"test_compile_time.py:{sorts.__code__.co_firstlineno + 2}"
    assert found.compile_s == pytest.approx(6.03)
    assert part.without_s == pytest.approx(0.03)
    assert part.saved == pytest.approx(1 - 0.03 / 6.03)
    assert not isinstance(found.passes, Unavailable)
    assert found.passes[0].saved_s == max(each.saved_s for each in found.passes)
    table = found.table()
    assert table["part"].iloc[0].startswith("layer_*/order")
    assert [each.phase for each in found.steps].count("passes") == 2
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.slow
@pytest.mark.usefixtures("cost_of_sorts")
def test_the_slow_layer_is_found() -> None:
    part = slowest(searched(lambda x, w: layers(x, w, (1,)), X, X))
    assert part.part == "layer_1/order/sort"
    assert part.operations == 2


@pytest.mark.usefixtures("cost_of_sorts")
def test_the_body_of_a_loop_is_divided() -> None:
    def looped(x: jax.Array, w: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 5, lambda _, x: layers(x, w, (0,), count=1), x)

    found = searched(looped, X, X)
    part = slowest(found)
    assert part.within == f"one iteration of the loop at test_compile_time.py:{looped.__code__.co_firstlineno + 1}"
    assert part.part.endswith("order/sort")
    assert part.whole_s == pytest.approx(2.01)
    assert f" of {part.within} (" in str(found)


@pytest.mark.slow
@pytest.mark.usefixtures("cost_of_sorts")
def test_without_names_lines_are_parts() -> None:
    def plain(x: jax.Array) -> jax.Array:
        a = jax.lax.sort(x)
        b = jax.lax.sort(a + 1)
        return b @ a @ b + jax.lax.sort(b * 2)

    part = slowest(searched(plain, X))
    first = plain.__code__.co_firstlineno
    assert part.part in {f"test_compile_time.py:{first + line}" for line in (1, 2, 3)}


@pytest.mark.slow
@pytest.mark.usefixtures("cost_of_sorts")
def test_a_program_that_is_one_loop_is_divided() -> None:
    found = searched(lambda x: jax.lax.fori_loop(0, 5, lambda _, x: jnp.tanh(sorts(x, 2) @ x), x), X)
    assert slowest(found).within.startswith("one iteration of the loop at test_compile_time.py:")
    assert slowest(found).part == "sort"


def test_a_short_compile_has_no_slow_part() -> None:
    found = searched(jnp.sin, X)
    assert isinstance(found.slowest, Unavailable)
    assert found.parts == ()
    assert "slowest part: unavailable" in str(found)


def test_a_time_limit_that_is_too_short_says_so() -> None:
    with pytest.raises(CompilationError, match="before the whole program was compiled twice"):
        searched(lambda x, w: layers(x, w, (0,)), X, X, time_limit_s=0.01)


def test_bad_parameters() -> None:
    lowered = inspector.lower(jnp.sin, X)
    with pytest.raises(ParameterError, match="Lowered"):
        inspector.compile_time(jnp.sin)  # type: ignore[call-overload]
    with pytest.raises(OptionError):
        inspector.compile_time(lowered, {"xla_no_such_flag": 1}, target="cpu")
    with pytest.raises(TargetError):
        inspector.compile_time(lowered, target="gpu:none:1")
    with pytest.raises(OptionError, match="wait"):
        inspector.compile_time(lowered, target="cpu", wait=1)  # type: ignore[call-overload]


def test_a_job_can_be_canceled_and_keeps_its_steps() -> None:
    lowered = inspector.lower(lambda x, w: layers(x, w, (0, 1, 2)), X, X)
    job = inspector.compile_time(lowered, target="cpu", wait=False, show_progress=False)
    while not job.steps:
        time.sleep(0.05)
    job.cancel()
    with pytest.raises(CancelledError):
        job.result(60)
    assert job.steps[0].tried == "whole program"


def test_one_iteration_of_a_loop_computes_what_the_loop_does() -> None:
    def looped(x: jax.Array, ws: jax.Array) -> tuple[jax.Array, jax.Array]:
        bias = x * 2

        def body(x: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
            y = jax.nn.gelu(x @ w) + bias
            return y, y.sum()

        return jax.lax.scan(body, x, ws)

    ws = np.stack([X, X + 1, X + 2])
    program = inspector.lower(looped, X, ws).compile(target="cpu").program
    cut = CutProgram(program)
    loop = next(at for at, each in enumerate(cut.whole.operations) if each.is_loop)
    body = cut.body(loop)
    kept, inputs, outputs = body.interface(body.candidates)
    part = body.part(kept, inputs, outputs)
    values = {(): np.int32(1), (8, 8): None, (3, 8, 8): ws, (3,): np.zeros(3, np.float32)}
    squares = iter([X, X * 2]) if [a.shape for a in part.arguments].count((8, 8)) == 2 else iter([X * 2, X])
    given = [Input(a, next(squares) if a.shape == (8, 8) else np.asarray(values[a.shape])) for a in part.arguments]
    compiled = worker_engine().submit(CompileRequest(part, inspector.Options(), inspector.Target("cpu"))).result()
    outputs_of = start(compiled, given, worker_engine(), repeat=1, warmup=0).result().outputs
    shapes = sorted(each.shape for each in outputs_of)
    assert shapes == [(), (3,), (8, 8)] or shapes == [(), (), (3,), (8, 8)]
    orders = [
        np.asarray(jax.nn.gelu(first @ ws[1]) + second) for first, second in ((X, X * 2), (X * 2, X))
    ]  # which of both the loop carries depends on the order of its values
    result = next(each for each in outputs_of if each.shape == (8, 8))
    assert any(np.allclose(result, each, rtol=1e-5, atol=1e-5) for each in orders)
    assert any(each.shape == () and int(each) == 2 for each in outputs_of)  # the counter


def operation(op_name: str, name: str = "stablehlo.add", line: int = 0) -> SlicedOperation:
    return SlicedOperation(name, f"jit(f)/{op_name}/add", (), (), (("model.py", line),) if line else ())


def names(way: Any) -> list[str]:
    return [each.name for each in way]


def test_numbered_scopes_are_one_part_until_only_their_numbers_differ() -> None:
    operations = [operation(f"layer_{i}/{what}") for i in range(3) for what in ("mlp", "mlp", "norm")]
    first = divisions(operations, range(9))[0]
    assert names(first) == ["layer_*/mlp", "layer_*/norm"]
    assert divisions(operations, first[0].members) == []  # equal layers
    operations.append(operation("layer_1/mlp", "stablehlo.sort"))
    by_number = divisions(operations, [*first[0].members, 9])[0]
    assert names(by_number) == ["layer_1", "layer_0", "layer_2"]


def test_loops_are_parts_and_lines_come_after_scopes() -> None:
    operations = [operation("a", line=1), operation("a", line=2), operation("a", "stablehlo.while", line=3)]
    ways = divisions(operations, range(3))
    assert names(ways[0]) == ["other operations of a", "loop at model.py:3"]
    assert names(ways[1]) == ["model.py:1", "model.py:2", "model.py:3"]


def test_many_parts_are_collected_and_divided_later() -> None:
    operations = [operation(chr(ord("a") + i)) for i in range(20) for _ in range(20 - i)]
    first = divisions(operations, range(len(operations)))[0]
    assert len(first) == 12
    assert first[-1].is_rest
    assert first[-1].name == "9 smaller parts"
    assert len(divisions(operations, first[-1].members)[0]) == 9


def test_operations_without_names_and_lines_are_divided_into_neighbors() -> None:
    operations = [SlicedOperation("stablehlo.add", "", (), ()) for _ in range(10)]
    ways = divisions(operations, range(10))
    assert [len(each.members) for each in ways[0]] == [3, 3, 3, 1]
    assert divisions(operations, [0]) == []


@pytest.mark.slow
@needs_tpu
def test_a_sharded_program_for_a_tpu_that_is_not_here() -> None:
    mesh = jax.sharding.AbstractMesh((4,), ("x",))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    x = jax.ShapeDtypeStruct((64, 64), jnp.float32, sharding=rows)
    lowered = inspector.lower(lambda x: layers(x, x, (1,)), x)
    found = inspector.compile_time(lowered, target="tpu:v5e:2x2", show_progress=False)
    assert found.parts
    assert all(isinstance(each.alone_s, float) for each in found.parts)
