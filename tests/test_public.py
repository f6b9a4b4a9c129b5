"""The first attempts of a new user: public names, values in a REPL, calls with wrong arguments."""

from __future__ import annotations

import copy
import dataclasses
import html
import inspect
import pickle
import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inspector
from inspector.analysis.collectives.collectives import Collectives
from inspector.analysis.memory.tpu_errors import explain
from inspector.compilation.compiled import engine_of, is_from_cache
from inspector.compilation.engine import Job
from inspector.errors import CompilationError, OptionError, ParameterError, TargetError
from inspector.stages.compiled import load_compiled
from inspector.stages.lowered import compile_request
from tests.conftest import ROOT, RunPython

DATA = ROOT / "tests" / "analysis" / "data" / "pallas"
X = np.linspace(0.0, 1.0, 8, dtype=np.float32)


def step(x: jax.Array) -> jax.Array:
    return jnp.tanh(x) * 2


@pytest.fixture(scope="module")
def lowered() -> inspector.Lowered:
    return inspector.lower(step, X)


@pytest.fixture(scope="module")
def compiled(lowered: inspector.Lowered) -> inspector.Compiled:
    return lowered.compile(target="cpu")


@pytest.fixture(scope="module")
def collectives() -> Collectives:
    def two(x: jax.Array) -> Any:
        return jax.lax.psum(x, "i"), jax.lax.all_gather(x, "i")

    return inspector.lower(two, X, axis_env=[("i", 4)]).collectives()


# ------------------------------------------------------------------ names


def test_public_modules_need_no_separate_import(one_device_python: RunPython) -> None:
    code = "import inspector; print(inspector.errors.TargetError.__name__, inspector.settings.current().cache_memory_bytes)"
    assert one_device_python(code).stdout.startswith("TargetError ")


def test_tab_completion_offers_existing_names() -> None:
    assert {"errors", "settings", "lower", "Target"} <= set(dir(inspector))
    assert all(hasattr(inspector, name) for name in dir(inspector))
    with pytest.raises(AttributeError, match=r"no attribute 'lwoer'. It has: .*lower.*settings"):
        _ = inspector.lwoer


# ------------------------------------------------------------------ one word for one thing


@pytest.mark.parametrize("name", ["worker", "inline"])
def test_an_engine_by_its_name(lowered: inspector.Lowered, name: str) -> None:
    compiled = lowered.compile(engine=name)
    assert engine_of(compiled) == name
    assert not is_from_cache(compiled)
    assert lowered.preview(engine=name).hlo
    np.testing.assert_allclose(compiled.run(X, repeat=1, engine=name).outputs[0], np.tanh(X) * 2, rtol=1e-5)


@pytest.mark.parametrize("engine", ["wrker", 3, object(), dict])
def test_an_invalid_engine_is_refused(lowered: inspector.Lowered, compiled: inspector.Compiled, engine: Any) -> None:
    calls = (
        lambda: lowered.compile(engine=engine),
        lambda: lowered.preview(engine=engine),
        lambda: compiled.run(X, engine=engine),
        lambda: inspector.scan(lowered, engine=engine),
        lambda: inspector.flag_effect(lowered, "xla_cpu_enable_fast_math", engine=engine),
        lambda: inspector.sweep(lowered, engine=engine),
    )
    for call in calls:
        with pytest.raises(ParameterError, match=r"engine must be 'worker', 'inline', 'dask', .* or None, got"):
            call()


@pytest.mark.parametrize(
    "counts", [{"repeat": "10"}, {"repeat": None}, {"repeat": 2.5}, {"warmup": True}, {"repeat": 0}]
)
def test_executions_are_counted_in_integers(compiled: inspector.Compiled, counts: dict[str, Any]) -> None:
    with pytest.raises(inspector.errors.ExecutionError, match="expected numbers of executions, at least 1"):
        compiled.run(X, **counts)


def test_options_are_called_options_everywhere() -> None:
    asked: list[Any] = [{"xla_cpu_enable_fast_math": True}, "--xla_cpu_enable_fast_math=true"]
    asked.append(inspector.Options.of(asked[0]))
    keys = {str(inspector.cache_status(step, X, options=options).key) for options in asked}
    assert len(keys) == 1
    assert keys != {str(inspector.cache_status(step, X).key)}
    with pytest.raises(OptionError, match="JAX's compile accepts only flags, but the options set num_replicas"):
        inspector.cache_status(step, X, options=inspector.Options(num_replicas=2))


