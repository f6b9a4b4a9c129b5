"""Why JAX traces again, in JAX's words taken apart: fails when a JAX says it otherwise."""

from __future__ import annotations

import functools
import logging
import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.interpreters import partial_eval

import inspector
from inspector._jax.retraces import Changed, Retraces

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
    if "explanation unavailable" in static.explanation:  # JAX 0.12 does not say it of static values
        assert (static.cause, static.changes) == ("unknown", ())
    else:
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


def test_what_was_traced_before_the_watch_is_not_traced_for_it() -> None:
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


def test_what_else_jax_says_there_is_said_while_somebody_watches(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), inspector.watch_retraces():
        partial_eval.logger.log(logging.WARNING, "of %s", "another")
        partial_eval.logger.warning("of a third")
    assert [record.getMessage() for record in caplog.records] == ["of another", "of a third"]
    assert partial_eval.logger is logging.getLogger("jax._src.interpreters.partial_eval")


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
    assert list(table.columns) == ["function", "called_at", "cause", "what", "where", "now", "before", "defined_at"]
    assert table["where"].tolist()[1:] == ["x", "y"]
    assert table["what"].isna()[0]
    assert table["now"].tolist()[1:] == ["f32[2]"] * 2
    assert "1 first calls, 1 again" in repr(found)
    assert "shape of x: f32[2], before f32[3]" in repr(found)
    assert "<table" in found._repr_html_()
