"""Opens HLO as a `Lowered` without converting it to StableHLO, so that it can be shown but not compiled."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from inspector._jax.modules import isolated_reading, stablehlo
from inspector._jax.modules.hlo import SourceHlo
from inspector.compilation.options.options import Options
from inspector.compilation.program import Argument, Program, Result
from inspector.errors import ModuleError, Unavailable
from inspector.hlo.devices.device_counts import device_counts, is_partitioned
from inspector.hlo.devices.mesh import Mesh
from inspector.hlo.devices.shardy_meshes import shardy_meshes
from inspector.hlo.header import header_attributes, header_count
from inspector.hlo.module import Module
from inspector.hlo.reading.single_instructions import singles
from inspector.hlo.shape import HLO_TYPES, Shape
from inspector.lowering.assemble import NO_JAXPR, root_of
from inspector.lowering.listings import source_listing
from inspector.lowering.module_settings import donated_leaves
from inspector.stages.lowered import Lowered
from inspector.stages.opened_text import hlo_lines
from inspector.support import deferred

_NUMPY_TYPES = {hlo: numpy for numpy, hlo in HLO_TYPES.items()}
_SMALL_FLOAT = re.compile(r"f(\d)(e\w+)")  # f8e4m3fn is NumPy's float8_e4m3fn
_ARGUMENTS_SHOWN = 10_000


@dataclasses.dataclass(frozen=True, slots=True)
class Devices:
    """The devices of an HLO module.

    Attributes:
      num_replicas, num_partitions: the counts, at least 1.
      mesh: its Shardy mesh over all partitions; None if it has none.
      per_device: whether the module is the program of one device, after partitioning.
      notes: the sources of counts that the module does not state.
    """

    num_replicas: int
    num_partitions: int
    mesh: Mesh | None
    per_device: bool
    notes: tuple[str, ...]


def devices_of(module: Module, header: str) -> Devices:
    """Returns the devices of a module; one device, with a note, if the module contradicts itself.

    Args:
      module: the module.
      header: the first line of its text; "" if unknown.
    """
    attributes, meshes = header_attributes(header), shardy_meshes(module)
    stated = (_several(header_count(attributes, name)) for name in ("replica_count", "num_partitions"))
    try:
        counts = device_counts(module, [mesh.size for mesh in meshes], *stated)
    except ModuleError as e:
        return Devices(1, 1, None, per_device=False, notes=(f"the number of devices is unknown: {e}",))
    mesh = next((m for m in meshes if m.size == counts.num_partitions > 1), None)
    per_device = is_partitioned(module, counts.num_partitions)
    notes = list(counts.notes)
    if per_device:
        notes.append(f"this is the per-device program of {counts.num_partitions} partitions")
    return Devices(counts.num_replicas, counts.num_partitions, mesh, per_device, tuple(notes))


def without_stablehlo(
    source: SourceHlo, text: str, platform: str, reason: Unavailable, *,
    devices: Devices | None = None, notes: tuple[str, ...] = (),
) -> Lowered:  # fmt: skip
    """Returns HLO as a `Lowered` that cannot be compiled.

    Args:
      source: the module that XLA has read.
      text: XLA's text of it.
      platform: the platform that it is for.
      reason: the reason why it has no StableHLO.
      devices: its devices, if the caller knows more about them than the module.
      notes: remarks for the user.
    """
    module = Module.from_proto(source.proto)
    devices = devices or devices_of(module, source.header)
    program = Program(
        name=module.name,
        module=b"",
        arguments=tuple(_arguments(module)),
        results=tuple(_results(module)),
        options=Options(num_replicas=devices.num_replicas, num_partitions=devices.num_partitions),
        mesh=devices.mesh,
        platform=platform,
        no_stablehlo=reason,
        hlo_digest=hashlib.sha256(source.proto).hexdigest(),
    )
    later: Mapping[str, Any] = {
        "source": lambda made: source_listing(
            None, [listing for listing in [hlo_lines(made)] if not isinstance(listing, Unavailable)]
        )
    }
    return deferred.defer(
        Lowered,
        later,
        program=program,
        jaxpr_listing=NO_JAXPR,
        stablehlo_listing=reason,
        hlo=text,
        hlo_proto=source.proto,
        root=root_of(program, None, ""),
        notes=(*devices.notes, *notes),
    )


def not_convertible(error: ModuleError, source: SourceHlo) -> Unavailable:
    """Returns the reason why a module has no StableHLO.

    Args:
      error: the error of its conversion.
      source: the module that XLA has read.
    """
    reason = str(error).removesuffix(f"\n{stablehlo.EXPECTED['HLO']}").rstrip(".")
    if isinstance(error, isolated_reading.ReaderDiedError):
        culprit = _crashing(Module.from_proto(source.proto))
        reason = f"XLA crashes when it converts {culprit} to StableHLO" if culprit else reason
    if reason.startswith(("The ", "Cannot ")):
        reason = reason[0].lower() + reason[1:]
    return Unavailable(reason, "all panes and analyses that need no compile are available")


def _crashing(module: Module) -> str:
    """Returns the operation and name of an instruction whose conversion to StableHLO crashes XLA; "" if none does alone."""
    parts = singles(module)
    index = isolated_reading.find_crash([part.module for part in parts])
    if index is None:
        return ""
    instruction = module.at(int(module.alike.first[parts[index].kinds[0]]))
    return f"the {instruction.opcode} {instruction.name}"


def _several(count: int | None) -> int | None:
    return None if count == 1 else count


def _arguments(module: Module) -> Iterator[Argument]:
    """Yields the array leaves of the parameters. JAX names a parameter by its argument."""
    parameters = module.entry.parameters
    names = [parameter.origin.op_name for parameter in parameters]
    donated = frozenset(chain.from_iterable(donated_leaves(module)))
    are_names = all(names) and len(set(names)) == len(names) and not any("/" in name for name in names)
    number = 0
    for at, parameter in enumerate(parameters):
        leaves = parameter.shape.leaves
        for i, leaf in enumerate(leaves):
            path = names[at] if are_names else f"arg{at}"
            yield Argument(
                path if len(leaves) == 1 else f"{path}[{i}]",
                leaf.dimensions,
                _dtype(leaf),
                number,
                donated=number in donated,
            )
            number += 1
            if number == _ARGUMENTS_SHOWN:
                return


def _results(module: Module) -> Iterator[Result]:
    leaves = module.entry.root.shape.leaves
    for i, leaf in enumerate(leaves[:_ARGUMENTS_SHOWN]):
        yield Result(f"[{i}]" if len(leaves) > 1 else "", leaf.dimensions, _dtype(leaf))


def _dtype(shape: Shape) -> str:
    small = _SMALL_FLOAT.fullmatch(shape.element_type)
    return f"float{small[1]}_{small[2]}" if small else _NUMPY_TYPES.get(shape.element_type, shape.element_type)


def devices_for(num_replicas: int, num_partitions: int, mesh: Mesh | None, *, per_device: bool) -> Devices:
    """Returns devices that are known from elsewhere, such as a profile or a dump."""
    whole = mesh if mesh is not None and math.prod(mesh.axis_sizes) == num_partitions else None
    return Devices(num_replicas, num_partitions, whole, per_device, ())
