"""Devices of a mesh in an order in which collectives take longer on the links of the slice than in another order.

The other orders are those that NumPy makes from the devices in the order of their ids: the axes of the slice, or of the mesh, in another
order. All orders are priced by the same model of the links, without the algorithms that libtpu chose for the present one.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from inspector.analysis.collectives.collective import over
from inspector.analysis.collectives.exchanges.torus import Torus
from inspector.analysis.collectives.pricing.price import Pricing
from inspector.analysis.findings.edits import PlaceDevices
from inspector.analysis.findings.exchanges import Exchange, pricing_of
from inspector.analysis.findings.finding import Finding
from inspector.analysis.findings.subject import Subject
from inspector.compilation.compiled import placed_mesh
from inspector.errors import Unavailable
from inspector.hlo.devices.mesh import Mesh
from inspector.support.units import format_seconds

KIND = "axis-order"
_LEAST_PART = 0.1  # of the exposed time; the model of the links is not more exact
_NEARLY = 0.98  # of the best gain, for code that is shorter
_MOST_LATENCY = 0.5  # of the time of a collective; others should be fewer: `small_collectives`
_MOST_ORDERS = 48
_MOST_DEVICES = 1024
_ANY_ALGORITHM = Unavailable("the algorithm depends on the order of the devices")
_CAUTION = (
    "Arrays then have other parts on each device. Data that the program loads for each host must follow the new order."
)

_Order: TypeAlias = tuple[int, ...]
"""The device id at each position of the mesh, row-major."""


def axis_order(subject: Subject) -> Iterator[Finding]:
    """Yields a finding if another order of the devices makes the exposed communication shorter."""
    links = pricing_of(subject.collectives, subject.roofline.peak, subject.compiled.target).links
    mesh, devices, torus = placed_mesh(subject.compiled), subject.collectives.devices, links.network
    if not isinstance(torus, Torus) or links.doubt or mesh is None or not _is_whole(mesh, devices, torus):
        return
    exchanges = [each for each in subject.exchanges if each.exposed_s]
    now = _times(Pricing(devices, links), exchanges)
    orders = orders_of(torus, mesh.axis_sizes) if exchanges else {}
    gains = {order: saved_s(exchanges, now, _times(Pricing(order, links), exchanges)) for order in orders}
    best = shortest(gains, orders)
    exposed_s = sum(each.exposed_s for each in exchanges)
    if best and gains[best] > _LEAST_PART * exposed_s:
        yield _finding(subject, exchanges, mesh, torus, best, orders[best], gains[best])


def shortest(gains: Mapping[_Order, float], orders: Mapping[_Order, str]) -> _Order:
    """Returns the order with the shortest code among those that gain nearly as much as the best; () for none."""
    most = max(gains.values(), default=0.0)
    good = (order for order in gains if gains[order] >= _NEARLY * most > 0)
    return min(good, key=lambda order: (len(orders[order]), -gains[order]), default=())


def _is_whole(mesh: Mesh, devices: Sequence[int], torus: Torus) -> bool:
    """Reports whether a mesh has all devices of a slice, in the order of the program's partitions."""
    is_known = mesh.kind == "partition" and mesh.device_ids is None and mesh.size <= _MOST_DEVICES
    return is_known and sorted(devices) == list(range(mesh.size)) and mesh.size == torus.device_count


def orders_of(torus: Torus, sizes: Sequence[int]) -> Mapping[_Order, str]:
    """Returns the orders of a slice's devices in a mesh, each with NumPy's code that makes it from the devices by id.

    Args:
      torus: the slice.
      sizes: the sizes of the mesh's axes.
    """
    slice_axes = tuple(size for size in (*reversed(torus.shape), torus.devices_per_chip) if size > 1)
    found: dict[_Order, str] = {}
    for over_slice in itertools.permutations(range(len(slice_axes))):
        for over_mesh in itertools.permutations(range(len(sizes))):
            steps = [
                *(_steps(slice_axes, over_slice) if list(over_slice) != sorted(over_slice) else ()),
                *_steps([sizes[axis] for axis in over_mesh], np.argsort(over_mesh).tolist()),
            ]
            ids = np.arange(math.prod(sizes))
            for name, values in steps:
                ids = ids.reshape(values) if name == "reshape" else ids.transpose(values)
            order = tuple(ids.ravel().tolist())
            code = "".join(f".{name}({', '.join(map(str, values))})" for name, values in steps)
            if order in found or len(found) < _MOST_ORDERS:
                found[order] = min(found.get(order, code), code, key=len)
    return found


def _steps(sizes: Sequence[int], order: Sequence[int]) -> list[tuple[str, Sequence[int]]]:
    """Returns the steps that give an array a shape, and put its axes in another order."""
    is_sorted = list(order) == sorted(order)
    return [("reshape", sizes), *([] if is_sorted else [("transpose", order)])]


def _times(pricing: Pricing, exchanges: Sequence[Exchange]) -> list[float]:
    """Returns the seconds of one execution of each collective."""
    any_algorithm = (dataclasses.replace(each.collective, chosen=_ANY_ALGORITHM) for each in exchanges)
    return [pricing.price(each).known_s for each in any_algorithm]


def saved_s(exchanges: Sequence[Exchange], now: Sequence[float], then: Sequence[float]) -> float:
    """Returns the seconds of one execution of the program that another order of the devices saves.

    What is hidden stays hidden if it becomes shorter; what becomes longer is exposed. Collectives that are mostly latency gain nothing.
    """
    saved = 0.0
    for each, before, after in zip(exchanges, now, then, strict=True):
        if after > before:
            saved -= (after - before) * each.executions
        elif before and each.latency_s <= _MOST_LATENCY * each.price.known_s:
            saved += each.exposed_s * (1 - after / before)
    return saved


def _finding(
    subject: Subject,
    exchanges: Sequence[Exchange],
    mesh: Mesh,
    torus: Torus,
    order: _Order,
    code: str,
    gain_s: float,
) -> Finding:
    by_axes: dict[str, float] = {}
    total_s = 0.0
    for each in exchanges:
        axes = over(each.collective.axes)
        by_axes[axes] = by_axes.get(axes, 0.0) + each.exposed_s
        total_s += each.price.known_s * each.executions
    axes = max(by_axes, key=lambda axes: by_axes[axes])
    exposed_s = sum(by_axes.values())
    names = ", ".join(f"{name}={size}" for name, size in zip(mesh.axis_names, mesh.axis_sizes, strict=True))
    title = (
        f"The device waits {format_seconds(exposed_s)} for collectives, most of it{axes}. With the devices of the mesh {names} in another"
        f" order on the {torus.text}, it would wait {format_seconds(exposed_s - gain_s)}."
    )
    remedy = (
        "devices = np.array(sorted(jax.devices(), key=lambda device: device.id))\n"
        f"mesh = jax.sharding.Mesh(devices{code}, {mesh.axis_names!r})"
    )
    longest = max(exchanges, key=lambda each: each.exposed_s)
    return subject.finding(
        KIND, title, remedy, instructions=[each.holder for each in exchanges], frames=longest.collective.origin.frames,
        saved_part=min(1.0, gain_s / total_s), gain_source="the links of the slice, with textbook algorithms", caution=_CAUTION,
        edits=(PlaceDevices(order),),
    )  # fmt: skip
