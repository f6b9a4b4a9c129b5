"""`Listing`: lines with origins."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inspector.hlo.listing import Listing
from inspector.hlo.source import Frame, Origin

origins = st.builds(
    Origin, st.sampled_from(["jit(f)/a", "jit(f)/b", ""]), st.just((Frame("f.py", 3, "f"),)) | st.just(())
)
entries = st.lists(st.lists(origins, max_size=2).map(tuple), min_size=1, max_size=20)


@given(entries)
def test_every_line_gives_its_origins_back(lines: list[tuple[Origin, ...]]) -> None:
    listing = Listing.of("\n".join("x" * len(lines)), lines)
    assert listing.line_count == len(lines)
    assert [listing.origins_of(n) for n in range(len(lines))] == lines
    assert len(set(listing.origins)) == len(listing.origins)
    assert () not in listing.origins
    assert pickle.loads(pickle.dumps(listing)) == listing


@given(entries)
def test_the_table_is_little_endian_int32(lines: list[tuple[Origin, ...]]) -> None:
    listing = Listing.of("", lines)
    table = np.frombuffer(listing.line_origins, "<i4")
    assert [() if i < 0 else listing.origins[i] for i in table] == lines


def test_shared_origins_of_lines_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = []
    usual = Origin.__hash__

    def noted(origin: Origin) -> int:
        hashed.append(origin)
        return usual(origin)

    monkeypatch.setattr(Origin, "__hash__", noted)
    shared = (Origin("jit(f)/a", ()),)
    listing = Listing.of("", [shared, (), *[shared] * 1000, (Origin("jit(f)/a", ()),)])
    assert len(hashed) == 2
    assert len(listing.origins) == 1
    assert listing.origins_of(1) == ()
    assert {listing.origins_of(line) for line in range(2, 1003)} == {shared}
