"""A notebook kernel for the tests that need a real one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.widgets.kernel import Kernel, started


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    yield from started()