# ------------------------------------------------------------------ values at hand


def test_collectives_are_a_sequence_with_names(collectives: Collectives) -> None:
    first, second = collectives
    assert collectives[0] is first is collectives[first.name] is collectives[f"%{first.name}"]
    assert collectives[-1] is second is collectives[np.int64(1)]
    assert isinstance(collectives[1:], Collectives)
    assert [one.name for one in collectives[::-1]] == [second.name, first.name]
    assert collectives[:1].table()["name"].tolist() == [first.name]
    assert len(collectives.members(0)) == len(collectives.members(first.name)) == 4
    assert first in collectives


@pytest.mark.parametrize(("key", "error"), [(2, IndexError), (-3, IndexError), ("psum", KeyError)])
def test_a_collective_that_is_not_there(collectives: Collectives, key: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"No collective .*collectives are .*{collectives[0].name}"):
        collectives[key]


def test_compare_refuses_uncompiled_values_with_a_remedy(
    lowered: inspector.Lowered, compiled: inspector.Compiled
) -> None:
    for given, words in (
        (lowered, r"got <Lowered jit_step.* Call its compile\(\) method first"),
        ([compiled, compiled], r"Unpack a list: compare\(\*programs\)"),
        (step, r"Create one with `inspector.lower\(fun, \*args\).compile\(\)`"),
        (None, r"got None \(NoneType\). Create one with `inspector.lower"),
    ):
        with pytest.raises(ParameterError, match=words):
            inspector.compare(given)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="got none"):
        inspector.compare()


def test_lower_takes_lowered_and_loaded_values(
    lowered: inspector.Lowered, compiled: inspector.Compiled, tmp_path: Any
) -> None:
    compiled.save(tmp_path / "step.inspector")
    loaded = load_compiled(tmp_path / "step.inspector")
    again = inspector.lower(loaded)
    assert again.program == lowered.program
    assert again.compile(target="cpu").hlo == compiled.hlo
    assert inspector.lower(lowered) is lowered
    for given in (lowered, loaded):
        with pytest.raises(ParameterError, match="jit_step is lowered for cpu; platform='tpu' cannot change it"):
            inspector.lower(given, platform="tpu")
    with pytest.raises(ParameterError, match="args cannot be given with a Compiled"):
        inspector.lower(loaded, X)


def test_values_compare_copy_and_pickle(
    lowered: inspector.Lowered, compiled: inspector.Compiled, collectives: Collectives
) -> None:
    values: list[Any] = [compiled, compiled.program, compiled.options, compiled.target, compiled.memory, compiled.cost]
    values += [lowered.inputs[0], lowered.stablehlo_listing, collectives, collectives[0]]
    values += [inspector.Unavailable("why", "what"), compile_request(lowered, target="cpu:8")]
    for value in values:
        assert copy.copy(value) == value, type(value)
        assert pickle.loads(pickle.dumps(value)) == value, type(value)
        assert value != object()
        assert value != str(value)
        assert set(dir(value)) >= {f.name for f in dataclasses.fields(value)}
    assert inspector.lower(step, X) == inspector.lower(step, X)


@pytest.mark.parametrize("target", [None, 8, "cpu:0", "cuda", ["cpu"]])
def test_a_target_that_is_none_is_refused_everywhere(lowered: inspector.Lowered, target: Any) -> None:
    calls = (
        lambda: lowered.compile(target=target),
        lambda: lowered.preview(target=target),
        lambda: compile_request(lowered, target=target),
        lambda: inspector.explore(step, X, target=target),
        lambda: inspector.sweep(lowered, targets=[target]),
        lambda: inspector.scan(lowered, target=target),
        lambda: inspector.flag_effect(lowered, "xla_cpu_enable_fast_math", target=target),
    )
    for call in calls:
        with pytest.raises(TargetError):
            call()


# ------------------------------------------------------------------ values in a REPL and a notebook


