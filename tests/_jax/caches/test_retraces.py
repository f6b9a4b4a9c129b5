"""Why JAX traces again, in JAX's words taken apart: fails when a JAX says it otherwise."""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
import threading
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import monitoring
from jax._src.interpreters import partial_eval
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import inspector
from inspector._jax.caches import cache_miss_events as watches
from inspector._jax.caches import cache_misses, compile_misses
from inspector.lowering.retrace_causes import retraces
from inspector.stages.retrace_events import Changed
from inspector.stages.retraces import Retraces, RetraceWatch

ONE = np.ones(3, np.float32)


def again(found: Retraces) -> list[Any]:
    return [each for each in found if each.cause != "first call"]


def test_the_argument_that_differs_is_named_with_both_types() -> None:
    @jax.jit
    def scaled(x: Any, params: Any) -> Any:
        return x * params["scale"]

    with inspector.watch_retraces() as found:
        scaled(ONE, {"scale": ONE})
        scaled(ONE, {"scale": ONE})
        scaled(np.ones(4, np.float32), {"scale": np.ones(4, np.float32)})
        scaled(ONE.astype(np.int32), {"scale": ONE})
        scaled(ONE, {"scale": jnp.float32(2)})
    assert [each.cause for each in found] == ["first call", *["arguments"] * 3]
    shapes, dtype, scalar = again(found)
    assert shapes.changes == (
        Changed("shape", "x", "f32[4]", "f32[3]"),
        Changed("shape", "params['scale']", "f32[4]", "f32[3]"),
    )
    assert dtype.changes == (Changed("dtype", "x", "i32[3]", "f32[3]"),)
    (changed,) = scalar.changes
    assert (changed.what, changed.where) == ("shape", "params['scale']")
    assert changed.now.startswith("f32[]")
    assert {each.fun_name for each in found} == {"scaled"}
    assert all(__file__ in each.called_at and __file__ in each.defined_at for each in found)
    assert "f32[4]" in shapes.explanation


def test_a_python_scalar_is_another_type_than_an_array() -> None:
    halved = jax.jit(lambda x: x / 2)
    with inspector.watch_retraces() as found:
        halved(np.float32(2))
        halved(2.0)
    (weak,) = again(found)
    ((what, where),) = [(changed.what, changed.where) for changed in weak.changes]
    assert (what, where) == ("weak type", "x")


def test_static_values_and_structures() -> None:
    @functools.partial(jax.jit, static_argnames="count")
    def repeated(x: Any, count: int) -> Any:
        return x * count

    with inspector.watch_retraces() as found:
        repeated(ONE, count=2)
        repeated(ONE, count=3)
    (static,) = again(found)
    assert static.cause == "structure"
    assert static.changes == (Changed("static value", "count", "3", "2"),)

    total = jax.jit(lambda tree: jax.tree.reduce(jnp.add, tree))
    with inspector.watch_retraces() as found:
        total({"a": ONE})
        total({"b": ONE})
    (structure,) = again(found)
    assert structure.cause == "structure"
    assert structure.changes[0].what == "structure"
    assert structure.changes[0].where.startswith("args[0]")
    assert "<class" not in structure.changes[0].now + structure.changes[0].before


def test_functions_that_are_defined_again_and_other_settings() -> None:
    with inspector.watch_retraces() as found:
        for _ in range(3):
            jax.jit(lambda x: x + 1)(ONE)
    assert [each.cause for each in found] == ["first call", "defined again", "defined again"]

    plus = jax.jit(lambda x: x + 1.5)
    with inspector.watch_retraces() as found:
        plus(ONE)
        with jax.default_matmul_precision("highest"):
            plus(ONE)
    (other,) = again(found)
    assert other.cause == "context"


def test_functions_traced_before_the_watch_are_not_retraced() -> None:
    known = jax.jit(lambda x: x - 1)
    known(ONE)
    with inspector.watch_retraces() as found:
        known(ONE)
    known(ONE)
    assert len(found) == 0
    assert not jax.config.jax_explain_cache_misses


