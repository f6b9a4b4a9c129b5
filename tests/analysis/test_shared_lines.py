"""How what an operation costs is shared by the lines that stand for it: small listings, with every share."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from inspector.analysis.cost.line_costs import OPTIMIZED, Amounts, LineCosts, _Pieces, line_costs
from inspector.analysis.cost.roofline import roofline
from inspector.analysis.hlo_listing import hlo_listing
from inspector.compilation.cost import InstructionCost
from inspector.errors import Unavailable
from inspector.hlo.listing import Listing
from inspector.hlo.source import Frame, Origin, Root
from inspector.platforms import Peak
from tests.analysis.test_passes_of_grown import text
from tests.modules import module_of

NONE = Unavailable("none")
HERE, THERE, INNER = Frame("model.py", 3), Frame("model.py", 7), Frame("library.py", 90)
ROOFS = Peak("toy", {"f32": 1e6}, 1e5, 1 << 30, NONE, NONE, "this test")


def at(name: str, *frames: Frame) -> tuple[Origin, ...]:
    return (Origin(name, frames),)


def shares(listing: Listing, origins: Sequence[Origin], name: str = "stablehlo") -> dict[int | None, float]:
    """Maps each line to its share of eight operations that have these origins."""
    spent = _Pieces({}, {(tuple(origins), "rest"): Amounts(flops=8.0)})
    found = LineCosts({name: listing, OPTIMIZED: listing}, Amounts(flops=8.0), NONE, True, True, NONE, (), {}, spent)
    return {cost.line: cost.amounts.flops for cost in found.on(name)}


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("jit(f)/mul", {0: 8.0}),  # by its own name and line
        ("jit(f)/other/mul", {0: 8 / 3, 1: 8 / 3, 2: 8 / 3}),  # by its primitive on the line
        ("jit(f)/sin", {0: 2.0, 1: 2.0, 2: 2.0, 3: 2.0}),  # by the line alone
        ("jit(f)/jit(g)/mul", {0: 8.0}),  # calls around it are no part of its name
        ("jit(f)/shard_map/mul", {0: 8.0}),
        ("jit(f)/pjit/mul", {0: 8.0}),
        ("jit(f)/body/mul", {1: 4.0, 2: 4.0}),
    ],
)
def test_an_operation_is_known_by_its_name_and_line_then_by_ever_less(name: str, lines: dict[int, float]) -> None:
    listing = Listing.of(
        "a\nb\nc\nd\ne\nf",
        [at("jit(f)/mul", HERE), at("jit(f)/body/mul", HERE), at("jit(f)/body/mul", HERE), at("jit(f)/add", HERE),
         at("jit(f)/mul", THERE), ()],
    )  # fmt: skip
    assert shares(listing, at(name, HERE)) == pytest.approx(lines)


def test_origins_without_a_line_are_identified_by_name() -> None:
    listing = Listing.of("a\nb\nc", [at("jit(f)/mul"), at("jit(f)/g/mul"), at("jit(f)/mul", HERE)])
    assert shares(listing, at("jit(f)/mul")) == {0: 8.0}
    assert shares(listing, at("jit(f)/add")) == {None: 8.0}


def test_several_operations_merged_into_one_share_it_and_each_of_them_its_lines() -> None:
    listing = Listing.of("a\nb\nc", [at("jit(f)/mul", HERE), at("jit(f)/add", THERE), at("jit(f)/add", THERE)])
    merged = [*at("jit(f)/mul", HERE), *at("jit(f)/add", THERE)]
    assert shares(listing, merged) == {0: 4.0, 1: 2.0, 2: 2.0}
    assert shares(listing, [*merged, *at("jit(f)/nothing", Frame("x.py", 1))]) == {0: 4.0, 1: 2.0, 2: 2.0}
    assert shares(listing, []) == {None: 8.0}


def test_constants_share_no_lines_with_their_users() -> None:
    lines = ["  %0 = stablehlo.constant dense<1.0>", "  %1 = stablehlo.multiply %0, %x", "  c = f32[] constant(2)"]
    listing = Listing.of("\n".join(lines), [at("jit(f)/mul", HERE), at("jit(f)/mul", HERE), at("jit(f)/c", THERE)])
    assert shares(listing, at("jit(f)/mul", HERE)) == {1: 8.0}
    assert shares(listing, at("jit(f)/c", THERE)) == {2: 8.0}  # where nothing else stands for it


def test_a_line_that_stands_for_one_operation_twice_has_it_once() -> None:
    twice = (Origin("jit(f)/a/mul", (HERE,)), Origin("jit(f)/b/mul", (HERE,)))
    listing = Listing.of("a\nb", [twice, at("jit(f)/c/mul", HERE)])
    assert shares(listing, at("jit(f)/d/mul", HERE)) == {0: 4.0, 1: 4.0}


def test_in_python_it_is_the_innermost_line_that_is_shown() -> None:
    source = Listing.of("x = 1\ny = f(x)\nz = y", [at("", Frame("model.py", 2)), at("", HERE), at("", THERE)])
    assert shares(source, at("jit(f)/mul", INNER, HERE, THERE), "source") == {1: 8.0}
    assert shares(source, at("jit(f)/mul", INNER, THERE, HERE), "source") == {2: 8.0}
    assert shares(source, at("jit(f)/mul", INNER), "source") == {None: 8.0}


def test_amounts_are_added_and_shared_one_by_one() -> None:
    assert Amounts(1, 2, 3, 4) + Amounts(10, 20, 30, 40) == Amounts(11, 22, 33, 44)
    assert Amounts(1, 2, 3, 4).part(0.5) == Amounts(0.5, 1, 1.5, 2)


# --------------------------------------------------------------------------- of a module

MODULE = """HloModule m, is_scheduled=true
inner {
  i.p = f32[8]{0} parameter(0)
  ROOT i.s = f32[8]{0} multiply(i.p, i.p), metadata={op_name="jit(f)/jvp(a)/mul"}
}
outer {
  o.p = f32[8]{0} parameter(0)
  o.f = f32[8]{0} fusion(o.p), kind=kLoop, calls=inner
  o.n = f32[8]{0} add(o.f, o.p), metadata={op_name="jit(f)/transpose(jvp(a))/add"}
  ROOT o.c = f32[8]{0} copy(o.n)
}
ENTRY main {
  x = f32[8]{0} parameter(0)
  f = f32[8]{0} fusion(x), kind=kLoop, calls=outer
  ROOT t = f32[8]{0} tanh(f), metadata={op_name="jit(f)/tanh"}
}
"""


def costs_of(**flops: float | Unavailable) -> dict[str, InstructionCost]:
    module = module_of(MODULE)
    names = [i.name for i in module.instructions()]
    return {name: InstructionCost(flops.get(name.replace(".", "_"), 0.0), 0.0, 0.0, 0.0) for name in names}


def spent(costs: dict[str, InstructionCost]) -> LineCosts:
    module = module_of(MODULE)
    listing = hlo_listing(text(module), module, Root())
    return line_costs(module, {OPTIMIZED: listing, "hlo": listing}, roofline(module, costs, ROOFS), NONE)


def by_line(found: LineCosts, name: str) -> dict[tuple[str, str | None], float]:
    lines = found.listings[name].text.split("\n")
    told = [(cost.line, cost.phase, cost.amounts.flops) for cost in found.on(name) if cost.amounts.flops]
    return {
        ("" if line is None else lines[line].split(" = ")[0].split("%")[-1], phase): flops
        for line, phase, flops in told
    }


def test_operations_of_a_kernel_include_nested_fusions() -> None:
    found = spent(costs_of(f=40.0, i_s=30.0, o_n=10.0, o_f=30.0, t=8.0))
    assert found.total.flops == 48.0
    assert by_line(found, "hlo") == {("i.s", "forward"): 30.0, ("o.n", "backward"): 10.0, ("t", "rest"): 8.0}
    assert by_line(found, OPTIMIZED) == {("f", "forward"): 30.0, ("f", "backward"): 10.0, ("t", "rest"): 8.0}


def test_where_nothing_inside_is_counted_the_kernel_has_its_operations_itself() -> None:
    found = spent(costs_of(f=40.0, o_n=NONE))
    assert found.total.flops == 40.0
    assert sum(by_line(found, OPTIMIZED).values()) == 40.0
    assert {name for name, _ in by_line(found, OPTIMIZED)} == {"f"}


def test_lines_are_in_order_and_entries_without_a_line_last() -> None:
    found = spent(costs_of(f=40.0, i_s=30.0, o_n=10.0, t=8.0))
    lines = [(cost.line is None, cost.line or 0, cost.phase or "") for cost in found.on("hlo")]
    assert lines == sorted(lines)
    table = found.table(OPTIMIZED)
    shown = found.listings[OPTIMIZED].text.split("\n")
    for line, said in zip(table["line"], table["text"], strict=True):
        assert shown[int(line) - 1] == said