@pytest.fixture(scope="module")
def values(lowered: inspector.Lowered, collectives: Collectives) -> Iterator[list[Any]]:
    """One of each public value, with their parts; of a program with many arguments where that makes them long."""
    many = inspector.lower(lambda tree: sum(tree), [X] * 300)
    compiled = many.compile(target="cpu", products=("passes", "assembly", "buffers"))
    job = inspector.scan(lowered, "xla_cpu_enable_fast_math", target="cpu")
    job.result()
    with inspector.watch_compiles() as events:
        jax.jit(lambda x: x + 0.25)(X).block_until_ready()
    run = lowered.compile(target="cpu").run(repeat=2)
    explorer = inspector.explore(step, X, target="cpu").wait()
    found = [many, many.program, many.inputs[0], many.outputs[0], many.stablehlo_listing, many.jaxpr_listing, many.root]
    found += [
        compile_request(many, target="cpu:8"),
        compiled,
        compiled.options,
        compiled.target,
        compiled.passes,
        events[0],
    ]
    found += [compiled.passes[0], compiled.assembly, compiled.assembly[0], compiled.buffers, compiled.module()]
    found += [compiled.module().entry, collectives, collectives[0], run, run.inputs[0], job, job.effects[0]]
    found += [explorer, explorer.baseline, explorer.baseline.job, inspector.cache_status(step, X)]
    found += [lowered.preview(target="cpu"), inspector.settings.current(), inspector.Unavailable("why", "what to do")]
    found += [inspector.load_executable(lowered.compile()), inspector.cache_status(step, X).key]
    yield found
    explorer.close()
    assert repr(explorer) == "<Explorer, closed>"


def test_every_value_reads_well(values: list[Any]) -> None:
    for value in values:
        text = repr(value)
        assert " object at 0x" not in text, text
        assert not re.search(r"""\bb['"]""", text), text
        assert len(text) <= 1500, text
        assert max(map(len, text.splitlines())) <= 330, text
        assert "\n" not in text.partition("\n  Try ")[0] or type(value).__name__ in (
            "CacheStatus",
            "CacheKey",
            "Explorer",
        ), text


def test_reprs_of_values(values: list[Any], collectives: Collectives) -> None:
    texts = {type(value).__name__: repr(value).replace("\n  Try ", " Try ") for value in values}
    assert texts["Argument"] == "<Argument tree[0]: float32[8]>"
    assert texts["Result"] == "<Result result: float32[8]>"
    assert re.fullmatch(
        r"<Program jit__lambda\(tree\[0\]: float32\[8\], .* 294 more\) for cpu, [\d.]+ KiB of StableHLO>",
        texts["Program"],
    )
    assert texts["CompileRequest"] == "<CompileRequest jit__lambda for cpu:8, defaults>"
    assert re.fullmatch(r"<Pass 0 \S+: changed (nothing|the module)(, .*s)?>", texts["Pass"])
    assert re.fullmatch(
        r"<Job done after .*s: <Compiled jit_step for cpu, .*>>",
        texts["WorkerJob"] if "WorkerJob" in texts else texts["Job"],
    )
    assert re.fullmatch(r"<Variant 0 'baseline' for cpu: done>", texts["Variant"])
    assert texts["Explorer"].startswith("Explorer of jit_step for cpu\n  baseline [cpu]: done, peak memory ")
    assert (
        repr(collectives).partition("\n")[0]
        == "<Collectives on the replica mesh (i=4): 1 all-reduce over i, 1 all-gather over i>"
    )
    assert re.fullmatch(r"<all-reduce psum\S* over i: 32 B in, 32 B out, user>", repr(collectives[0]))
    assert re.fullmatch(r"<Listing: \d+ lines, \d+ with an origin>", texts["Listing"])
    assert str(values[4]) == values[4].text


def test_a_job_shows_its_state(lowered: inspector.Lowered) -> None:
    job: Job[Any] = Job()
    assert re.fullmatch(r"<Job queued after .*s; result\(\) waits for it>", repr(job))
    job.fail(ParameterError("no such thing"))
    assert re.fullmatch(r"<Job failed after .*s: ParameterError: no such thing>", repr(job))


def test_values_with_a_table_show_it_in_a_notebook(values: list[Any], collectives: Collectives) -> None:
    shown = [value for value in values if hasattr(value, "_repr_html_")]
    assert {type(value).__name__ for value in shown} >= {"Collectives", "CompilerPasses", "Assembly"}
    for value in (*shown, collectives[:0]):
        page = value._repr_html_()
        assert page.startswith(f"<p>{html.escape(repr(value).partition(chr(10) + '  Try ')[0])}</p><")
        assert "<table" in page or type(value).__name__ == "Cost"


# ------------------------------------------------------------------ what notebooks need


def test_the_hlo_is_drawn(lowered: inspector.Lowered) -> None:
    source = lowered.graph()
    assert "tanh" in source.source
    assert "digraph" in lowered.dot()