def test_nothing_is_printed_unless_the_user_asked_for_it(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), inspector.watch_retraces():
        jax.jit(lambda x: x * 3)(ONE)
    assert not caplog.records
    jax.config.update("jax_explain_cache_misses", True)
    try:
        with caplog.at_level(logging.WARNING), inspector.watch_retraces() as found:
            jax.jit(lambda x: x * 4)(ONE)
        assert jax.config.jax_explain_cache_misses
    finally:
        jax.config.update("jax_explain_cache_misses", False)
    assert len(caplog.records) == len(found) == 1


@pytest.mark.parametrize("name", ["", "jax", "jax._src.interpreters.partial_eval"])
def test_loggers_that_are_silent_hide_nothing(name: str) -> None:
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with inspector.watch_retraces() as found:
            jax.jit(lambda x: x * 5)(ONE)
        assert logger.level == logging.ERROR
    finally:
        logger.setLevel(level)
    assert len(found) == 1


def test_disabled_loggers_hide_nothing() -> None:
    logger = logging.getLogger("jax._src.interpreters.partial_eval")
    logger.disabled = True  # as logging.config.dictConfig leaves those that it does not know
    logging.disable(logging.CRITICAL)
    try:
        with inspector.watch_retraces() as found:
            jax.jit(lambda x: x * 6)(ONE)
    finally:
        logger.disabled = False
        logging.disable(logging.NOTSET)
    assert len(found) == 1


def test_other_messages_of_the_logger_appear_during_a_watch(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), inspector.watch_retraces():
        partial_eval.logger.log(logging.WARNING, "of %s", "another")
        partial_eval.logger.warning("of a third")
    assert [record.getMessage() for record in caplog.records] == ["of another", "of a third"]
    assert partial_eval.logger is logging.getLogger("jax._src.interpreters.partial_eval")


def test_a_watch_can_be_stopped_when_python_exits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules cannot be imported then, and an Explorer that is still open stops its watch."""
    stopped, running = RetraceWatch(), RetraceWatch()
    running.start()
    monkeypatch.delattr("inspector._jax.caches.cache_miss_events")
    monkeypatch.setitem(sys.modules, "inspector._jax.caches.cache_miss_events", None)
    stopped.stop()
    running.stop()
    assert not running.is_on
    jax.jit(lambda v: v * 3)(np.ones(5))
    assert not len(running.retraces)


def test_watches_hear_all_threads_and_do_not_end_each_other() -> None:
    with inspector.watch_retraces() as outer:
        with inspector.watch_retraces() as inner:
            thread = threading.Thread(target=lambda: jax.jit(lambda x: x / 2)(ONE))
            thread.start()
            thread.join()
        jax.jit(lambda x: x / 3)(ONE)
    assert (len(inner), len(outer)) == (1, 2)


def test_the_table_has_a_row_for_each_change() -> None:
    added = jax.jit(lambda x, y: x + y)
    with inspector.watch_retraces() as found:
        added(ONE, ONE)
        added(ONE[:2], ONE[:2])
    table = found.table()
    columns = ["function", "called_at", "cause", "what", "where", "now", "before", "defined_at", "event"]
    assert list(table.columns) == columns
    assert set(table["event"]) == {"trace"}
    assert table["where"].tolist()[1:] == ["x", "y"]
    assert table["what"].isna()[0]
    assert table["now"].tolist()[1:] == ["f32[2]"] * 2
    assert "1 first calls, 1 traced again, 0 compiled again" in repr(found)
    assert "shape of x: f32[2], before f32[3]" in repr(found)
    assert "<table" in found._repr_html_()


# ------------------------------------------------------------------ compiles of a trace that JAX has

DEVICES = jax.devices()
MESH = Mesh(np.array(DEVICES).reshape(4, 2), ("d", "m"))
REVERSED = Mesh(np.array(DEVICES)[::-1].reshape(4, 2), ("d", "m"))
SQUARE = jnp.ones((8, 8))
PLACED = {
    "uncommitted": SQUARE,
    "numpy": np.ones((8, 8), np.float32),
    "device 0": jax.device_put(SQUARE, DEVICES[0]),
    "device 1": jax.device_put(SQUARE, DEVICES[1]),
    "rows": jax.device_put(SQUARE, NamedSharding(MESH, P("d"))),
    "columns": jax.device_put(SQUARE, NamedSharding(MESH, P(None, "m"))),
    "rows, in other words": jax.device_put(SQUARE, NamedSharding(MESH, P("d", None))),
    "rows, other devices": jax.device_put(SQUARE, NamedSharding(REVERSED, P("d"))),
    "replicated": jax.device_put(SQUARE, NamedSharding(MESH, P())),
    "another shape": jnp.ones((4, 4)),
}


@contextlib.contextmanager
def compiles_by_xla(*names: str) -> Iterator[list[str]]:
    """Yields JAX's own events of compiles of some functions."""
    found: list[str] = []

    def listen(event: str, _: float, **about: Any) -> None:
        if "backend_compile" in event and about.get("fun_name") in {f"jit({name})" for name in names}:
            found.append(event)

    monitoring.register_event_duration_secs_listener(listen)
    try:
        yield found
    finally:
        monitoring.unregister_event_duration_listener(listen)


