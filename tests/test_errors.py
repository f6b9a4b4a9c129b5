"""Numbers that are known in part."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable

import numpy as np
import pytest

import inspector
from inspector import errors
from inspector.errors import AtLeast, Missing, missing, total

CALL = Missing("lu.3", "custom call")
LOOP = Missing("while.1", "loop of unknown length", "counted once")


def test_a_number_known_in_part_is_a_number_that_says_so() -> None:
    value = AtLeast(4176, [CALL])
    assert value == 4176
    assert value > 4000
    assert repr(value) == "at least 4176.0; 1 custom call not counted"
    assert missing(value) == (CALL,)
    assert missing(4176.0) == ()


def test_sums_and_multiples_keep_what_is_missing() -> None:
    value = AtLeast(10, [CALL])
    for made in (value + 5, 5 + value, value * 3, 3 * value, value / 2, sum([value, 1.0]), total([1.0, value])):
        assert missing(made) == (CALL,), made
    assert missing(total([value, AtLeast(1, [CALL, LOOP])])) == (CALL, LOOP)
    assert total([1.0, 2.0]) == 3
    assert missing(total([1.0, 2.0])) == ()


def test_what_is_no_lower_bound_is_not_called_one() -> None:
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


def test_it_pickles() -> None:
    value = pickle.loads(pickle.dumps(AtLeast(2, [CALL])))
    assert (value, value.missing) == (2, (CALL,))


def test_a_message_that_quotes_what_it_got_is_bounded() -> None:
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
def test_what_is_neither_true_nor_false_is_refused(value: object) -> None:
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