def test_a_refused_kernel_is_explained(lowered: inspector.Lowered) -> None:
    text = (DATA / "scoped.0.12.txt").read_text(encoding="utf-8")
    found = lowered.explain(CompilationError(text), target="tpu:v5e")
    assert found == dataclasses.replace(explain(text), advice=found.advice)
    assert re.search(r"vmem_limit_bytes=\d+ << 20", found.advice[0])
    assert repr(found) == f"<MemoryOverflow {found}>"
    assert not lowered.explain("something else")
    assert "contains figures" in lowered.explain("something else").reason


# ------------------------------------------------------------------ calls with the wrong things

F = "xla_cpu_enable_fast_math"
Call = Callable[[inspector.Lowered, inspector.Compiled], Any]
MISTAKES: list[tuple[Call, type[Exception], str]] = [
    (lambda _, __: inspector.lower(X, step), ParameterError, "type ndarray. Expected a function followed by its"),
    (lambda _, __: inspector.lower([step], X), ParameterError, "Cannot lower a value of type list"),
    (lambda _, __: inspector.explore(None), ParameterError, "Cannot lower a value of type NoneType"),
    (lambda low, _: low.compile("cpu:8"), OptionError, r"'cpu:8' is a target, not options. Write target='cpu:8'"),
    (lambda low, _: low.compile(inspector.Target("cpu")), OptionError, "Write target='cpu'"),  # type: ignore[arg-type]
    (lambda low, _: low.compile(["a"]), OptionError, "got list"),  # type: ignore[arg-type]
    (lambda _, __: inspector.Options("--xla_a"), OptionError, "Options.parse reads the text"),  # type: ignore[arg-type]
    (lambda _, __: inspector.Options().merge(3), OptionError, "got int"),  # type: ignore[arg-type]
    (lambda _, c: c.graph("all"), ParameterError, "Unknown mode 'all'. Expected one of 'auto', 'whole'"),  # type: ignore[arg-type]
    (lambda _, c: c.graph("around"), inspector.errors.ModuleError, "needs a selection"),
    (lambda _, c: c.graph("around", 3), inspector.errors.ModuleError, "needs a selection"),  # type: ignore[arg-type]
    (lambda _, c: c.roofline("h100"), ParameterError, "peak must be an inspector.Peak"),  # type: ignore[arg-type]
    (lambda _, c: c.save("."), IsADirectoryError, "Give the name of a file in it: '.'"),
    (
        lambda _, c: c.save("nowhere/x.inspector"),
        FileNotFoundError,
        "The folder to write into does not exist: 'nowhere'",
    ),
    (lambda low, _: inspector.sweep(low, targets=None), TargetError, "got None"),  # type: ignore[arg-type]
    (lambda low, _: inspector.sweep(low, targets=8), TargetError, "got 8"),  # type: ignore[arg-type]
    (lambda low, _: inspector.sweep(low, time_limit_s="5"), ValueError, "seconds above 0"),  # type: ignore[arg-type]
    (lambda low, _: inspector.sweep(low, time_limit_s=0), ValueError, "seconds above 0, or None, got 0"),
    (lambda low, _: inspector.scan(low, time_limit_s=-1), ValueError, "seconds above 0"),
    (lambda low, _: inspector.flag_effect(low, F, time_limit_s=True), ValueError, "seconds above 0"),
    (lambda low, _: inspector.flag_effect(low, None), OptionError, "name of a flag as text.* got None"),  # type: ignore[arg-type]
    (lambda low, _: inspector.scan(low, 3), OptionError, "name of a flag as text.* got 3"),  # type: ignore[arg-type]
    (lambda low, _: inspector.scan(low, [3]), OptionError, "name of a flag as text.* got 3"),  # type: ignore[list-item]
    (lambda _, __: inspector.share_compiles("a").__enter__(), ParameterError, "seconds above 0"),  # type: ignore[arg-type]
    (lambda _, __: inspector.settings.update(cach=True), TypeError, "Unknown setting cach. Did you mean cache?"),
    (lambda _, __: inspector.settings.scope(limit=1).__enter__(), TypeError, "Unknown setting limit. Settings: cache,"),
    (lambda _, __: inspector.Target("cpu").with_devices("8"), TargetError, "integer of at least 1, got '8'"),  # type: ignore[arg-type]
    (lambda _, __: inspector.lower(step, X, axis_env=4), ParameterError, "axis_env is 4. Expected pairs"),  # type: ignore[arg-type]
    (lambda _, __: inspector.lower(step, X, static_argnums="x"), ParameterError, "Pass names in static_argnames"),  # type: ignore[arg-type]
    (lambda _, __: inspector.lower(step, X, donate_argnums=0.5), ParameterError, "integers, such as 0"),  # type: ignore[arg-type]
    (lambda _, __: inspector.explore(step, X, height_px="tall"), ParameterError, "CSS pixels"),  # type: ignore[arg-type]
    (lambda _, __: inspector.explore(step, X, compare=3), OptionError, "got int"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_mistakes_raise_helpful_errors(lowered: inspector.Lowered, compiled: inspector.Compiled, number: int) -> None:
    call, error, words = MISTAKES[number]
    with pytest.raises(error, match=words):
        call(lowered, compiled)


def test_one_needs_no_list_around_it(lowered: inspector.Lowered) -> None:
    for one in ("cpu:2", inspector.Target("cpu:2"), {F: True}, inspector.Options(flags={F: True}), f"--{F}=true"):
        explorer = inspector.explore(step, X, target="cpu", compare=one)  # type: ignore[arg-type]
        assert len(explorer.variants) == 2
        explorer.close()
    job = inspector.scan(lowered, F, target="cpu")
    assert job.total == 1
    job.cancel()
    assert inspector.lower(step, X, static_argnums=None) == inspector.lower(step, X)  # type: ignore[arg-type]


def test_a_variant_is_removed_by_itself(lowered: inspector.Lowered) -> None:
    explorer = inspector.explore(step, X, target="cpu")
    with pytest.raises(ParameterError, match="Expected one of the Explorer's `variants`, got 0"):
        explorer.remove(0)  # type: ignore[arg-type]
    explorer.close()


@pytest.mark.parametrize("kind", [inspector.Lowered, inspector.Compiled])
def test_public_members_are_few_and_documented(kind: type) -> None:
    names = [name for name in dir(kind) if not name.startswith("_")]
    assert len(names) <= 33, names
    described = "".join(base.__doc__ or "" for base in kind.__mro__)
    listed = set(re.findall(r"^ +((?:\w+, )*\w+):", described, re.MULTILINE))
    attributes = {name for line in listed for name in line.split(", ")}
    for name in names:
        member = inspect.getattr_static(kind, name)
        is_field = inspect.ismemberdescriptor(member)
        assert name in attributes if is_field else (member.__doc__ or "").strip(), (
            f"{kind.__name__}.{name} is not documented"
        )


def test_an_explorer_lists_its_own_members() -> None:
    explorer = inspector.explore(lambda x: x + 1, 1.0, target="cpu")
    try:
        names = [name for name in dir(explorer) if not name.startswith("_")]
        assert len(names) <= 30
        assert {"add", "baseline", "compare", "lowered", "save", "variants"} <= set(names)
        assert all((getattr(type(explorer), name).__doc__ or "").strip() for name in names)
    finally:
        explorer.close()


def test_parameter_errors_are_not_lowering_errors() -> None:
    assert not issubclass(inspector.errors.ParameterError, inspector.errors.LoweringError)
    assert not issubclass(inspector.errors.WorkerDiedError, inspector.errors.CompilationError)


@pytest.mark.parametrize("show", ["_repr_html_", "__repr__"])
def test_values_name_the_next_step(show: str) -> None:
    lowered = inspector.lower(lambda x: x @ x, jax.ShapeDtypeStruct((8, 8), jnp.float32))
    compiled = lowered.compile(target="cpu", products=("buffers",))
    values = [lowered, compiled, compiled.memory, compiled.cost, compiled.roofline(), compiled.timeline()]
    for value in values:
        text = getattr(value, show)()
        assert "Try " in text.split("\n")[-1], text
        assert show == "__repr__" or text.startswith("<p>")


def test_compiled_answers_as_jaxs_own() -> None:
    def f(x: jax.Array) -> jax.Array:
        return jnp.sin(x) @ x

    x = jnp.ones((16, 16))
    theirs, ours = jax.jit(f).lower(x).compile(), inspector.lower(f, x).compile(target="cpu")
    assert ours.as_text().startswith("HloModule")
    assert ours.cost_analysis()["flops"] == theirs.cost_analysis()["flops"]
    assert ours.memory_analysis().argument_size_in_bytes == theirs.memory_analysis().argument_size_in_bytes
