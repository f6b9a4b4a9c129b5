"""Warnings about the devices of a compile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from inspector.compilation.placement import device_ids
from inspector.compilation.request import CompileRequest
from inspector.support.units import format_list


def device_warnings(request: CompileRequest, devices: Sequence[str]) -> Iterator[str]:
    """Yields a warning if the devices are not those of the function's mesh, and if some devices of the target are unused.

    Args:
      request: the request.
      devices: as in `CompiledProgram.devices`.
    """
    named, ids, target = request.program.device_ids, device_ids(devices), request.target
    if named and len(named) == len(ids) and named != ids and request.build_options.device_assignment is None:
        yield (
            f"The function's mesh names the devices {_listed(named)}, but {target} does not have all of them. The program"
            f" is compiled for the devices {_listed(ids)}, in the same order."
        )
    if ids and target.device_count is not None and len(ids) < target.device_count:
        smaller = target.with_devices(len(ids))
        fits = f" or compile for {smaller}" if smaller and (smaller.device_count or 0) < target.device_count else ""
        yield (
            f"The program uses {len(ids)} of the {target.device_count} devices of {target}; the others are idle. Shard it"
            f" over a mesh of {target.device_count} devices{fits}."
        )


def _listed(ids: Sequence[int]) -> str:
    return format_list(list(map(str, ids)), most=16)