@pytest.mark.parametrize("first", PLACED)
@pytest.mark.parametrize("second", PLACED)
def test_an_event_for_each_compile_of_xla(first: str, second: str) -> None:
    def squared(x: Any) -> Any:
        return x @ x.T

    called = jax.jit(squared)
    called(PLACED[first])
    with compiles_by_xla("squared") as compiled, inspector.watch_retraces() as found:
        called(PLACED[second])
    assert len(compiled) == len(found)
    predicted = retraces(lambda x: x @ x.T, ((PLACED[first],), {}), ((PLACED[second],), {}))
    assert [each.event for each in predicted] == [each.event for each in found]


@pytest.mark.parametrize(
    ("first", "second", "what", "now", "before"),
    [
        ("rows", "columns", "sharding", "P(None, 'm') on mesh (d=4, m=2)", "P('d',) on mesh (d=4, m=2)"),
        ("rows", "rows, other devices", "device", "cpu:7, 6, 5, 4, 3, 2, 1, 0", "cpu:0, 1, 2, 3, 4, 5, 6, 7"),
        ("device 0", "device 1", "device", "cpu:1", "cpu:0"),
        ("uncommitted", "device 1", "committed", "cpu:1", "not committed to a device"),
        ("device 0", "numpy", "committed", "not committed to a device", "cpu:0"),
    ],
)
def test_the_reason_for_a_compile(first: str, second: str, what: str, now: str, before: str) -> None:
    def squared(x: Any) -> Any:
        return x @ x.T

    called = jax.jit(squared)
    called(PLACED[first])
    with inspector.watch_retraces() as found:
        called(PLACED[second])
    (again,) = found
    assert (again.event, again.cause) == ("compile", "placement")
    ((change),) = again.changes
    assert (change.what, change.now, change.before) == (what, now, before)
    assert __file__ in again.called_at
    assert __file__ in again.defined_at
    assert "1 compiled again" in repr(found)


def test_an_expectation_names_the_argument() -> None:
    checked = inspector.expect(lambda x: x @ x.T, PLACED["rows"])
    checked.no_recompile(PLACED["rows, in other words"])
    with pytest.raises(inspector.errors.ExpectationError, match=r"compiles for another call") as caught:
        checked.no_recompile(PLACED["columns"])
    assert "sharding" in str(caught.value)


def test_an_expectation_of_types_that_were_traced_before() -> None:
    target = jitted_target()
    target(LONGER)
    checked = inspector.expect(target, VECTOR)
    with pytest.raises(inspector.errors.ExpectationError, match=r"expected none, got 1: arguments") as caught:
        checked.no_recompile(LONGER)
    assert "f32[4]" in str(caught.value)
    with pytest.raises(inspector.errors.ExpectationError, match=r"expected none, got 1: arguments"):
        inspector.expect(jax.vmap(target), BATCH).no_recompile(OTHER_BATCH)


def test_the_argument_that_is_placed_elsewhere_is_named() -> None:
    @jax.jit
    def added(unused: Any, params: Any, x: Any) -> Any:
        return params["w"] + x

    rows, columns = PLACED["rows"], PLACED["columns"]
    added(rows, {"w": rows}, rows)
    with inspector.watch_retraces() as found:
        added(rows, {"w": columns}, rows)
    assert [change.where for change in found[0].changes] == ["params['w']"]


# ------------------------------------------------------------------ the closest call, and what a function was before


