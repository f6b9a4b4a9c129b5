"""Operands and results of collectives in an execution, compared with NumPy, the run's own results, and textbook algorithms."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

import inspector
from inspector.analysis.collectives.exchanges.textbook import ALGORITHMS
from inspector.errors import ModuleError, ParameterError, Unavailable
from inspector.execution.collective_values import COLUMNS, Observation, Observed

Case = tuple[str, tuple[str, ...], dict[str, Any]]
ENVIRONMENTS = ([("i", 8)], [("i", 2), ("j", 4)], [("i", 4), ("j", 2)], [("a", 2), ("b", 2), ("c", 2)])
ROWS, COLUMNS_OF = 8, 3


def groups_over(environment: Sequence[tuple[str, int]], axes: Sequence[str]) -> list[list[int]]:
    """Ids that differ along the axes alone, in the order in which these are named: the definition, by brute force."""
    names, sizes = [n for n, _ in environment], [s for _, s in environment]
    groups: dict[tuple[int, ...], list[tuple[tuple[int, ...], int]]] = {}
    for number, place in enumerate(itertools.product(*map(range, sizes))):
        fixed = tuple(p for n, p in zip(names, place, strict=True) if n not in axes)
        varying = tuple(place[names.index(axis)] for axis in axes)
        groups.setdefault(fixed, []).append((varying, number))
    return [[number for _, number in sorted(group)] for group in groups.values()]


def expected(primitive: str, values: Sequence[np.ndarray], position: int, settings: dict[str, Any]) -> np.ndarray:
    """Returns the result of the member at a position of a group, by the definitions of `jax.lax`."""
    match primitive:
        case "psum":
            return np.sum(values, 0)
        case "pmax":
            return np.max(values, 0)
        case "pmin":
            return np.min(values, 0)
        case "ppermute":
            come = [values[source] for source, target in settings["perm"] if target == position]
            return come[0] if come else np.zeros_like(values[0])
        case "pbroadcast":
            return np.asarray(values[settings["source"]])
        case "all_gather":
            join = np.concatenate if settings["tiled"] else np.stack
            return join(values, settings["axis"])
        case "reduce_scatter":
            parts = np.split(np.sum(values, 0), len(values), settings["scatter_dimension"])
            return parts[position] if settings["tiled"] else np.squeeze(parts[position], settings["scatter_dimension"])
        case _:
            along, to = settings["split_axis"], settings["concat_axis"]
            parts = [np.split(value, len(values), along)[position] for value in values]
            return np.concatenate(parts, to) if settings["tiled"] else np.stack([p.squeeze(along) for p in parts], to)


CALLS: dict[str, Callable[..., Any]] = {
    "psum": lax.psum,
    "pmax": lax.pmax,
    "pmin": lax.pmin,
    "ppermute": lax.ppermute,
    "pbroadcast": lax.pbroadcast,
    "all_gather": lax.all_gather,
    "reduce_scatter": lax.psum_scatter,
    "all_to_all": lax.all_to_all,
}


def random_case(rng: random.Random, environment: Sequence[tuple[str, int]]) -> Case:
    names = [name for name, _ in environment]
    primitive = rng.choice([name for name in CALLS if name != "pbroadcast"])
    axes = rng.sample(names, rng.randint(1, len(names)))
    count = len(groups_over(environment, axes)[0])
    settings: dict[str, Any] = {}
    is_tiled = rng.random() < 0.5
    groups = None
    if len(environment) == 1 and primitive != "ppermute" and rng.random() < 0.6:
        ids = rng.sample(range(8), 8)
        count = rng.choice([2, 4])
        groups = [ids[start : start + count] for start in range(0, 8, count)]
    if primitive == "ppermute":
        targets = rng.sample(range(count), count)
        settings = {"perm": [pair for pair in enumerate(targets) if rng.random() < 0.7]}
    elif primitive == "all_gather":
        settings = {"axis": rng.randint(0, 1), "tiled": is_tiled}
    elif primitive == "reduce_scatter":
        settings = {"scatter_dimension": 0, "tiled": is_tiled or count != ROWS}
    elif primitive == "all_to_all":
        settings = {"split_axis": 0, "concat_axis": rng.randint(0, 1), "tiled": is_tiled or count != ROWS}
    if groups is not None:
        settings["axis_index_groups"] = groups
    return primitive, tuple(axes), settings


def program(cases: Sequence[Case]) -> Callable[..., Any]:
    """A function with one collective a case, on operands that differ; some in loops, branches and calls."""

    def fun(x: Any) -> list[Any]:
        results = []
        for number, (primitive, axes, settings) in enumerate(cases):

            def one(value: Any, primitive: str = primitive, axes: Any = axes, settings: Any = settings) -> Any:
                return CALLS[primitive](value, axes if len(axes) > 1 else axes[0], **settings)

            operand = x + 100 * number
            match number % 4:
                case 0:
                    results.append(one(operand))
                case 1:
                    results.append(jax.jit(one)(operand))
                case 2:
                    results.append(lax.scan(lambda c, _, one=one: (c + 1, one(c)), operand, None, length=2)[1])
                case _:
                    results.append(lax.cond(jnp.bool_(x.shape[0] > 0), one, one, operand))
        return results

    return fun


def agree(seed: int, environment: Sequence[tuple[str, int]], cases: Sequence[Case], platform: str = "cpu") -> int:
    """Checks cases in one environment; how many textbook algorithms were played."""
    count = len(cases)
    x = np.random.default_rng(seed).integers(-9, 9, (8, ROWS, COLUMNS_OF)).astype(np.float32)
    lowered = inspector.lower(program(cases), x[0], axis_env=environment, platform=platform)
    observed = lowered.observe(x)
    ran = [one for one in observed if max(one.executions)]
    assert len(ran) == count
    assert len(observed) == count + count // 4, "one of two branches runs"
    collectives = lowered.collectives()
    played = 0
    for number, ((primitive, axes, settings), one) in enumerate(zip(cases, ran, strict=True)):
        assert (one.primitive, one.axes) == (primitive, axes)
        assert one.devices == tuple(range(8))
        assert one.executions == (1 + (number % 4 == 2),) * 8
        groups = settings.get("axis_index_groups") or groups_over(environment, axes)
        if primitive == "ppermute":
            groups = [sorted(group) for group in groups]  # JAX counts them so, in whatever order axes are named
        for execution in range(one.recorded_executions):
            before = one.before[0][:, execution]
            if primitive == "all_to_all" and not settings["tiled"]:
                before = before.reshape(x.shape)  # JAX gives the primitive a dimension more, to gather in
            np.testing.assert_array_equal(before, x + 100 * number + execution)
            for group, (position, member) in ((g, place) for g in groups for place in enumerate(g)):
                want = expected(primitive, before[group], position, settings)
                got = one.after[member, execution]
                if primitive == "all_to_all" and not settings["tiled"]:
                    got = got.reshape(want.shape)
                np.testing.assert_array_equal(got, want, err_msg=f"{cases[number]}")
            if primitive != "ppermute" and not isinstance(one.name, Unavailable):
                played += play(collectives, one, groups, execution, settings)
    if platform == "cpu":
        check_results(lowered, x, ran)
    return played


def check_results(lowered: inspector.Lowered, x: np.ndarray, ran: Sequence[Observation]) -> None:
    """Observed values equal the function's own results, of a run without any log."""
    rows = lowered.compile(target="cpu:8").run(x, repeat=1, warmup=0).replicas()
    for number, one in enumerate(ran):
        for device, result in enumerate(rows[f"result[{number}]"]):
            given = result if number % 4 == 2 else result[None]
            np.testing.assert_array_equal(given, one.after[device].reshape(given.shape))


