from __future__ import annotations

import pytest

from inspector.hlo.devices.mesh import Mesh


def test_size_is_the_number_of_positions() -> None:
    assert Mesh(("i", "j"), (2, 3), "partition").size == 6
    assert Mesh(("i", "j"), (4, 0), "replica").size == 0
    assert Mesh((), (), "partition").size == 1
    assert str(Mesh(("i", "none"), (1, 0), "replica")) == "replica mesh (i=1, none=0)"


def test_an_invalid_mesh_is_refused() -> None:
    with pytest.raises(ValueError, match="expected one size per axis, 0 or more"):
        Mesh(("i",), (-1,), "partition")
    with pytest.raises(ValueError, match="expected one size per axis, 0 or more"):
        Mesh(("i",), (2, 2), "partition")
    with pytest.raises(ValueError, match="3 device ids for a mesh of 4 positions"):
        Mesh(("i",), (4,), "partition", (0, 1, 2))