def test_a_sharding_of_an_explicit_mesh_is_not_a_shape() -> None:
    mesh = jax.make_mesh((2,), ("d",), axis_types=(AxisType.Explicit,))
    called = jax.jit(lambda a: a + 1)
    with inspector.watch_retraces() as found:
        called(jax.device_put(jnp.ones(4), NamedSharding(mesh, P("d"))))
        called(jax.device_put(jnp.ones(4), NamedSharding(mesh, P())))
    assert [each.cause for each in found] == ["first call", "arguments"]
    assert found[1].changes == (Changed("sharding", "a", "f32[4]", "f32[4@d]"),)


def test_the_call_with_the_fewest_differences_is_compared() -> None:
    called = jax.jit(lambda v: v * 2)
    with inspector.watch_retraces() as found:
        called(jnp.float32(3))
        called(jnp.ones(3))
        called(3.0)
    assert found[2].changes == (Changed("weak type", "v", "f32[]{weak_type=True}", "f32[]{weak_type=False}"),)


def test_closures_of_one_factory_and_lambdas_of_one_line() -> None:
    def factory(k: int) -> Any:
        def scaled(v: Any) -> Any:
            return v * k

        return jax.jit(scaled)

    with inspector.watch_retraces() as found:
        factory(2)(ONE)
        factory(3)(ONE)
        both = jax.jit(lambda v: v + 7), jax.jit(lambda v: v - 7)
        both[0](ONE)
        both[1](ONE)
    assert [each.cause for each in found] == ["first call", "defined again", "first call", "first call"]


def test_a_cleared_cache_is_not_a_first_call() -> None:
    called = jax.jit(lambda v: v * 11)
    called(ONE)  # before the watch
    with inspector.watch_retraces() as found:
        jax.clear_caches()
        called(ONE)
        jax.clear_caches()
        called(ONE)
    assert [each.cause for each in found] == ["cache cleared"] * 2


def test_a_trace_that_failed_does_not_count_as_one() -> None:
    fails = True

    @jax.jit
    def called(v: Any) -> Any:
        if fails:
            raise ValueError("not yet")
        return v * 13

    with inspector.watch_retraces() as found:
        with pytest.raises(ValueError, match="not yet"):
            called(ONE)
        fails = False
        called(ONE)
    assert "cache cleared" not in [each.cause for each in found]


# ------------------------------------------------------------------ compiles in transformations

VECTOR, LONGER = jnp.ones(3), jnp.ones(4)
BATCH, OTHER_BATCH = jnp.ones((2, 3)), jnp.ones((5, 3))
ROWS = Mesh(np.array(DEVICES[:2]), ("d",))
TRANSFORMED = {
    "grad": lambda f, x: jax.grad(f)(x),
    "grad of vmap": lambda f, x: jax.grad(lambda batch: jax.vmap(f)(batch).sum())(jnp.stack([x, x])),
    "vmap of grad": lambda f, x: jax.vmap(jax.grad(f))(jnp.stack([x, x])),
    "value_and_grad": lambda f, x: jax.value_and_grad(f)(x),
    "vjp": lambda f, x: jax.vjp(f, x)[1](jnp.float32(1)),
    "jvp": lambda f, x: jax.jvp(f, (x,), (x,)),
    "linearize": lambda f, x: jax.linearize(f, x)[1](x),
    "jacfwd": lambda f, x: jax.jacfwd(f)(x),
    "jacrev": lambda f, x: jax.jacrev(f)(x),
    "hessian": lambda f, x: jax.hessian(f)(x),
    "checkpoint": lambda f, x: jax.grad(jax.checkpoint(f))(x),
    "vmap": lambda f, x: jax.vmap(f)(jnp.stack([x, x])),
    "jit": lambda f, x: jax.jit(lambda v: f(v) + 1)(x),
    "shard_map": lambda f, x: jax.jit(jax.shard_map(f, mesh=ROWS, in_specs=P(), out_specs=P()))(x),
}


def jitted_target() -> Any:
    @jax.jit
    def target(a: Any) -> Any:
        return (jnp.sin(a) ** 2).sum()

    return target


def doubled_target() -> Any:
    """A linear function: its backward pass has as many arguments as its forward pass."""

    @jax.jit
    def target(a: Any) -> Any:
        return a * 2

    return lambda a: target(a).sum()