def play(
    collectives: Any, one: Observation, groups: Sequence[Sequence[int]], execution: int, settings: dict[str, Any]
) -> int:
    """Every algorithm's end against what was executed, for the first group."""
    combine = {"pmax": np.maximum, "pmin": np.minimum}.get(one.primitive, np.add)
    collective, played = collectives[one.name], 0
    assert {frozenset(group) for group in collective.groups} == {frozenset(group) for group in groups}
    dimension = collective.dimensions[0] if collective.dimensions else 0
    for algorithm in ALGORITHMS:
        try:
            exchange = collectives.exchange(one.name, algorithm)
        except ModuleError:  # halving of what is no power of two, a tree of an all-to-all
            continue
        members = list(exchange.members)
        shape = collective.operand_shapes[0].dimensions
        operands = [one.before[0][member, execution].reshape(shape) for member in members]
        ends = exchange.play(operands, combine, dimension)
        if one.primitive == "all_to_all" and settings["split_axis"] != settings["concat_axis"]:
            continue  # JAX moves axes around the instruction
        for member, end in zip(members, ends, strict=True):
            got = one.after[member, execution]
            np.testing.assert_allclose(end.reshape(got.shape), got, err_msg=f"{algorithm} {one}")
        played += 1
    return played


@pytest.mark.parametrize("environment", [ENVIRONMENTS[0], ENVIRONMENTS[-1]], ids=str)
def test_random_collectives_agree(environment: list[tuple[str, int]]) -> None:
    assert agree_random(20260 + len(environment), environment, 8) > 8


