"""Costs by scope: the same shares as the roofline's and the profile's groups, in the order of the program; calls told apart."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from benchmarks.workloads import make
from inspector.analysis.cost.line_costs import Amounts
from inspector.analysis.cost.scope_costs import ScopeCost, scope_costs
from inspector.analysis.cost.scopes import scope_of
from inspector.analysis.profile.profile import Profile
from inspector.analysis.profile.rows import ProfileRow
from inspector.engines.inline import InlineEngine
from inspector.errors import Unavailable
from inspector.platforms import Peak

NONE = Unavailable("none")
ROOFS = Peak("toy", {"f32": 1e6}, 1e5, 1 << 30, NONE, NONE, "this test")
A = np.ones((64, 64), np.float32)


def layer(x: Any, w: Any) -> Any:
    with jax.named_scope("layer"):
        return jnp.tanh(x @ w)


def loss(ws: Any, x: Any) -> Any:
    x = layer(x, ws[0])
    x = jax.lax.scan(lambda c, w: (jax.checkpoint(layer)(c, w), None), x, jnp.stack(ws))[0]
    with jax.named_scope("head"):
        return jnp.sum(x**2)


def train(ws: Any, x: Any) -> Any:
    slopes = jax.grad(loss)(ws, x)
    with jax.named_scope("sgd"):
        return [w - 0.1 * slope for w, slope in zip(ws, slopes, strict=True)]


PROGRAMS = {"train": (train, ([A, A, A], A)), "tf1": (make("tf1").fun, make("tf1").args)}
COMPILED: dict[str, tuple[Any, Any]] = {}


def compiled(name: str) -> tuple[Any, Any]:
    if name not in COMPILED:
        fun, arguments = PROGRAMS[name]
        lowered = inspector.lower(fun, *arguments)
        COMPILED[name] = lowered, lowered.compile(engine=InlineEngine())
    return COMPILED[name]


def by_scope(fun: Any, *arguments: Any) -> tuple[ScopeCost, ...]:
    lowered = inspector.lower(fun, *arguments)
    made = lowered.compile(engine=InlineEngine())
    return scope_costs(made.module(), lowered.line_costs(made, ROOFS), made.roofline(ROOFS))


def summed(costs: Iterable[ScopeCost], key: Callable[[ScopeCost], Any]) -> dict[Any, Amounts]:
    sums: dict[Any, Amounts] = collections.defaultdict(Amounts)
    for cost in costs:
        sums[key(cost)] += cost.amounts
    return sums


def path_of(group: str | None) -> tuple[str, ...]:
    return scope_of(f"{group}/op").path if group else ()


def unnumbered(path: tuple[str, ...]) -> tuple[str, ...]:
    scopes = [name for name in path if ", turn " not in name]
    return tuple(name.rstrip("0123456789").rstrip() if " " in name else name for name in scopes)


def paths(costs: Iterable[ScopeCost]) -> list[tuple[str, ...]]:
    return list(dict.fromkeys(cost.path for cost in costs if cost.path and cost.path[-1] != "sort"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_scopes_and_phases_have_the_shares_of_the_groups_of_the_roofline(name: str) -> None:
    lowered, made = compiled(name)
    roofline, costs = made.roofline(ROOFS), lowered.line_costs(made, ROOFS)
    found = scope_costs(made.module(), costs, roofline)
    scopes: dict[tuple[str, ...], Amounts] = collections.defaultdict(Amounts)
    for group in roofline.groups("scope"):
        assert group.share == pytest.approx(float(group.least_s) / costs.total.least_s)
        amounts = Amounts(float(group.least_s), float(group.flops), float(group.main_memory_bytes))
        scopes[path_of(group.name)] += amounts
    sums = summed(found, lambda cost: unnumbered(cost.path))
    assert len(sums) >= 3
    assert {path: amounts.values for path, amounts in sums.items()} == {
        path: pytest.approx(amounts.values) for path, amounts in scopes.items()
    }
    phases = {group.name: group.least_s for group in roofline.groups("phase")}
    assert {"forward", "backward", "rest"} <= set(phases)
    sums = summed(found, lambda cost: cost.phase)
    assert {phase: amounts.least_s for phase, amounts in sums.items()} == pytest.approx(phases)


def test_scopes_have_the_measured_times_of_the_groups_of_a_profile() -> None:
    lowered, made = compiled("train")
    roofline = made.roofline(ROOFS)
    rows = [
        ProfileRow(point.name, point.opcode, "", "CPU:0", 1, n + 1.0, 0.0, 0.0, NONE, NONE, point.parts)
        for n, point in enumerate(roofline.points)
    ]
    rows.append(ProfileRow("copy", "", "", "CPU:0", 1, 5.0, 0.0, 0.0, NONE, NONE))
    profile = Profile("train", ("CPU:0",), tuple(rows), 1, NONE, (1.0,))
    found = scope_costs(made.module(), lowered.line_costs(made, ROOFS, profile), roofline)
    sums = summed(found, lambda cost: unnumbered(cost.path))
    groups: dict[tuple[str, ...], float] = collections.defaultdict(float)
    for group in profile.groups("scope"):
        groups[path_of(group.name)] += group.total_s
    assert {path: amounts.measured_s for path, amounts in sums.items()} == pytest.approx(groups)
    assert found[-1].kernel == ""
    assert found[-1].amounts.measured_s == 5


def test_kernels_are_in_the_order_of_the_program_with_those_of_a_loop_at_the_loop() -> None:
    def looped(x: Any) -> Any:
        with jax.named_scope("before"):
            x = x @ x.T
        with jax.named_scope("inside"):
            x = jax.lax.fori_loop(0, 4, lambda _, y: y @ y, x)
        with jax.named_scope("after"):
            return x.T @ x

    assert paths(by_scope(looped, A)) == [("before",), ("inside",), ("after",)]


def test_scopes_of_equal_names_are_numbered_by_the_lines_that_call_their_function() -> None:
    def calls(x: Any, w: Any) -> Any:
        x = layer(x, w)
        x = jnp.sort(layer(x, w), axis=0)
        return jax.jit(layer)(x, w)

    assert set(paths(by_scope(calls, A, A))) == {("layer 0",), ("layer 1",), ("layer 2", "layer")}
    backwards = by_scope(
        lambda x, w: (
            layer(
                layer(x, w), w
            )
        ), A, A,
    )  # fmt: skip
    assert paths(backwards) == [("layer 1",), ("layer 0",)]  # the order of the lines is not that of the kernels
    slopes = {
        (cost.phase, cost.path) for cost in by_scope(jax.grad(lambda x, w: calls(x, w).sum(), argnums=(0, 1)), A, A)
    }
    told_apart = {("forward", ("layer 0",)), ("backward", ("layer 0",)), ("backward", ("layer 1",))}
    # From JAX 0.12 on, the stack of a derivative also has the frames of the call that it was traced for, of the same function.
    together = {("forward", ("layer",)), ("backward", ("layer",))}
    assert (together if tuple(map(int, jax.__version__.split(".")[:2])) >= (0, 12) else told_apart) <= slopes


def test_scopes_are_together_where_calls_cannot_be_told_apart() -> None:
    def loop(x: Any, w: Any) -> Any:
        for _ in range(3):
            x = layer(x, w)
        return x

    def inline(x: Any, w: Any) -> Any:
        with jax.named_scope("part"):
            x = jnp.tanh(x @ w)
        with jax.named_scope("part"):
            return jnp.sin(x @ w)

    def taken(x: Any, w: Any) -> Any:
        x = layer(x, w)
        x = layer(x, w)
        with jax.named_scope("layer 0"):
            return x @ w

    assert paths(by_scope(loop, A, A)) == [("layer", f"layer, turn {turn} of 3") for turn in (1, 2, 3)]
    assert paths(by_scope(inline, A, A)) == [("part",)]
    assert paths(by_scope(taken, A, A)) == [("layer",), ("layer 0",)]


def test_programs_without_scopes_have_kernels_without_a_path() -> None:
    found = by_scope(lambda x, y: x @ y, A, A)
    assert [(cost.path, cost.phase) for cost in found] == [((), "rest")]
    assert found[0].amounts.flops == 2 * 64**3
