"""Digits of sequences against the sequences themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inspector.hlo.devices.mixed_radix import Digit, Digits, digits_of, length, merged, radices, reshaped
from inspector.hlo.devices.replica_groups import Ids

SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=4)


def written_out(digits: Digits) -> Ids:
    sequence = np.zeros(1, np.int64)
    for digit in digits:
        sequence = (sequence[:, None] + np.arange(digit.size) * digit.stride).reshape(-1)
    return sequence


@given(SHAPES, st.data())
@settings(deadline=None)
def test_transposed_ids_count_in_digits(sizes: list[int], data: st.DataObject) -> None:
    permutation = data.draw(st.permutations(range(len(sizes))))
    digits = tuple(radices(sizes)[dimension] for dimension in permutation)
    sequence = np.arange(math.prod(sizes)).reshape(sizes).transpose(permutation).reshape(-1)
    assert length(digits) == len(sequence)
    assert written_out(digits).tolist() == sequence.tolist()
    assert written_out(merged(digits)).tolist() == sequence.tolist()
    assert digits_of(sequence) == merged(digits)


@given(SHAPES, st.data())
@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
def test_dimensions_of_a_reshaped_sequence(sizes: list[int], data: st.DataObject) -> None:
    permutation = data.draw(st.permutations(range(len(sizes))))
    digits = tuple(radices(sizes)[dimension] for dimension in permutation)
    total, shape = math.prod(sizes), []
    for _ in range(data.draw(st.integers(0, 6))):
        shape.append(data.draw(st.sampled_from([d for d in range(1, total + 1) if total % d == 0])))
        total //= shape[-1]
    shape.append(total)
    array = written_out(digits).reshape(shape)
    found = reshaped(digits, shape)
    rows = [np.moveaxis(array, axis, -1).reshape(-1, size) for axis, size in enumerate(shape)]
    regular = [digits_of(row[0]) if (row - row[:, :1] == row[0]).all() else None for row in rows]
    if found is not None:
        assert [merged(dimension) for dimension in found] == regular
    else:
        assert None in regular


@given(st.lists(st.integers(0, 30), min_size=1, max_size=12))
@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
def test_the_digits_reproduce_the_sequence(numbers: list[int]) -> None:
    sequence = np.array([0, *numbers])
    digits = digits_of(sequence)
    if digits is not None:
        assert written_out(digits).tolist() == sequence.tolist()
        assert merged(digits) == digits


@pytest.mark.parametrize(
    ("sequence", "digits"),
    [
        ([0], ()),
        ([0, 3, 6], (Digit(3, 3),)),
        ([0, 1, 4, 5], (Digit(2, 4), Digit(2, 1))),
        ([0, 4, 1, 5], (Digit(2, 1), Digit(2, 4))),
        ([0, 1, 4, 6], None),
        ([0, 1, 2, 4], None),
        ([0, 0], None),
        ([0, -1], None),
        ([0, 2, 1, 3, 5, 4], None),
    ],
)
def test_digits_of(sequence: list[int], digits: Digits | None) -> None:
    assert digits_of(np.array(sequence)) == digits


@pytest.mark.parametrize(
    ("outer", "inner", "holds"),
    [((4, 2), (2, 2), True), ((4, 2), (2, 4), True), ((4, 2), (4, 2), True), ((4, 2), (2, 1), False),
     ((4, 2), (4, 4), False), ((4, 2), (2, 8), False)],
)  # fmt: skip
def test_digits_that_contain_other_digits(outer: tuple[int, int], inner: tuple[int, int], holds: bool) -> None:
    assert Digit(*outer).holds(Digit(*inner)) == holds