def agree_random(seed: int, environment: Sequence[tuple[str, int]], count: int) -> int:
    rng = random.Random(seed)
    return agree(seed, environment, [random_case(rng, environment) for _ in range(count)])


def test_broadcasts_which_jax_has_for_gpus_only() -> None:
    cases: list[Case] = [
        ("pbroadcast", (axis,), {"source": source}) for source, axis in zip((0, 1, 1), "abc", strict=True)
    ]
    assert agree(0, ENVIRONMENTS[-1], cases, "gpu") == 3 * 5 + 5, "by each algorithm, one twice in a loop"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1))
@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=str)
def test_more_random_collectives_agree(environment: list[tuple[str, int]], seed: int) -> None:
    assert agree_random(seed, environment, 28) > 20


def ragged(operand: Any, output: Any, begins: Any, sizes: Any, ends: Any, come: Any) -> Any:
    return lax.ragged_all_to_all(operand, output, begins, sizes, ends, come, axis_name="i")


def test_a_ragged_exchange_places_slices_at_the_offsets_of_their_senders() -> None:
    """Member i sends i + 1 rows to each of two members, who have them in the order of the senders."""
    operand = np.arange(8, dtype=np.float32).reshape(2, 4)
    begins, sizes = np.array([[0, 1], [0, 2]], np.int32), np.array([[1, 1], [2, 2]], np.int32)
    ends, come = np.array([[0, 0], [1, 1]], np.int32), np.array([[1, 2], [1, 2]], np.int32)
    output = np.full((2, 4), -1, np.float32)
    given = (operand, output, begins, sizes, ends, come)
    observed = inspector.lower(ragged, *(a[0] for a in given), axis_env=[("i", 2)], platform="gpu").observe(*given)
    (one,) = observed
    assert [before.shape for before in one.before] == [(2, 1, 4), (2, 1, 4), *[(2, 1, 2)] * 4]
    np.testing.assert_array_equal(one.after[:, 0], [[0, 4, 5, -1], [1, 6, 7, -1]])


def test_an_index_has_no_operands_and_is_not_an_exchange() -> None:
    observed = inspector.lower(lambda: lax.axis_index("j"), axis_env=[("i", 2), ("j", 4)]).observe()
    (one,) = observed
    assert one.before == ()
    assert one.after[:, 0].tolist() == [0, 1, 2, 3] * 2
    assert [place["j"] for place in one.coordinates] == [0, 1, 2, 3] * 2
    assert "without communication" in observed.table()["unknown"][0]


def test_a_loop_without_end_in_sight_keeps_the_first_rounds() -> None:
    def fun(x: Any) -> Any:
        return lax.while_loop(lambda c: lax.psum(c, "i") < 100, lambda c: c + lax.pmax(c, "i"), x)

    condition, body = inspector.lower(fun, np.float32(1), axis_env=[("i", 2)]).observe(executions=3)
    assert condition.primitive == "psum"
    assert condition.before[0].shape == (2, 3)
    condition, body = inspector.lower(fun, np.float32(1), axis_env=[("i", 2)]).observe(np.float32(1), executions=3)
    assert (condition.executions, body.executions) == ((7, 7), (6, 6))
    assert condition.before[0].tolist() == [[1, 2, 4]] * 2
    assert body.after.tolist() == [[1, 2, 4]] * 2
    assert re.fullmatch(r"<pmax over i in line \d+: 2 devices, ran 6 times, first 3 recorded>", repr(body))


@pytest.mark.parametrize("check_vma", [False, True])
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=str)
def test_a_shard_map_in_a_loop(kind: AxisType, check_vma: bool) -> None:
    mesh = AbstractMesh((2, 2), ("i", "j"), axis_types=(kind,) * 2)
    spec = PartitionSpec("i", "j")

    def fun(x: Any) -> Any:
        def add(part: Any) -> Any:
            return lax.psum(part, "i") + lax.axis_index("j")

        mapped = jax.shard_map(add, mesh=mesh, in_specs=spec, out_specs=PartitionSpec(None, "j"), check_vma=check_vma)
        return lax.scan(lambda c, _: (c + 1, mapped(c)), x, None, length=3)[1]

    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    given = jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=NamedSharding(mesh, spec))
    lowered = inspector.lower(fun, given)
    summed, index = lowered.observe(x)
    assert summed.devices == index.devices == (0, 1, 2, 3)
    assert summed.executions == (3,) * 4
    assert summed.name == next(iter(lowered.collectives())).name
    blocks = x.reshape(2, 2, 2, 2).swapaxes(1, 2)
    for device, execution in itertools.product(range(4), range(3)):
        i, j = divmod(device, 2)
        np.testing.assert_array_equal(summed.before[0][device, execution], blocks[i, j] + execution)
        np.testing.assert_array_equal(summed.after[device, execution], blocks[:, j].sum(0) + 2 * execution)
        assert index.after[device, execution] == j


