from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from inspector.lowering.leaves import is_array


@pytest.mark.parametrize(
    "leaf", [np.float32(1), np.ones(2), np.array(True), jnp.ones(2), jax.ShapeDtypeStruct((), jnp.int32), 1, 1.5, 1j, True]
)  # fmt: skip
def test_numbers_and_arrays_of_them_are_arrays(leaf: object) -> None:
    assert is_array(leaf)


@pytest.mark.parametrize(
    "leaf",
    ["text", None, len, np.array("text"), np.array([b"bytes"]), np.array([None]), np.datetime64("2020"), np.str_("x")],
)
def test_texts_objects_and_dates_are_none(leaf: object) -> None:
    assert not is_array(leaf)
