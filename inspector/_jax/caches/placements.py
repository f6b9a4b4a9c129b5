"""Compares the placements of arguments in two calls: shardings, devices, memory kinds, and whether they are committed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jax._src import named_sharding
from jax.sharding import NamedSharding, SingleDeviceSharding

from inspector._jax.caches.cache_misses import Change, What


def placements(names: Sequence[str], now: Sequence[Any], before: Sequence[Any]) -> Iterator[Change]:
    """Yields the arguments whose placement differs."""
    for index, (ours, theirs) in enumerate(zip(now, before, strict=False)):
        change = _placement(ours, theirs)
        if change is not None:
            what, new, old = change
            yield what, names[index] if index < len(names) else f"args[{index}]", new, old


def _placement(now: Any, before: Any) -> tuple[What, str, str] | None:
    if now == before:
        return None
    free = named_sharding.UnspecifiedValue
    if isinstance(now, free) or isinstance(before, free):
        return "committed", _sharding_text(now), _sharding_text(before)
    if (
        isinstance(now, SingleDeviceSharding)
        and isinstance(before, SingleDeviceSharding)
        and now.device_set != before.device_set
    ):
        return "device", _sharding_text(now), _sharding_text(before)
    if now.memory_kind != before.memory_kind:
        return "memory kind", str(now.memory_kind), str(before.memory_kind)
    texts = _sharding_text(now), _sharding_text(before)
    if texts[0] == texts[1]:
        return "device", device_text(_ordered(now)), device_text(_ordered(before))
    return "sharding", *texts


def _sharding_text(sharding: Any) -> str:
    if isinstance(sharding, named_sharding.UnspecifiedValue):
        return "not committed to a device"
    if isinstance(sharding, SingleDeviceSharding):
        return device_text(tuple(sharding.device_set))
    if isinstance(sharding, NamedSharding):
        axes = ", ".join(f"{name}={size}" for name, size in sharding.mesh.shape.items())
        return f"{sharding.spec} on mesh ({axes})"
    return str(sharding)


def _ordered(sharding: Any) -> tuple[Any, ...]:
    return tuple(getattr(sharding, "_device_assignment", ()))


def device_text(devices: Sequence[Any]) -> str:
    """Returns the platform and the numbers of some devices."""
    ids = ", ".join(str(device.id) for device in devices[:_MOST_DEVICES])
    more = f", … ({len(devices)} devices)" if len(devices) > _MOST_DEVICES else ""
    return f"{devices[0].platform}:{ids}{more}" if devices else "no device"


_MOST_DEVICES = 8
