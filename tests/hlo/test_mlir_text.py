"""MLIR text without its locations, and where each line came from; held to MLIR's own printer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from benchmarks.workloads import make
from inspector._jax.modules import stablehlo
from inspector.analysis.hlo_listing import hlo_listing
from inspector.engines.inline import InlineEngine
from inspector.hlo.listing import Listing
from inspector.hlo.mlir_text import read_located_text
from inspector.hlo.module import Module
from inspector.hlo.source import Frame, Origin
from inspector.stages.lowered import Lowered


@jax.custom_jvp
def custom_rule(x: Any) -> Any:
    return jnp.sin(x) * 2


custom_rule.defjvp(lambda primals, tangents: (custom_rule(*primals), jnp.cos(primals[0]) * tangents[0]))


@jax.custom_vjp
def custom_pullback(x: Any) -> Any:
    return jnp.exp(x) * 2


custom_pullback.defvjp(lambda x: (custom_pullback(x), x), lambda x, g: (g * x,))


def control_flow(x: Any, n: Any) -> Any:
    a = custom_rule(x) + custom_pullback(x)
    b = jax.checkpoint(lambda v: jnp.tanh(v) + 1)(x)
    c = lax.scan(lambda carry, _: (jnp.log(carry), None), x, None, length=2)[0]
    d = lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, jnp.sqrt(s[1])), (0, x))[1]
    e = lax.switch(n, [lambda v: v - 1, lambda v: v / 2, lax.rsqrt], x)
    f = lax.reduce(x, jnp.float32(0), lambda p, q: p * q + p, (0,))
    return a + b + c + e + f, d, lax.sort((x, x), num_keys=1)[1]


def called_twice(x: Any) -> Any:
    @jax.jit
    def inner(v: Any) -> Any:
        return jax.nn.relu(v) * 3

    with jax.named_scope("first"):
        y = inner(x)
    with jax.named_scope("second"):
        return inner(y)


def odd_names(x: Any) -> Any:
    with jax.named_scope('é"q\\ loc(#loc1) :7:8'):
        return jnp.take(jnp.asarray([1.5, 2.5]), x.astype(int)) * 2


def sharded(x: Any) -> Any:
    mesh = AbstractMesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    body = lambda v: lax.psum(v * 2, ("x", "y"))  # noqa: E731
    return jax.shard_map(body, mesh=mesh, in_specs=P("x", "y"), out_specs=P(), check_vma=False)(x)


X = jnp.ones(3)
CASES: dict[str, Callable[[], Lowered]] = {
    "control flow": lambda: inspector.lower(control_flow, X, 2),
    "gradient": lambda: inspector.lower(jax.grad(lambda x: control_flow_sum(x)), X),
    "called twice": lambda: inspector.lower(called_twice, X),
    "odd names": lambda: inspector.lower(odd_names, X),
    "shard_map": lambda: inspector.lower(sharded, abstract(8, 4)),
    "replicas": lambda: inspector.lower(lambda x: lax.psum(x, "i") + lax.axis_index("i"), X, axis_env=[("i", 4)]),
    "constants": lambda: inspector.lower(lambda x: x + np.arange(300, dtype=np.float32).reshape(100, 3), X),
    **{name: lambda name=name: lower_workload(name) for name in ("tiny", "mlp", "cnn", "tf1", "tf2", "tfscan12")},  # type: ignore[misc]
}


def control_flow_sum(x: Any) -> Any:
    y = custom_rule(x) + custom_pullback(x) + jax.checkpoint(jnp.tanh)(x)
    return (y + lax.scan(lambda carry, _: (jnp.log(carry), None), x, None, length=2)[0]).sum()


def abstract(*shape: int) -> Any:
    mesh = AbstractMesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, P("x", "y")))


def lower_workload(name: str) -> Lowered:
    workload = make(name)
    return inspector.lower(workload.fun, *workload.args)


@pytest.fixture(scope="module", params=CASES)
def lowered(request: pytest.FixtureRequest) -> Lowered:
    return CASES[request.param]()


def names(listing: Listing) -> set[str]:
    return {origin.op_name for entry in listing.origins for origin in entry}


def names_by_line(listing: Listing) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for number, line in enumerate(listing.text.split("\n")):
        found.setdefault(line.strip(), set()).update(o.op_name for o in listing.origins_of(number))
    return found


def test_the_text_equals_mlir_without_locations(lowered: Lowered) -> None:
    module = stablehlo.parse_stablehlo(lowered.program.module)
    plain = module.operation.get_asm(enable_debug_info=False, large_elements_limit=32)
    assert lowered.stablehlo_listing.text == plain.rstrip("\n")


def test_every_operation_has_an_origin(lowered: Lowered) -> None:
    listing = lowered.stablehlo_listing
    operations = [
        (n, line) for n, line in enumerate(listing.text.split("\n"))
        if line.lstrip().startswith(("%", "call")) and ("stablehlo." in line or " call @" in line) and "stablehlo.constant" not in line
    ]  # fmt: skip
    assert operations
    without = [line for n, line in operations if not listing.origins_of(n)]
    assert not without


def test_all_that_hlo_names_is_named_in_stablehlo(lowered: Lowered) -> None:
    """XLA's own conversion is the oracle: what it puts into `op_name` must be found, called functions inlined."""
    hlo = {o.op_name for o in Module.from_proto(lowered.hlo_proto).origins().values()}
    # Other names are those of parameters, and relative ones in functions and reductions not inlined yet.
    below = {part for name in hlo for part in name.split(";") if part.startswith(f"{lowered.root.scope}/")}
    assert below
    assert below <= names(lowered.stablehlo_listing)


