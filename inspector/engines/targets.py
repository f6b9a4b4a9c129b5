"""`targets`: the table of targets, with the reason and remedy for those that are unavailable."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from inspector import platforms
from inspector.compilation.target import Target
from inspector.errors import Unavailable, needs_jax
from inspector.support import packages
from inspector.support.columns import TableColumn, TableDescription

if TYPE_CHECKING:
    import pandas as pd


@dataclasses.dataclass(frozen=True, slots=True)
class TargetRow:
    """One row of `targets()`.

    Attributes:
      target: text of the target.
      platform: platform that programs are lowered for, such as "cpu", "tpu" or "gpu".
      device_kind: JAX's name of the device kind.
      device_count: number of JAX devices.
      available: True if this installation can compile for it.
      reason: why it cannot, or the limits of its programs; "" if there are none.
      can_run: True if this process can also run its programs.
    """

    target: str
    platform: str
    device_kind: str
    device_count: int
    available: bool
    reason: str
    can_run: bool


TARGET_COLUMNS: TableDescription[TargetRow] = TableDescription(
    TableColumn("target", "text", lambda row: row.target, "target", views=("data_frame", "command_line")),
    TableColumn("platform", "text", lambda row: row.platform),
    TableColumn("device_kind", "text", lambda row: row.device_kind, "device kind", views=("data_frame", "command_line")),
    TableColumn("device_count", "int", lambda row: row.device_count, "devices", views=("data_frame", "command_line")),
    TableColumn("available", "bool", lambda row: row.available),
    TableColumn(
        "can_run", "bool", lambda row: row.can_run, "can run", views=("data_frame", "command_line"),
        text=lambda row: "yes" if row.can_run else "",
    ),
    TableColumn("reason", "text", lambda row: row.reason, "note", views=("data_frame", "command_line")),
    first=("target", "platform", "device_kind", "device_count", "available", "reason", "can_run"),
    has_reasons=False,
)  # fmt: skip


@needs_jax("inspector.targets")
def targets() -> pd.DataFrame:
    """Lists the targets: attached devices, virtual CPU devices, TPU slices and GPUs, attached or not.

    Other numbers of CPU devices or GPUs and other legal TPU topologies are also targets (see `Target`). Loads no
    compiler. Starts JAX's default backend, as JAX would.

    Returns:
      A table with the columns `target, platform, device_kind, device_count, available, reason, can_run`; `reason`
      ends with the command that makes the target available.
    """
    return TARGET_COLUMNS.data_frame(target_rows())


def target_rows() -> Iterator[TargetRow]:
    """Yields the rows of `targets()`."""
    from inspector._jax.compiling.attached_devices import attached_device_count, attached_device_kind, attached_platform

    here, count = attached_platform(), attached_device_count()
    yield TargetRow("attached", here, attached_device_kind(), count, True, "", True)
    for platform in platforms.PLATFORMS:
        yield from _absent_rows(platform) if platform.plugin else _virtual_rows(platform)


def offered_targets() -> tuple[str, ...]:
    """Returns targets for a menu: the attached devices and the usual ones that can be compiled for; none without JAX."""
    if not packages.folders("jax"):
        return ()
    from inspector._jax.compiling.ahead_of_time import absent_platform

    here = [p for p in platforms.PLATFORMS if not p.plugin or absent_platform(p.name) is None]
    return ("attached", *(target for platform in here for target in platform.offered))


def absent_compiler(kind: str) -> Unavailable | tuple[str, str]:
    """Returns the ahead-of-time compiler of a kind and its limits, or why there is none. Loads nothing.

    Args:
      kind: kind of a target, such as "tpu" or "gpu".
    """
    from inspector._jax.compiling import ahead_of_time

    missing = ahead_of_time.absent_platform(kind)
    if missing is not None:
        return missing
    chip = platforms.named(kind).chips[0]
    return ahead_of_time.absent_compiler(kind), ahead_of_time.why_not(kind, chip)[1]


def _virtual_rows(platform: platforms.Platform) -> Iterator[TargetRow]:
    for count in platform.listed:
        target = Target(f"{platform.kind}:{count}")
        yield TargetRow(str(target), platform.name, platform.name, target.device_count or 0, True, "", can_run=True)


def _absent_rows(platform: platforms.Platform) -> Iterator[TargetRow]:
    from inspector._jax.compiling.ahead_of_time import why_not

    for chip in platform.chips:
        refusal, shortcoming = why_not(platform.name, chip)
        for shape in platform.listed:
            target = Target(f"{platform.kind}:{chip.name}:{shape}")
            yield TargetRow(
                str(target), platform.name, chip.device_kind, target.device_count or 0, not refusal,
                refusal or shortcoming,
                can_run=False,
            )  # fmt: skip
