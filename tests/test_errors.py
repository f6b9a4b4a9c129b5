"""Numbers that are known in part, and values that are not known."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from IPython.core.formatters import DisplayFormatter

import inspector
from inspector import errors
from inspector.errors import AtLeast, InspectorError, Missing, Unavailable, UnavailableError, missing, total

CALL = Missing("lu.3", "custom call")
LOOP = Missing("while.1", "loop of unknown length", "counted once")


def test_a_partially_known_number_is_a_marked_number() -> None:
    value = AtLeast(4176, [CALL])
    assert value == 4176
    assert value > 4000
    assert repr(value) == "at least 4176.0; 1 custom call not counted"
    assert missing(value) == (CALL,)
    assert missing(4176.0) == ()


def test_sums_and_multiples_keep_the_missing_parts() -> None:
    value = AtLeast(10, [CALL])
    for made in (value + 5, 5 + value, value * 3, 3 * value, value / 2, sum([value, 1.0]), total([1.0, value])):
        assert missing(made) == (CALL,), made
    assert missing(total([value, AtLeast(1, [CALL, LOOP])])) == (CALL, LOOP)
    assert total([1.0, 2.0]) == 3
    assert missing(total([1.0, 2.0])) == ()


def test_operations_that_lose_a_lower_bound_return_plain_numbers() -> None:
    value = AtLeast(10, [CALL])
    for made in (value - 5, 5 - value, value * -1, 1 / value, 1.0 / value, value / AtLeast(2, [CALL])):
        assert type(made) is float, made


def test_missing_parts_are_counted_by_kind() -> None:
    parts = [
        CALL,
        Missing("lu.4", "custom call"),
        CALL,
        LOOP,
        Missing("while.2", "loop of unknown length", "counted once"),
    ]
    assert AtLeast(1, parts).reason == "2 custom calls not counted, 2 loops of unknown length counted once"


def test_a_lower_bound_pickles() -> None:
    value = pickle.loads(pickle.dumps(AtLeast(2, [CALL])))
    assert (value, value.missing) == (2, (CALL,))


def test_a_message_with_a_quoted_value_is_bounded() -> None:
    error = errors.ModuleError("Cannot read " + "x" * 5_000_000 + "the end", 7)
    assert str(error.args[0]).startswith("Cannot read x")
    assert str(error.args[0]).endswith("the end")
    assert "… 4,9" in str(error)
    assert len(str(error)) < 101_000
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.args) == (errors.ModuleError, error.args)
    assert str(errors.UnboundAxisError("short")) == "short"


def test_a_module_with_a_long_header_gives_no_long_error() -> None:
    with pytest.raises(errors.ModuleError) as caught:
        inspector.lower(f"HloModule {'x' * 5_000_000} broken (((\nENTRY")
    assert len(str(caught.value)) < 110_000


@pytest.mark.parametrize("value", ["no", "yes", "", 0, 1, None, [True]])
def test_values_without_a_truth_value_are_refused(value: object) -> None:
    lowered = inspector.lower(lambda x: x + 1, 1.0)
    calls: dict[str, Callable[[], object]] = {
        "isolate": lambda: lowered.compile(target="cpu", isolate=value),  # type: ignore[arg-type]
        "interpret": lambda: inspector.lower(lambda x: x + 1, 1.0, interpret=value),  # type: ignore[arg-type]
        "return_shape": lambda: inspector.xla_computation(lambda x: x, return_shape=value),  # type: ignore[arg-type]
        "detailed_logging": lambda: inspector.get_compile_options(1, 1, detailed_logging=value),  # type: ignore[arg-type]
        "cache": lambda: inspector.settings.Settings(cache=value),  # type: ignore[arg-type]
    }
    for name, call in calls.items():
        with pytest.raises(ValueError, match=f"^{name} must be True or False, got {re.escape(repr(value))}"):
            call()
    with pytest.raises(errors.OptionError, match="interpret must be True or False"):
        inspector.explore(lambda x: x + 1, 1.0, target="cpu", interpret=value)  # type: ignore[arg-type]


def test_numpys_booleans_are_booleans() -> None:
    assert errors.check_bool("isolate", np.True_) is True
    assert inspector.Options(use_spmd_partitioning=np.False_).use_spmd_partitioning is False  # type: ignore[arg-type]


# ------------------------------------------------------------------ a value that is not there

GONE = Unavailable("passes were not recorded", "Compile with products=('passes',).")
EVERY_USE: dict[str, Callable[[Any], object]] = {
    "the attribute 'table'": lambda gone: gone.table(),
    "the attribute 'steps'": lambda gone: gone.steps[0].name,
    "a call": lambda gone: gone(1, a=2),
    "len()": len,
    "[0]": lambda gone: list(iter(gone)),
    "['x']": lambda gone: gone["x"],
    "iteration": lambda gone: 3 in gone,
    "index": lambda gone: [*gone],
    "<": lambda gone: gone < 3,
    ">": lambda gone: gone > 3,
    "<=": lambda gone: sorted([1, gone], key=lambda each: each <= 3),
    "+": lambda gone: sum([1.0, gone]),
    "*": lambda gone: np.float32(2) * gone,
    "-": lambda gone: 3 - gone,
    "/": lambda gone: gone / 1024,
    "float()": lambda gone: "%.2f" % gone,  # noqa: UP031
    "int()": int,
    "round()": round,
    "'.3g'": lambda gone: f"{gone:.3g}",
    "','": lambda gone: f"{gone:,}",
    "'.4'": lambda gone: f"{gone:.4}",
}


@pytest.mark.parametrize("use", EVERY_USE)
def test_every_use_of_an_unavailable_value_gives_the_reason(use: str) -> None:
    with pytest.raises(UnavailableError, match="passes were not recorded") as raised:
        EVERY_USE[use](GONE)
    said = str(raised.value)
    assert said.startswith("Cannot use ")
    assert use in said
    assert said.endswith("Remedy: Compile with products=('passes',).")
    assert isinstance(raised.value, InspectorError)


def test_without_a_remedy_none_is_named() -> None:
    with pytest.raises(UnavailableError, match=r"unavailable value: nobody knows\.$"):
        Unavailable("nobody knows").x  # noqa: B018


def test_unavailable_values_have_no_special_attributes() -> None:
    """By Python, IPython, pandas and others, which look before they use."""
    assert not any(
        hasattr(GONE, name) for name in ("table", "shape", "dtype", "_repr_html_", "__array__", "__iter__", "_x")
    )
    assert getattr(GONE, "anything", 3) == 3
    for name in ("_repr_html_", "__array__", "_ipython_display_"):
        with pytest.raises(AttributeError) as raised:
            getattr(GONE, name)
        assert not isinstance(raised.value, UnavailableError)
    assert DisplayFormatter().format(GONE) == ({"text/plain": repr(GONE)}, {})
    assert not isinstance(GONE, Iterable)
    assert np.asarray(GONE).shape == ()
    assert jax.tree.leaves({"a": GONE}) == [GONE]


def test_an_unavailable_value_prints_copies_and_pickles() -> None:
    assert not GONE
    assert repr(GONE).startswith("Unavailable(reason='passes were")
    assert str(GONE) == f"{GONE}" == "unavailable: passes were not recorded (Compile with products=('passes',).)"
    assert f"{GONE:>90}".strip() == str(GONE)
    assert copy.copy(GONE) == copy.deepcopy(GONE) == pickle.loads(pickle.dumps(GONE)) == GONE
    assert {GONE: 1}[GONE] == 1
    assert (GONE == 3, GONE != 3) == (False, True)
    frame = pd.DataFrame({"a": [GONE, 1], "b": [2.0, 3.0]})
    assert "unavailable: passes were" in str(frame)
    assert "unavailable: passes were" in frame.to_html()
    assert not frame.isna().any().any()


def test_missing_passes_have_a_remedy() -> None:
    compiled: Any = inspector.lower(lambda x: x + 1, jnp.ones(3)).compile(target="cpu")
    with pytest.raises(UnavailableError, match=r"was not requested.*products="):
        compiled.passes.table()