def test_frames_are_those_that_hlo_has() -> None:
    for case in ("control flow", "called twice", "mlp"):
        lowered = CASES[case]()
        hlo = hlo_listing(lowered.hlo, Module.from_proto(lowered.hlo_proto), lowered.root)
        ours = {o for entry in lowered.stablehlo_listing.origins for o in entry if o.frames}
        # Columns apart, which XLA drops and neither side keeps.
        theirs = {o for entry in hlo.origins for o in entry if "/" in o.op_name and o.frames}
        assert theirs
        assert {(o.op_name, o.frames[0].file, o.frames[0].line) for o in theirs} <= {
            (o.op_name, o.frames[0].file, o.frames[0].line) for o in ours
        }


@pytest.mark.parametrize(
    "name", ["mlp", *(pytest.param(name, marks=pytest.mark.slow) for name in ("cnn", "tf2", "tfscan12"))]
)
def test_optimized_hlo_links_to_stablehlo_and_jaxpr(name: str) -> None:
    lowered = lower_workload(name)
    compiled = lowered.compile(engine=InlineEngine())
    optimized = hlo_listing(compiled.hlo, compiled.module(), lowered.root)
    lines = [optimized.origins_of(n) for n in range(optimized.line_count)]
    named = [{o.op_name for o in entry} for entry in lines if any("/" in o.op_name for o in entry)]
    assert len(named) > 50
    assert not isinstance(lowered.jaxpr_listing, inspector.Unavailable)
    stablehlo, jaxpr = names(lowered.stablehlo_listing), names(lowered.jaxpr_listing)
    in_stablehlo = sum(bool(entry & stablehlo) for entry in named) / len(named)
    in_jaxpr = sum(bool(entry & jaxpr) for entry in named) / len(named)
    assert in_stablehlo == 1.0
    # The rest is what lowering adds without an equation, such as a gather's bounds checks.
    assert in_jaxpr > 0.98


def test_jaxpr_and_stablehlo_name_the_same_under_every_primitive() -> None:
    lowered = CASES["control flow"]()
    assert not isinstance(lowered.jaxpr_listing, inspector.Unavailable)
    jaxpr, stablehlo = names(lowered.jaxpr_listing), names(lowered.stablehlo_listing)
    for operation in ("cos", "sin", "exp", "tanh", "log", "sqrt", "rsqrt", "div"):
        ours = {n for n in stablehlo if n.rpartition("/")[2] == operation}
        assert ours <= jaxpr, operation
        assert ours or operation == "cos"


def test_a_lambdas_name_survives_its_module() -> None:
    lowered = inspector.lower(lambda x: jnp.sin(x), X)
    assert lowered.name == "jit__lambda"
    assert lowered.root.scope == "jit(<lambda>)"
    assert not isinstance(lowered.jaxpr_listing, inspector.Unavailable)
    assert names(lowered.jaxpr_listing) == names(lowered.stablehlo_listing) == {"jit(<lambda>)/sin"}


def test_a_while_loops_own_line_is_the_loops() -> None:
    listing = CASES["control flow"]().stablehlo_listing
    loops = [n for n, line in enumerate(listing.text.split("\n")) if " = stablehlo.while(" in line]
    assert loops
    for n in loops:
        assert any(o.op_name.endswith(("/while", "/scan")) for o in listing.origins_of(n))


def test_a_function_called_twice_stands_for_both_places() -> None:
    listing = CASES["called twice"]().stablehlo_listing
    (entry,) = [names for line, names in names_by_line(listing).items() if "stablehlo.maximum" in line]
    assert entry == {
        "jit(called_twice)/first/jit(inner)/jit(relu)/max",
        "jit(called_twice)/second/jit(inner)/jit(relu)/max",
    }