@pytest.mark.parametrize("name", TRANSFORMED)
def test_an_event_for_each_compile_in_a_transformation(name: str) -> None:
    transformed, target = TRANSFORMED[name], jitted_target()
    expected = transformed(target, VECTOR)
    jax.clear_caches()
    for x in (VECTOR, VECTOR, LONGER):
        with compiles_by_xla("target") as compiled, inspector.watch_retraces() as found:
            values = transformed(target, x)
        events = [each for each in found if each.fun_name == "target"]
        assert len(compiled) <= len(events)
        assert "unknown" not in [each.cause for each in events]
        if x is VECTOR:
            jax.tree.map(np.testing.assert_allclose, jax.tree.leaves(values), jax.tree.leaves(expected))


@pytest.mark.parametrize("name", [name for name in TRANSFORMED if name not in ("jit", "shard_map")])
def test_a_transformation_of_a_compiled_function_is_an_event(name: str) -> None:
    target = jitted_target()
    target(VECTOR)
    with compiles_by_xla("target") as compiled, inspector.watch_retraces() as found:
        TRANSFORMED[name](target, VECTOR)
    assert compiled
    assert len(compiled) <= len(found)  # JAX also traces some derivatives
    assert {each.cause for each in found if each.event == "compile"} <= {"transformation"}
    with compiles_by_xla("target") as compiled, inspector.watch_retraces() as found:
        TRANSFORMED[name](target, VECTOR)
        target(VECTOR)
    assert not compiled
    assert not len(found)


@pytest.mark.parametrize("make", [jitted_target, doubled_target])
def test_the_backward_pass_of_a_new_trace_has_its_cause(make: Any) -> None:
    target = make()
    with inspector.watch_retraces() as found:
        jax.grad(target)(VECTOR)
        jax.grad(target)(VECTOR)
    assert {each.cause for each in found} <= {"first call", "defined again"}
    with inspector.watch_retraces() as found:
        jax.grad(target)(LONGER)
    assert found[0].cause == "arguments"
    assert "transformation" not in [each.cause for each in found]


def test_another_batch_and_a_call_outside_of_vmap() -> None:
    target = jitted_target()
    batched = jax.vmap(target)
    batched(BATCH)
    for call, now in ((lambda: batched(OTHER_BATCH), "f32[5,3]"), (lambda: target(VECTOR), "f32[3]")):
        with compiles_by_xla("target") as compiled, inspector.watch_retraces() as found:
            call()
        (event,) = found
        assert len(compiled) == 1
        assert (event.event, event.cause) == ("compile", "transformation")
        ((change),) = event.changes
        assert (change.what, change.where, change.now) == ("shape", "a", now)
        assert __file__ in event.called_at
    with inspector.watch_retraces() as found:
        batched(BATCH), batched(OTHER_BATCH), target(VECTOR)
    assert not len(found)


def test_another_batch_in_the_watch_of_the_trace() -> None:
    target = jitted_target()
    with compiles_by_xla("target") as compiled, inspector.watch_retraces() as found:
        jax.vmap(target)(BATCH)
        jax.vmap(target)(OTHER_BATCH)
        target(VECTOR)
    assert len(compiled) == len(found) == 3
    assert [each.event for each in found] == ["trace", "compile", "compile"]
    assert [each.cause for each in found][1:] == ["transformation"] * 2


def test_a_scan_outside_of_jit() -> None:
    def body(carry: Any, x: Any) -> Any:
        return carry + jnp.sin(x), carry

    jax.lax.scan(body, VECTOR, BATCH)
    with compiles_by_xla("scan") as compiled, inspector.watch_retraces() as found:
        jax.lax.scan(body, VECTOR, BATCH)
        jax.lax.scan(body, VECTOR, OTHER_BATCH)
    (event,) = found
    assert len(compiled) == 1
    assert (event.event, event.cause, event.fun_name) == ("compile", "transformation", "body")
    assert [(change.now, change.before) for change in event.changes] == [("f32[5,3]", "f32[2,3]")]


