"""A listing in few bytes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from inspector.hlo.listing import Listing
from inspector.hlo.source import Frame, Origin
from inspector.reports import listings
from inspector.support.json_values import FormError
from tests.reports.recorded import exploration

FRAMES = (Frame("a.py", 3, "f"), Frame("b.py", 0))
LISTING = Listing.of(
    "  a = x()\ny\n  ROOT %c = z()",
    [[Origin("jit(f)/add", FRAMES), Origin("jit(f)/mul", FRAMES[:1])], [], [Origin("")]],
    [True, False, True],
    [1, None, 3],
)


def test_written_listings_are_read() -> None:
    lowered = exploration().lowered
    for listing in (LISTING, Listing.of("", [()]), lowered.source, lowered.jaxpr_listing, lowered.stablehlo_listing):
        assert isinstance(listing, Listing)
        assert listings.read(listings.written(listing), "here") == listing


def test_shared_names_are_written_once() -> None:
    written = listings.written(LISTING)
    assert len(written.frames) == 4 * 3 * 2
    assert len(written.stacks[0]) == 4 * 3
    many = Listing.of("\n".join("x" * 1000), [LISTING.origins[0]] * 1000)
    assert len(listings.written(many).names) == len(written.names) - 1 + 1


def of(*numbers: int) -> bytes:
    return np.array(numbers, "<i4").tobytes()


@pytest.mark.parametrize(
    "changes",
    [
        {"lines": of(0)}, {"lines": of(0, 5, 0)}, {"lines": of(0, -2, 0)}, {"lines": b"abc"}, {"text": "x"},
        {"names": ()}, {"frames": of(0, 0)}, {"frames": of(0, 0, -1)}, {"frames": of(-1, 0, 0)},
        {"stacks": (of(1), of(9))}, {"stacks": (of(-1), of())}, {"stacks": (of(2**31 - 1, 2**31 - 1), of())},
        {"origins": of(0, 99)}, {"entries": (of(2), of(0))}, {"entries": (of(1), of(-1))}, {"labels": (1,)},
        {"instructions": ("a",)}, {"instructions": ("a", "y", None)}, {"instructions": ("a", None, "b")}, {"stacks": (bytes(4 << 21), b"")},
    ],
)  # fmt: skip
def test_numbers_that_do_not_go_together_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(FormError, match=r"^here: inconsistent numbers in a listing"):
        listings.read(dataclasses.replace(listings.written(LISTING), **changes), "here")  # type: ignore[arg-type]