def test_strings_that_look_like_locations_stay() -> None:
    lowered = CASES["odd names"]()
    assert 'jit(odd_names)/é"q\\ loc(#loc1) :7:8/mul' in names(lowered.stablehlo_listing)
    text = """module {
  func.func public @main() {
    "a.op"() {x = "y loc(#loc1)", z = "\\" loc("} : () -> () loc(#loc2)
    %0 = "b.op"() : () -> i32 loc("n\\C3\\A9\\22"("/h\\C3\\B6me/f.py":3:4 to :9))
    "c.op"() : () -> () loc(fused<{a = "]"}>[unknown, "fused"(#loc1)])
    "d.op"() : () -> () loc(callsite("g"("g.py":1:1) at callsite("f"("f.py":2:2) at "m"("m.py":3:3))))
    "e.op"() : () -> () loc("e:"("jit(f)/e"(#loc3)))
    "f.op"() : () -> () loc(unknown)
  } loc(#loc)
} loc(#loc)
#loc = loc(unknown)
#loc1 = loc("x.py":7:8)
#loc2 = loc("jit(f)/a"(#loc3))
#loc3 = loc("fun"(#loc1))
"""
    listing = read_located_text(text)
    x = Frame("x.py", 7, "fun")
    expected = {
        '"a.op"() {x = "y loc(#loc1)", z = "\\" loc("} : () -> ()': Origin("jit(f)/a", (x,)),
        '%0 = "b.op"() : () -> i32': Origin("", (Frame("/höme/f.py", 3, 'né"'),)),
        '"c.op"() : () -> ()': Origin("", (Frame("x.py", 7, "fused"),)),
        '"d.op"() : () -> ()': Origin("", (Frame("g.py", 1, "g"), Frame("f.py", 2, "f"), Frame("m.py", 3, "m"))),
        '"e.op"() : () -> ()': Origin("jit(f)/e", (x,)),
        '"f.op"() : () -> ()': None,
    }
    lines = listing.text.split("\n")
    assert [line.strip() for line in lines[2:8]] == list(expected)
    assert [listing.origins_of(n) for n in range(2, 8)] == [(o,) if o else () for o in expected.values()]
    assert lines[8:] == ["  }", "}"]


def test_files_with_non_ascii_names_are_read(tmp_path: Path) -> None:
    file = tmp_path / "größe.py"
    file.write_text("import jax.numpy as jnp\ndef größe(x):\n    return jnp.sin(x)\n", encoding="utf-8")
    scope: dict[str, Any] = {}
    exec(compile(file.read_text(encoding="utf-8"), str(file), "exec"), scope)
    lowered = inspector.lower(scope["größe"], X)
    (origin,) = {o for entry in lowered.stablehlo_listing.origins for o in entry}
    assert origin == Origin("jit(größe)/sin", (Frame(str(file), 3, "größe"),))
    assert not isinstance(lowered.jaxpr_listing, inspector.Unavailable)
    assert names(lowered.jaxpr_listing) == {"jit(größe)/sin"}


@pytest.mark.parametrize(
    ("location", "origin"),
    [
        ('"a.py":1:2', Origin("", (Frame("a.py", 1),))),
        ('"a.py":1:2 to 3:4', Origin("", (Frame("a.py", 1),))),
        ('"op"', Origin("op")),
        ('"tab\\09 \\5C \\\\ \\n"', Origin("tab\t \\ \\ \n")),
        ('"op"("fun"("a.py":1:2))', Origin("op", (Frame("a.py", 1, "fun"),))),
        ('"op:"("in"("fun"("a.py":1:2)))', Origin("in", (Frame("a.py", 1, "fun"),))),
        ('"op"(callsite("a.py":1:1 at "b.py":2:2))', Origin("op", (Frame("a.py", 1), Frame("b.py", 2)))),
        ('"f"("op"("a.py":1:2))', Origin("f", (Frame("a.py", 1, "op"),))),
        ("fused[]", None),
        ("fused[unknown]", None),
        ('fused["a", "b"]', Origin("a")),
        ('fused["a.py":1:2, "b"]', Origin("", (Frame("a.py", 1),))),
        ('fused[unknown, "b.py":2:3, "c"]', Origin("", (Frame("b.py", 2),))),
        ('fused[#loc1, "b"]', Origin("", (Frame("x.py", 7),))),
        ('fused<{a = "["}>["a", unknown]', Origin("a")),
        ('fused[fused[unknown], fused["b"]]', Origin("b")),
        ('callsite("a"("a.py":1:1) at fused["b.py":2:2, "c"])', Origin("", (Frame("a.py", 1, "a"), Frame("b.py", 2)))),
        ('fused[other<"]", [(1)]>, "b"]', Origin("b")),
        ('fused<{a = affine_map<(d0) -> (d0)>}>["b"]', Origin("b")),
        ("another<[(1), (2)]>", None),
        ("#loc1", Origin("", (Frame("x.py", 7),))),
        ("#loc9", None),
    ],
)
def test_locations_of_every_form(location: str, origin: Origin | None) -> None:
    """The line after it is read as well: each form ends where it ends."""
    text = f"""module {{
  func.func public @main() {{
    "a.op"() : () -> () loc({location})
    "b.op"(%0 loc({location})) : () -> () loc("after")
  }} loc(#loc)
}} loc(#loc)
#loc = loc(unknown)
#loc1 = loc("x.py":7:8)
"""
    listing = read_located_text(text)
    assert listing.text.split("\n")[2:4] == ['    "a.op"() : () -> ()', '    "b.op"(%0) : () -> ()']
    assert listing.origins_of(2) == ((origin,) if origin else ())
    assert listing.origins_of(3) == (Origin("after"),)
