"""Four digests of a compiled program: optimized HLO, memory, cost and machine code.

Equal digests mean that nothing changed except names and metadata. So option sets can be compared by their effect
rather than by how XLA numbered the instructions. Digests are stable across processes and JAX sessions of one jaxlib.
"""

from __future__ import annotations

import dataclasses
import hashlib

from inspector.compilation import machine_code
from inspector.compilation.compiled import CompiledProgram
from inspector.compilation.memory import Memory
from inspector.compilation.preview import NO_CODE, Preview
from inspector.errors import ModuleError, Unavailable
from inspector.hlo.devices.canonical_forms import kind_attributes
from inspector.hlo.module import Computation, Module
from inspector.hlo.reading.field_numbers import (
    CALLED_COMPUTATION_IDS,
    CHANNEL_ID,
    CONTROL_PREDECESSOR_IDS,
    ID,
    METADATA,
    NAME,
    OPERAND_IDS,
    ORIGINAL_VALUE,
)
from inspector.support.digests import digest_of

ASPECTS = ("hlo", "memory", "cost", "code")
"""The compared aspects, the most informative first. Fields of `Fingerprint`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Fingerprint:
    """Digests of a compiled program, SHA-256 in hex.

    Attributes:
      hlo: the optimized HLO: the operation and operands of each instruction, and the order if the module is scheduled.
        Without names, ids, channel numbers and metadata.
      memory: the contents of each memory space, without the size of the code.
      cost: all numbers of `Compiled.cost`.
      code: the machine code of the kernels and of the code that launches them, without the names of symbols; see
        `inspector.compilation.machine_code`.
    """

    hlo: str | Unavailable
    memory: str | Unavailable
    cost: str | Unavailable
    code: str | Unavailable


def fingerprint(compiled: CompiledProgram | Preview, same: Fingerprint | None = None) -> Fingerprint:
    """Computes the digests of a compiled program, or of a preview without machine code.

    Args:
      compiled: the program.
      same: fingerprint of a program with exactly the same text, so that the module is not read again.
    """
    return Fingerprint(
        hlo=module_digest(compiled.module()) if same is None else same.hlo,
        memory=_memory_digest(compiled.memory),
        cost=_numbers_digest(compiled.cost),
        code=NO_CODE if isinstance(compiled, Preview) else _code_digest(machine_code.of_program(compiled)),
    )


def reliable(first: Fingerprint, second: Fingerprint) -> Fingerprint:
    """Returns the digests that two compiles of the same request agree on; the others are unavailable."""
    return Fingerprint(**{aspect: _agreed(getattr(first, aspect), getattr(second, aspect)) for aspect in ASPECTS})


def changes(baseline: Fingerprint, variant: Fingerprint) -> dict[str, bool | Unavailable]:
    """Reports for each of `ASPECTS` whether the variant differs, or why that is unknown."""
    return {aspect: _differ(getattr(baseline, aspect), getattr(variant, aspect)) for aspect in ASPECTS}


def module_digest(module: Module) -> str:
    """Computes the digest of an HLO module, equal for modules that differ only in names, ids and metadata.

    Different spellings of the same replica groups, source-target pairs or shardings have the same digest.

    Raises:
      ModuleError: the module is damaged: an instruction refers to one that does not precede it.
    """
    digests = _Digests(module)
    bodies = [digests.of(computation) for computation in module.computations]
    aliases = [
        getattr(module.proto, field).SerializeToString(deterministic=True)
        for field in _MODULE_FIELDS
        if field in module.proto.DESCRIPTOR.fields_by_name
    ]
    return digest_of([bodies[module.entry.number], *aliases]).hex()


def code_digest(executable: bytes | Unavailable) -> str | Unavailable:
    """Computes the digest of an executable's machine code, ignoring names and the order in which kernels were compiled."""
    return _code_digest(machine_code.of_executable(executable))


def _code_digest(code: machine_code.MachineCode | Unavailable) -> str | Unavailable:
    if isinstance(code, Unavailable):
        return code
    return digest_of([part.encode() for item in sorted(code.items()) for part in item]).hex()


# Fields of HloModuleProto that carry information beyond the computations.
_MODULE_FIELDS = ("input_output_alias", "buffer_donor")

# Fields that name or place an instruction. References count by their targets.
_NAMES = (
    NAME, ID, METADATA, ORIGINAL_VALUE, CHANNEL_ID, OPERAND_IDS, CONTROL_PREDECESSOR_IDS, CALLED_COMPUTATION_IDS,
)  # fmt: skip


