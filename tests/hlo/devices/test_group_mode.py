"""The kind of ids in the groups, as in XLA's `GetCollectiveOpGroupMode`."""

from __future__ import annotations

import pytest

from inspector.errors import ModuleError
from inspector.hlo.devices.group_mode import GroupMode, group_mode


@pytest.mark.parametrize("opcode", ["all-reduce", "all-gather", "reduce-scatter"])
@pytest.mark.parametrize("half", ["", "-start"])
def test_the_half_that_starts_has_the_mode_of_the_whole(opcode: str, half: str) -> None:
    assert group_mode(opcode + half, 1, use_global_device_ids=True) is GroupMode.FLATTENED_ID
    assert group_mode(opcode + half, 1, use_global_device_ids=False) is GroupMode.CROSS_REPLICA_AND_PARTITION
    assert group_mode(opcode + half, None, use_global_device_ids=False) is GroupMode.CROSS_REPLICA
    with pytest.raises(ModuleError, match="needs both"):
        group_mode(opcode + half, None, use_global_device_ids=True)


@pytest.mark.parametrize("opcode", ["all-to-all", "collective-permute", "collective-permute-start"])
def test_others_have_no_global_ids(opcode: str) -> None:
    assert group_mode(opcode, 1, use_global_device_ids=False) is GroupMode.CROSS_PARTITION
    assert group_mode(opcode, None, use_global_device_ids=False) is GroupMode.CROSS_REPLICA
