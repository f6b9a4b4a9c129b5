"""Selects the snapshots of one module. A dump may also have others: XLA compiles kernels to try them out."""

from __future__ import annotations

from collections.abc import Sequence

from inspector.compilation.records.dump_names import START, SnapshotName
from inspector.compilation.records.pass_record import Snapshot


def chain(snapshots: Sequence[Snapshot], number: int | None = None) -> list[Snapshot]:
    """Returns the snapshots of one module number, and those of others that continue it.

    libtpu's `xprecision-rewriter`, which replaces complex numbers, makes another module whose first snapshot is in the
    middle of a pipeline.

    Args:
      snapshots: snapshots with the module's name.
      number: the number of the module; None for the one with the most snapshots.
    """
    parts: dict[int, list[Snapshot]] = {}
    for snapshot in sorted(snapshots, key=lambda s: (s.name.number, s.name.order)):
        parts.setdefault(snapshot.name.number, []).append(snapshot)
    selected = max(parts.values(), key=len, default=[]) if number is None else parts.get(number, [])
    if not selected:
        return []
    for part in reversed(parts.values()):
        selected = [*part, *selected] if _continues(part[-1].name, selected[0].name) else selected
    for part in parts.values():
        selected = [*selected, *part] if _continues(selected[-1].name, part[0].name) else selected
    return selected


def _continues(last: SnapshotName, first: SnapshotName) -> bool:
    is_later = last.number < first.number and last.module == first.module
    return is_later and last.pipeline == first.pipeline and first.order == 0 and first.after != START