def test_a_shard_map_outside_of_jit() -> None:
    sharded = jax.shard_map(jnp.tanh, mesh=ROWS, in_specs=P("d"), out_specs=P("d"))
    for x in (BATCH, BATCH, jnp.ones((4, 3))):
        with compiles_by_xla("<unnamed function>") as compiled, inspector.watch_retraces() as found:
            sharded(x)
        assert compiled
        assert len(compiled) <= len(found)


def test_a_compile_after_a_trace_elsewhere() -> None:
    inner, lowered = jitted_target(), jitted_target()
    with inspector.watch_retraces():
        jax.jit(lambda x: inner(x) + 1)(VECTOR)
        lowered.lower(VECTOR)
    for target in (inner, lowered):
        with inspector.watch_retraces() as found:
            target(VECTOR)
        assert [(each.event, each.cause) for each in found] == [("compile", "first call")]


def test_lowerings_are_compiled_in_any_order() -> None:
    target = jitted_target()
    with inspector.watch_retraces() as found:
        one, other = target.lower(VECTOR), target.lower(LONGER)
        other.compile()
        one.compile()
    assert [each.event for each in found] == ["trace", "trace"]


def test_types_that_were_only_traced() -> None:
    target = jitted_target()
    target(VECTOR)
    target.lower(LONGER)
    with inspector.watch_retraces() as found:
        target(LONGER)
    (event,) = found
    assert (event.event, event.cause) == ("compile", "arguments")
    assert event.changes == (Changed("shape", "a", "f32[4]", "f32[3]"),)


def test_a_function_without_source() -> None:
    class Halved:
        def __call__(self, v: Any) -> Any:
            return v / 2

    called = jax.jit(Halved())
    called(SQUARE)
    with inspector.watch_retraces() as found:
        called(PLACED["device 1"])
    assert [(each.event, each.cause) for each in found] == [("compile", "placement")]


# ------------------------------------------------------------------ errors in the watch


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (cache_misses, "begin_watch"),
        (cache_misses, "trace"),
        (cache_misses, "trace_ended"),
        (cache_misses, "traced_types"),
        (compile_misses, "compile_again"),
        (compile_misses, "_variables"),
        (compile_misses, "_users_debug"),
        (watches, "_users_place"),
    ],
)
def test_an_error_in_the_watch_is_an_event(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise AttributeError("a name that JAX removed")

    target = jitted_target()
    target.lower(VECTOR)
    monkeypatch.setattr(module, name, fail)
    with inspector.watch_retraces() as found:
        value = target(VECTOR)
        jax.grad(target)(LONGER)
        target(LONGER[:2])
    assert value == pytest.approx(3 * np.sin(1) ** 2)
    unknown = [each for each in found if each.cause == "unknown"]
    assert unknown
    assert all("AttributeError: a name that JAX removed" in each.explanation for each in unknown)
    assert partial_eval.logger is logging.getLogger("jax._src.interpreters.partial_eval")


def test_an_error_of_a_callback_does_not_fail_the_call(caplog: pytest.LogCaptureFixture) -> None:
    class Receiver:
        def heard(self) -> None:
            raise RuntimeError("no thread can be started")

    receiver, watch = Receiver(), RetraceWatch()
    watch.add_listener(receiver.heard)
    watch.start()
    try:
        jitted_target()(VECTOR)
    finally:
        watch.stop()
    assert len(watch.retraces) == 1
    assert "no thread can be started" in caplog.text


def test_listeners_that_the_user_cleared_do_not_fail_the_watch() -> None:
    with inspector.watch_retraces():
        monitoring.unregister_event_duration_listener(watches._listener._on_duration)
    assert not jax.config.jax_explain_cache_misses
    assert partial_eval.logger is logging.getLogger("jax._src.interpreters.partial_eval")


def test_among_equally_close_calls_the_choice_does_not_depend_on_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    closest = cache_misses._closest
    befores = []
    for step in (1, -1):
        monkeypatch.setattr(cache_misses, "_closest", lambda now, keys, step=step: closest(now, list(keys)[::step]))
        jitted = jax.jit(lambda x: x + 1)
        with inspector.watch_retraces() as found:
            for size in (3, 1, 2):
                jitted(np.ones(size, np.float32))
        befores.append([change.before for change in found[-1].changes])
    assert befores == [["f32[1]"], ["f32[1]"]]
