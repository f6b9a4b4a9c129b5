"""Replica groups of many devices: read, checked, and named by the axes of their mesh.

    python -m benchmarks.replica_groups [--devices 4096 65536 1048576] [--rounds 5]

The mesh has three axes. Each form is read from a module of one collective and from HLO text. CPU times of this process, the
least of some rounds, as the rest of the machine has no part in them; the aims are those of a million devices.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.measuring import Figure, machine, verdict
from inspector.analysis.collectives.axes import Axes
from inspector.analysis.collectives.participation import Participation, Participations
from inspector.errors import Unavailable
from inspector.hlo.devices.mesh import Mesh
from inspector.hlo.devices.replica_groups import (
    AxisRef,
    Iota,
    IotaGroups,
    ListGroups,
    MeshGroups,
    ReplicaGroups,
    WrittenIds,
    parse,
)
from inspector.hlo.module import Instruction, Module
from inspector.toolchain.schema import installed_schema

DEVICES = (1 << 12, 1 << 16, 1 << 20)
QUICK = (1 << 16,)
AIM_SHORT_S, AIM_WRITTEN_S = 0.010, 0.100
AXES = ("data", "fsdp", "model")


@dataclasses.dataclass(frozen=True)
class Case:
    """Groups on a mesh, and the axes that they are of."""

    name: str
    form: ReplicaGroups
    mesh: Mesh
    axes: Axes
    aim_s: float
    ordered: bool = True


def cases(devices: int) -> list[Case]:
    """Every form.

    Args:
      devices: a power of two, 64 at least.
    """
    sizes = _sizes(devices)
    data, fsdp, model = sizes
    named = tuple(zip(AXES, sizes, strict=True))
    mesh = Mesh(AXES, sizes, "partition")
    transposed = Iota((data, fsdp, model), (2, 1, 0))
    part = MeshGroups(named, (AxisRef("fsdp", 1, 2), AxisRef("data")))
    short = [
        Case("iota", IotaGroups(devices // model, model, Iota((devices,))), mesh, ("model",), AIM_SHORT_S),
        Case("iota, transposed", IotaGroups(model, data * fsdp, transposed), mesh, ("fsdp", "data"), AIM_SHORT_S),
        Case("iota, all devices", IotaGroups(1, devices, Iota((devices,))), mesh, AXES, AIM_SHORT_S),
        Case("mesh", MeshGroups(named, (AxisRef("data"), AxisRef("model"))), mesh, ("data", "model"), AIM_SHORT_S),
        Case("mesh, a part of an axis", part, mesh, ("fsdp:(1)2", "data"), AIM_SHORT_S),
        Case("all", ListGroups(()), mesh, AXES, AIM_SHORT_S),
    ]
    written = [Case(f"written out: {c.name}", _written(c.form), mesh, c.axes, AIM_WRITTEN_S) for c in short[:5]]
    alone = MeshGroups((("data", 2), ("fsdp", devices // 64), ("model", 32)), (AxisRef("data"),))
    small = Mesh(AXES, (2, devices // 64, 32), "partition")
    return [
        *short,
        *written,
        Case("written out: groups of two", _written(alone), small, ("data",), AIM_WRITTEN_S),
        *_shuffled(mesh, named, devices),
    ]


def _shuffled(mesh: Mesh, named: tuple[tuple[str, int], ...], devices: int) -> list[Case]:
    """On a mesh whose devices are in another order, and with members in any order, as an all-reduce may have them."""
    source = np.random.default_rng(0)
    ids = tuple(source.permutation(devices).tolist())
    own = Mesh(mesh.axis_names, mesh.axis_sizes, "partition", ids)
    along = MeshGroups(named, (AxisRef("fsdp"),), WrittenIds.of(ids))
    members = source.permuted(MeshGroups(named, (AxisRef("fsdp"),)).expand(), axis=1).tolist()
    return [
        Case("mesh, its devices shuffled", along, own, ("fsdp",), AIM_WRITTEN_S),
        Case("written out: devices shuffled", _written(along), own, ("fsdp",), AIM_WRITTEN_S),
        Case("written out: members shuffled", ListGroups(members), mesh, ("fsdp",), AIM_WRITTEN_S, ordered=False),
    ]


def _sizes(devices: int) -> tuple[int, int, int]:
    """Of three axes, the first a quarter of the others."""
    bits = devices.bit_length() - 1
    data = max(1, bits // 3 - 1)
    fsdp = (bits - data) // 2
    return 1 << data, 1 << fsdp, 1 << bits - data - fsdp


def _written(form: ReplicaGroups) -> ListGroups:
    return ListGroups(form.expand().tolist())


def serialized(case: Case) -> bytes:
    """An `xla.HloModuleProto` of one collective with the groups."""
    module: Any = installed_schema().message("xla.HloModuleProto")(name="m", entry_computation_id=1)
    computation = module.computations.add(name="main", id=1, root_id=1)
    proto = computation.instructions.add(name="r", id=1, opcode="all-gather" if case.ordered else "all-reduce")
    proto.channel_id, proto.use_global_device_ids = 1, True
    if case.form == ListGroups(()):  # which means all for ids of partitions, and is refused for those of devices
        proto.opcode, proto.use_global_device_ids = "all-to-all", False
    elif isinstance(case.form, IotaGroups):
        _write_iota(proto.iota_collective_device_list, case.form)
    elif isinstance(case.form, MeshGroups):
        _write_mesh(proto.mesh_axes_replica_group_list, case.form)
    else:
        for group in case.form.groups:
            proto.collective_device_list.replica_groups.add(replica_ids=group)
    return bytes(module.SerializeToString())


def _write_iota(proto: Any, form: IotaGroups) -> None:
    proto.num_replica_groups, proto.num_devices_per_group = form.group_count, form.group_size
    proto.iota_reshape_dims.extend(form.ids.dims)
    proto.iota_transpose_perm.extend(form.ids.permutation or range(len(form.ids.dims)))


def _write_mesh(proto: Any, form: MeshGroups) -> None:
    names = [name for name, _ in form.mesh_axes]
    for name, size in form.mesh_axes:
        proto.mesh.axes.add(name=name, size=size)
    if isinstance(form.device_ids, WrittenIds):
        proto.mesh.device_ids.extend(form.device_ids.ids.tolist())
    for axis in form.axes:
        added = proto.axes.add(mesh_axis_index=names.index(axis.name))
        if axis.pre_size is not None:
            added.sub_axis_info.pre_size, added.sub_axis_info.size = axis.pre_size, axis.size


def measure(case: Case, rounds: int) -> tuple[float, float]:
    """The seconds that it takes from a serialized module of one collective, and from text.

    Raises:
      AssertionError: other axes are found.
    """
    data, text = serialized(case), str(case.form)
    mode = _collective(data).group_mode

    def read(program: Participations) -> Participation:
        return program.of(_collective(data))

    def parsed(program: Participations) -> Participation:
        return program.groups(parse(text), mode, case.ordered)

    return _least_s(read, case, rounds), _least_s(parsed, case, rounds)


def _collective(data: bytes) -> Instruction:
    return Module.from_proto(data).entry.instructions[0]


def _least_s(read: Callable[[Participations], Participation], case: Case, rounds: int) -> float:
    least = math.inf
    for _ in range(rounds):
        mesh = dataclasses.replace(case.mesh)  # without what the last round looked up
        program, started = Participations(mesh, 1, mesh.size), time.process_time()
        who = read(program)
        least = min(least, time.process_time() - started)
        found = who.axes.reason if isinstance(who.axes, Unavailable) else who.axes
        assert found == case.axes, f"{case.name}: {found}, not {case.axes}"
    return least


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--devices", type=int, nargs="*", default=list(DEVICES), help="powers of two, 64 at least")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    figures(options.devices, options.rounds)


def figures(sizes: Sequence[int] = QUICK, rounds: int = 5) -> list[Figure]:
    """Measures and prints, a number of devices after the other."""
    found = []
    for devices in sizes:
        sorting = _sorting_s(devices, rounds)
        shape = " x ".join(map(str, _sizes(devices)))
        print(f"{devices:,} devices on a mesh of {shape}; to sort as many ids {sorting * 1e3:.2f} ms {machine()}")
        for case in cases(devices):
            took = dict(zip(("from a proto", "from text"), measure(case, rounds), strict=True))
            reached = verdict(*((s, case.aim_s) for s in took.values()))
            words = ", ".join(f"{way} {s * 1e3:8.2f} ms" for way, s in took.items())
            groups = case.form.shape(devices)[0]
            print(f"  {case.name:<38} {groups:>9,} groups: {words} (s: {reached})", flush=True)
            found += [
                Figure(f"{devices} devices", f"{case.name}, {way}", "sorting the ids", s / sorting)
                for way, s in took.items()
            ]
    return found


def _sorting_s(devices: int, rounds: int) -> float:
    """What the times are held to, as no other program names groups: the least that NumPy takes to sort shuffled ids."""
    ids = np.random.default_rng(0).permutation(devices)
    least = math.inf
    for _ in range(rounds):
        started = time.process_time()
        np.sort(ids)
        least = min(least, time.process_time() - started)
    return least


if __name__ == "__main__":
    main()
