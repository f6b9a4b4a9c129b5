"""`Target`: what users write, and what it says when they cannot have it."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspector.compilation.target import MAX_CPU_DEVICES, Target
from inspector.errors import TargetError


@given(st.integers(1, MAX_CPU_DEVICES))
def test_text_and_target_are_the_same(count: int) -> None:
    target = Target.parse(f"cpu:{count}")
    assert target == Target(f"cpu:{count}") == Target.parse(str(target)) == pickle.loads(pickle.dumps(target))


def test_forms() -> None:
    assert Target.parse("attached") == Target("attached") == Target()
    assert Target.parse(" cpu ") == Target("cpu:1") == Target("cpu")
    assert str(Target("cpu:1")) == "cpu"
    target = Target("cpu:3")
    assert Target.parse(target) is target
    assert Target(target) == target
    assert (target.kind, target.device_count) == ("cpu", 3)


@pytest.mark.parametrize(
    "text", ["attached", "cpu", "cpu:8", "tpu", "gpu", "tpu:v5e:2x4", "gpu:h100:8", "gpu:h100:2x8"]
)
def test_a_target_shows_the_code_that_makes_it(text: str) -> None:
    target = Target(text)
    assert repr(target) == f"Target({text!r})"
    assert eval(repr(target)) == target == pickle.loads(pickle.dumps(target)) == copy.deepcopy(target)
    assert hash(eval(repr(target))) == hash(target)


@pytest.mark.parametrize("make", [Target, Target.parse])
@pytest.mark.parametrize("given", [None, 8, ("cpu", 8), b"cpu"])
def test_a_target_must_be_a_string(make: Callable[[Any], Target], given: Any) -> None:
    with pytest.raises(TargetError, match="A target must be a string such as 'attached', 'cpu:8'"):
        make(given)


def test_an_impossible_target_is_never_made() -> None:
    for text in ("cpu:0", "tpu:v5e:3x3", "gpu:h100:0"):
        with pytest.raises(TargetError):
            Target(text)
    with pytest.raises(AttributeError):
        Target("cpu").kind = "tpu"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cpu:0", f"1 to {MAX_CPU_DEVICES}, such as 'cpu:8'"),
        (f"cpu:{MAX_CPU_DEVICES + 1}", "number of virtual devices"),
        ("cpu:", "number of virtual devices"),
        ("cpu:-1", "number of virtual devices"),
        ("cpu:²", "number of virtual devices"),
        ("cpu:8x2", "number of virtual devices"),
        ("cpu:8:2", "Unknown target 'cpu:8:2'"),
        ("attached:2", "Unknown target 'attached:2'"),
        ("tpu:v5f:2x4", "unknown TPU generation 'v5f'. Did you mean 'v5"),
        ("tpu:v5e:3x3", "v5e has no topology 3x3. A slice is a single chip, or whole hosts of 2x2 chips along 2 axes"),
        ("tpu:v5e:3x3", "Nearest: 'tpu:v5e:2x2', 'tpu:v5e:2x4', 'tpu:v5e:4x2', 'tpu:v5e:4x4'."),
        ("tpu:v5e:32x32", "at most 256 chips"),
        ("tpu:v5e:2x4x2", "has no topology 2x4x2"),
        ("tpu:v5e:13", "v5e has no slice of 13 chips."),
        ("tpu:v5e:13", "Nearest: 'tpu:v5e:2x4', 'tpu:v5e:2x6', 'tpu:v5e:4x4', 'tpu:v5e:2x10'."),
        ("tpu:tpu7x:3", "Nearest: 'tpu:tpu7x:1x1x1', 'tpu:tpu7x:2x2x1', 'tpu:tpu7x:2x2x2', 'tpu:tpu7x:2x2x3'."),
        ("tpu:v5e:eight", "cannot read the topology 'eight'"),
        ("tpu:v5e:2x4:1", "Unknown target"),
        ("gpu:h10", "Did you mean 'h100'?"),
        ("gpu:8", "unknown GPU '8'."),
        ("gpu:8", "such as 'gpu:h100:8'."),
        ("gpu:h100:0", "the number of GPUs in one host"),
        ("gpu:h100:2x8x2", "the number of GPUs in one host"),
        ("gpu:h100:100000", "at most 4096"),
        (f"cpu:{'9' * 5000}", "number of virtual devices"),
        ("CPU", "Unknown target 'CPU'. Did you mean 'cpu'?"),
        ("cuda", "Did you mean 'gpu'?"),
        ("cuda:h100:8", "Did you mean 'gpu:h100:8'?"),
        ("h100:8", "Did you mean 'gpu:h100:8'?"),
        ("v5e:2x4", "Did you mean 'tpu:v5e:2x4'?"),
        ("", "Unknown target ''"),
    ],
)
def test_an_unknown_target_is_refused_with_the_valid_ones(text: str, words: str) -> None:
    with pytest.raises(TargetError) as caught:
        Target.parse(text)
    assert words in str(caught.value)


def test_a_number_is_not_a_target() -> None:
    with pytest.raises(
        TargetError, match="A target must be a string such as 'attached', 'cpu:8' or 'tpu:v5e:2x4', got 8"
    ):
        Target.parse(8)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "canonical", "device_count", "platform"),
    [
        ("tpu:v5e", "tpu:v5e:1x1", 1, "tpu"),
        ("tpu:v5e:2x4", "tpu:v5e:2x4", 8, "tpu"),
        ("tpu:v5e:8", "tpu:v5e:2x4", 8, "tpu"),
        ("tpu:V5LitePod:4x4", "tpu:v5e:4x4", 16, "tpu"),
        ("tpu:v4:2x2x2", "tpu:v4:2x2x2", 8, "tpu"),
        ("tpu:v5p:2x2", "tpu:v5p:2x2x1", 4, "tpu"),
        ("tpu:trillium:2x2", "tpu:v6e:2x2", 4, "tpu"),
        ("tpu:tpu7x:2x2x1", "tpu:tpu7x:2x2x1", 8, "tpu"),
        ("gpu:h100", "gpu:h100:1", 1, "gpu"),
        ("gpu:H100:8", "gpu:h100:8", 8, "gpu"),
        ("gpu:b200:1x4", "gpu:b200:4", 4, "gpu"),
        ("gpu:gb200:18x4", "gpu:gb200:18x4", 72, "gpu"),
    ],
)
def test_absent_targets(text: str, canonical: str, device_count: int, platform: str) -> None:
    target = Target.parse(text)
    assert (str(target), target.device_count, target.platform, target.is_absent) == (
        canonical, device_count, platform, True
    )  # fmt: skip
    assert Target.parse(canonical) == target == pickle.loads(pickle.dumps(target))


@pytest.mark.parametrize("text", ["attached", "tpu", "gpu"])
def test_attached_targets_are_not_absent(text: str) -> None:
    target = Target.parse(text)
    assert (str(target), target.device_count, target.is_absent, target.with_devices(8)) == (text, None, False, None)


@pytest.mark.parametrize(
    ("text", "count", "enough"),
    [
        ("cpu:2", 6, "cpu:6"),
        ("cpu", MAX_CPU_DEVICES + 1, None),
        ("tpu:v5e:1x1", 8, "tpu:v5e:2x4"),
        ("tpu:v5e:1x1", 257, None),
        ("tpu:tpu7x", 8, "tpu:tpu7x:2x2x1"),
        ("gpu:h100:1", 8, "gpu:h100:8"),
        ("gpu:h100:8", 9, "gpu:h100:2x8"),
        ("gpu:h100:8", 10_000, None),
    ],
)
def test_enough_devices(text: str, count: int, enough: str | None) -> None:
    found = Target.parse(text).with_devices(count)
    assert found == (Target.parse(enough) if enough else None)


def test_a_target_may_name_another_jax() -> None:
    target = Target("tpu:v5e:2x4@jax==0.12.0.1")
    assert (str(target), target.jax, target.is_absent) == ("tpu:v5e:2x4@jax==0.12.0.1", "0.12.0.1", True)
    assert Target("tpu:v5e:2x4").by("0.12.0.1") == target != target.by("") == Target("tpu:v5e:2x4")
    assert target.by("0.10.2.dev1").jax == "0.10.2.dev1"
    assert str(Target("cpu:2@jax==0.12.0").with_devices(4)) == "cpu:4@jax==0.12.0"
    assert Target(target) == Target.parse(str(target)) == target


@pytest.mark.parametrize(
    "version", ["", "1", "0.12; rm", "0.12 --index-url http://x", "../x", "0.12.0.1.2.3", "0.1" + "0" * 20]
)
def test_a_version_is_nothing_but_one(version: str) -> None:
    with pytest.raises(TargetError, match="expected a version of JAX after '@jax=='"):
        Target(f"cpu@jax=={version}")