class _Digests:
    """Digests of a module's computations, callees before callers."""

    def __init__(self, module: Module) -> None:
        columns = module.columns
        self._module = module
        self._scheduled = set(module.proto.schedule.sequences)
        has_channel = (columns.integers(CHANNEL_ID)[module.alike.first] > 0).tolist()  # which decides what ids are
        pairs = zip(kind_attributes(module, _NAMES), has_channel, strict=True)
        self._attributes = [digest_of([attributes, b"channel"] if has else [attributes]) for attributes, has in pairs]
        self._alone = [hashlib.sha256(attributes).digest() for attributes in self._attributes]  # of what takes nothing
        self._kinds: list[int] = module.alike.kinds.tolist()
        self._operands, self._called, self._before = (
            (links.offsets.tolist(), links.rows.tolist())
            for links in (columns.operands, columns.called, columns.predecessors)
        )
        self._calling = columns.calling
        self._linked = {*columns.called.having.tolist(), *columns.predecessors.having.tolist()}
        self._rows = [b""] * len(columns)
        self._bodies: list[bytes] = []
        self._known: dict[tuple[object, ...], bytes] = {}

    def of(self, computation: Computation) -> bytes:
        """Returns the digest of the next computation."""
        key = self._key(computation)
        if key not in self._known:
            self._known[key] = self._computation(computation)
        self._bodies.append(self._known[key])
        return self._bodies[-1]

    def _key(self, computation: Computation) -> tuple[object, ...]:
        """Returns a key whose equality implies the same digest; the converse does not hold."""
        body = self._module.alike.bodies.get(computation.number, f"only {computation.number}")
        first, last, (offsets, before) = computation.rows.start, computation.rows.stop, self._before
        called = [self._body(each) for row in self._calling[computation.number] for each in _of(self._called, row)]
        counts = [end - offsets[first] for end in offsets[first : last + 1]] if offsets[first] < offsets[last] else []
        order = [row - first for row in before[offsets[first] : offsets[last]]]
        return body, computation.id in self._scheduled, *called, *counts, *order

    def _computation(self, computation: Computation) -> bytes:
        rows, linked, sha256 = computation.rows, self._linked, hashlib.sha256
        digests, alone, attributes, (offsets, operands) = self._rows, self._alone, self._attributes, self._operands
        kinds, ends = self._kinds[rows.start : rows.stop], offsets[rows.start + 1 : rows.stop + 1]
        begin = offsets[rows.start]
        for row, kind, end in zip(rows, kinds, ends, strict=True):
            if row in linked:
                digests[row] = self._instruction(row, computation)
            elif begin == end:
                digests[row] = alone[kind]
            else:
                taken = [digests[other] for other in operands[begin:end]]
                if not all(taken):
                    raise self._misplaced(row, computation)
                digests[row] = sha256(attributes[kind] + b"".join(taken)).digest()
            begin = end
        listed = self._rows[rows.start : rows.stop]
        in_order = listed if computation.id in self._scheduled else sorted(listed)
        return digest_of([self._rows[computation.root.row], b"".join(in_order)])

    def _body(self, computation: int) -> bytes:
        return self._bodies[computation] if computation < len(self._bodies) else b""

    def _instruction(self, row: int, computation: Computation) -> bytes:
        """Returns the digest of an instruction with called computations or control predecessors."""
        # Control predecessors are a set; operands and called computations are ordered.
        operands = [self._rows[other] for other in _of(self._operands, row)]
        called = [*map(self._body, _of(self._called, row))]
        before = sorted(self._rows[other] for other in _of(self._before, row))
        if not all(operands) or not all(called) or not all(before):
            raise self._misplaced(row, computation)
        return digest_of([self._attributes[self._kinds[row]], *operands, b"", *called, b"", *before])

    def _misplaced(self, row: int, computation: Computation) -> ModuleError:
        name = self._module.columns.names[row]
        return ModuleError(
            f"{name} in {computation.name} refers to an instruction or computation that does not precede it: the module is damaged."
        )


def _of(links: tuple[list[int], list[int]], row: int) -> list[int]:
    offsets, rows = links
    return rows[offsets[row] : offsets[row + 1]]


def _memory_digest(memory: Memory | Unavailable) -> str | Unavailable:
    if isinstance(memory, Unavailable):
        return memory
    return digest_of([repr(sorted(memory.spaces.items())).encode()]).hex()


def _numbers_digest(values: object) -> str | Unavailable:
    if isinstance(values, Unavailable):
        return values
    fields = dataclasses.fields(values)  # type: ignore[arg-type]  # Cost
    values_by_field = [(field.name, getattr(values, field.name)) for field in fields]
    return digest_of([repr(values_by_field).encode()]).hex()


def _agreed(first: str | Unavailable, second: str | Unavailable) -> str | Unavailable:
    if isinstance(first, Unavailable) or first == second:
        return first
    return Unavailable("it differs between two compiles of the same program, so a difference means nothing")


def _differ(baseline: str | Unavailable, variant: str | Unavailable) -> bool | Unavailable:
    if isinstance(baseline, Unavailable):
        return baseline
    return variant if isinstance(variant, Unavailable) else baseline != variant