def test_a_shard_map_over_one_axis_inside_of_another() -> None:
    mesh = AbstractMesh((2, 2), ("i", "j"), axis_types=(AxisType.Auto,) * 2)

    def inner(part: Any) -> Any:
        return lax.all_gather(part, "j", axis=1, tiled=True)

    def outer(rows: Any) -> Any:
        columns = PartitionSpec(None, "j")
        mapped = jax.shard_map(inner, in_specs=columns, out_specs=PartitionSpec(), axis_names={"j"}, check_vma=False)
        return lax.psum(mapped(rows), "i")

    rows = PartitionSpec("i")
    fun = jax.shard_map(outer, mesh=mesh, in_specs=rows, out_specs=PartitionSpec(), axis_names={"i"}, check_vma=False)
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    gathered, summed = inspector.lower(fun, x).observe(x)
    assert gathered.devices == (0, 1, 2, 3)
    assert gathered.coordinates[1] == {"i": 0, "j": 1}
    np.testing.assert_array_equal(gathered.after[:, 0], [x[:2], x[:2], x[2:], x[2:]])
    assert isinstance(summed.devices, Unavailable)
    assert "all devices along j" in summed.devices.reason
    np.testing.assert_array_equal(summed.after[:, 0], [x[:2] + x[2:]] * 2)


def test_own_derivatives_and_checkpoints_are_opened() -> None:
    @jax.custom_vjp
    def square(x: Any) -> Any:
        return lax.psum(x * x, "i")

    square.defvjp(lambda x: (square(x), x), lambda x, g: (2 * x * lax.pmean(g, "i"),))

    def loss(x: Any) -> Any:
        return jax.checkpoint(lambda y: square(y) + lax.ppermute(y, "i", [(0, 1)]))(x).sum()

    x = np.arange(4, dtype=np.float32)
    observed = inspector.lower(jax.value_and_grad(loss), x, axis_env=[("i", 2)]).observe(x)
    assert [one.primitive for one in observed] == ["psum", "ppermute", "ppermute", "psum"]
    assert all(one.executions == (1, 1) for one in observed)


def summed(x: Any) -> Any:
    return lax.psum(x, "i")


def test_too_large_values_are_not_stored_and_the_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inspector.stages.observing._LOG_BYTES", 1000)
    observed = inspector.lower(
        lambda x: (summed(x), summed(x[:4])), np.ones(100, np.float32), axis_env=[("i", 2)]
    ).observe()
    large, small = observed
    assert isinstance(large.after, Unavailable)
    assert "1,600 bytes on 2 devices" in large.after.reason
    assert small.recorded_executions == 1
    table = observed.table()
    assert tuple(table) == COLUMNS
    assert len(table) == 3
    assert "1,600 bytes" in table["unknown"][0]


def test_errors_say_what_to_do() -> None:
    lowered = inspector.lower(summed, np.ones(4, np.float32), axis_env=[("i", 2)])
    with pytest.raises(ParameterError, match="Expected the number of executions to record per collective, 1 to 65,536"):
        lowered.observe(executions=0)
    with pytest.raises(ParameterError, match="calls no collective"):
        inspector.lower(lambda x: x + 1, np.ones(4)).observe()
    with pytest.raises(ParameterError, match="without its function, so it cannot"):
        inspector.lower(lowered.stablehlo).observe()
    with pytest.raises(ParameterError, match="at most 256 virtual devices"):
        inspector.lower(summed, np.ones(4), axis_env=[("i", 512)]).observe()
    with pytest.raises(
        ParameterError, match=r"No collective 'all-gather' was observed\. Observed collectives \(1\): psum"
    ):
        lowered.observe()["all-gather"]


def test_a_row_is_one_device_of_one_execution() -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    observed = inspector.lower(summed, x[0], axis_env=[("i", 2)]).observe(x)
    assert isinstance(observed, Observed)
    assert repr(observed).startswith("<Observed on cpu: psum over i in line")
    table = observed.table()
    assert table["device"].tolist() == [0, 1]
    assert table["coordinates"].tolist() == [{"i": 0}, {"i": 1}]
    np.testing.assert_array_equal(np.stack(table["before"]), x)
    np.testing.assert_array_equal(np.stack(table["after"]), [x.sum(0)] * 2)
    assert observed[observed[0].name] is observed[0] is observed[-1]
