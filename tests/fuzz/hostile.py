"""Hostile requests: what to ask of an engine, made from a seed and a number alone.

The same jaxlib, seed and number always give the same request, so that a run can be resumed and any
request repeated. `kernel.py` does what is asked; nothing here touches JAX.
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Sequence
from typing import Any, Literal

Platform = Literal["cpu", "tpu", "cuda"]
Kind = Literal["flag", "flags", "passes", "build", "hlo", "proto", "stablehlo", "fault"]
Fault = Literal["worker killed", "worker hung", "worker answers garbage", "out of memory", "fork server killed"]

WEIGHTS: dict[Kind, int] = {
    "flag": 46, "flags": 12, "passes": 10, "build": 9, "hlo": 5, "proto": 4, "stablehlo": 10, "fault": 4,
}  # fmt: skip
PLATFORMS: dict[Platform, int] = {"cpu": 60, "tpu": 25, "cuda": 15}
"""Those that can be compiled for share the requests by these weights."""
FAULTS: tuple[Fault, ...] = (
    "worker killed", "worker killed", "worker hung", "worker answers garbage", "worker answers garbage", "out of memory",
    "fork server killed",
)  # fmt: skip
PASS_FLAGS = ("xla_disable_hlo_passes", "xla_enable_hlo_passes_only", "xla_run_hlo_passes_starting_from")

_JUNK_TEXTS = (
    "", " ", "junk", "-1", "0", "true", ".*", "(", "llvm", "a" * 5000, "é∀", "\0", "a=b", "a,b,,", "{", "1,2,3",
    "/proc/self/nowhere/x", "out", "--xla_dump_to=x", "%s%n", "xla.proto { x: 1 }", "algsimp", "fusion",
)  # fmt: skip
_JUNK: tuple[Any, ...] = (None, "", "junk", -1, 3, 1.5, True, float("nan"), float("inf"), [], {}, b"x", 2**70, "true")
_RANGES = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
}
_WORDS = ("add", "multiply", "dot", "reduce", "fusion", "parameter", "broadcast", "f32", "bf16", "s4", "pred", "tuple", "while", "tensor", "return")  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """An option as the catalog has it: a name, a type's kind and its choices; `of_libtpu` is for TPUs only."""

    name: str
    kind: str
    repeated: bool
    choices: tuple[str, ...]
    default: Any
    of_flags: bool
    of_libtpu: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Hostile:
    """One request.

    Attributes:
      kind: what is hostile of it.
      platform: for what is compiled.
      program: which of the programs, as a number to be taken modulo how many there are.
      flags: by name, of any type.
      build: other fields of `Options`.
      fault: what happens meanwhile, for the kind "fault".
      run: whether to run what was compiled.
      seed: for mutations and times.
    """

    kind: Kind
    platform: Platform
    program: int
    flags: dict[str, Any]
    build: dict[str, Any]
    fault: Fault | None
    run: bool
    seed: str


def hostile(
    seed: int, index: int, fields: Sequence[Field], passes: Sequence[str], platforms: Sequence[Platform] = ("cpu",)
) -> Hostile:
    """Request number `index`.

    Args:
      seed: of the whole run.
      index: from 0.
      fields: the catalog, in a fixed order.
      passes: names of passes, in a fixed order.
      platforms: that can be compiled for, in a fixed order.
    """
    source = random.Random(f"{seed}:{index}")
    kind = source.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    platform = source.choices(platforms, [PLATFORMS[name] for name in platforms])[0]
    flags = [field for field in fields if field.of_flags and (platform == "tpu" or not field.of_libtpu)]
    given: dict[str, Any] = {}
    build: dict[str, Any] = {}
    if kind in ("flag", "flags"):
        for field in source.sample(flags, 1 if kind == "flag" else source.randint(2, 6)):
            given[field.name] = _value(source, field)
        if source.random() < 0.03:
            given[f"xla_{source.choice(_WORDS)}_nonsense"] = True
    elif kind == "passes":
        given[source.choice(PASS_FLAGS)] = _pass_list(source, passes)
    elif kind == "build":
        build = _build(source)
    return Hostile(
        kind=kind,
        platform=platform,
        program=source.randrange(1 << 16),
        flags=given,
        build=build,
        fault=source.choice(FAULTS) if kind == "fault" else None,
        run=source.random() < 0.3,
        seed=f"{seed}:{index}:inner",
    )


def mutated_text(text: str, source: random.Random) -> str:
    """A module's text with one to three lines lost, swapped, doubled, changed or nested deeply, or its end cut off."""
    lines = text.split("\n")
    if source.random() < 0.03:
        lines[source.randrange(len(lines))] += source.choice("({[<") * 100_000
    for _ in range(source.choice((1, 1, 2, 3))):
        i, j = source.randrange(len(lines)), source.randrange(len(lines))
        line = lines[i]
        match source.randrange(7):
            case 0 if len(lines) > 1:
                lines.pop(i)
            case 1:
                lines[i], lines[j] = lines[j], lines[i]
            case 2 if line:
                at = source.randrange(len(line))
                lines[i] = line[:at] + chr(source.randrange(32, 127)) + line[at + 1 :]
            case 3:
                lines.insert(i, lines[j])
            case 4 if numbers := list(re.finditer(r"\d+", line)):
                number = source.choice(numbers)
                new = source.choice((0, 1, -1, 7, 2**31, 2**63, int(number.group()) + 1))
                lines[i] = line[: number.start()] + str(new) + line[number.end() :]
            case 5 if source.random() < 0.3:
                lines = lines[: i + 1]
            case _:
                word = next((word for word in _WORDS if word in line), None)
                if word is not None:
                    lines[i] = line.replace(word, source.choice(_WORDS), 1)
    return "\n".join(lines)


def mutated_bytes(data: bytes, source: random.Random) -> bytes:
    """A serialized module with one to eight bytes changed, lost or put in."""
    changed = bytearray(data)
    for _ in range(source.choice((1, 2, 8))):
        i = source.randrange(len(changed))
        match source.randrange(3):
            case 0:
                changed[i] = source.randrange(256)
            case 1:
                del changed[i : i + source.randrange(1, 9)]
            case _:
                changed[i:i] = source.randbytes(source.randrange(1, 5))
    return bytes(changed)


def garbage(source: random.Random) -> bytes:
    """Returns bytes that a worker might send instead of a message."""
    headers = (
        b"{}", b"[]", b"null", b'{"blobs": []}', b'{"blobs": [4611686018427387904]}', b'{"blobs": [99999999999]}',
        b'{"blobs": [], "stage": 3}', b'{"blobs": [], "reply": "compiled"}', b'{"blobs": [], "reply": "error"}',
        b'{"blobs": [], "reply": "compiled", "recycle": false}', b'{"blobs": [true, -1]}', b"\xff\xfe",
        b'{"blobs": [], "reply": "error", "type": "__doc__", "text": "x", "recycle": false}',
        b'{"blobs": [], "reply": "error", "type": "Unavailable", "text": "x", "recycle": false}',
        b'{"blobs": [], "preview": true}',
    )  # fmt: skip
    match source.randrange(4):
        case 0:
            return source.randbytes(source.randrange(1, 200))
        case 1:
            return b"\xff\xff\xff\xff" + source.randbytes(50)
        case 2:
            return b"\x00\x00\x00\x08junk"
        case _:
            header = source.choice(headers)
            return len(header).to_bytes(4, "little") + header


def _value(source: random.Random, field: Field) -> Any:
    draw = source.random()
    if draw < 0.15:
        return source.choice(_JUNK)
    if field.kind == "bool":
        return source.random() < 0.5 if field.default is None else not field.default
    if field.kind in _RANGES and not field.repeated:
        low, high = _RANGES[field.kind]
        return source.choice((low, high, low + 1, high - 1, 0, 1, 2, 3, 7, 64, 1000, *((-1, -5) if low else ())))
    if field.kind in ("float", "double"):
        return source.choice((0.0, -0.0, 1.0, -1.0, 0.5, 1e-30, 1e30, -3e38, 100.0))
    if field.kind == "enum":
        names = [*field.choices, "JUNK", "", str(source.randrange(-3, 40))]
        return ",".join(source.choices(names, k=source.choice((1, 1, 2)))) if field.repeated else source.choice(names)
    if field.repeated and field.kind in _RANGES:
        return ",".join(str(source.choice((0, 1, -1, 5, 2**31, 2**63 - 1))) for _ in range(source.randrange(4)))
    return source.choice(_JUNK_TEXTS)


def _pass_list(source: random.Random, passes: Sequence[str]) -> str:
    names = source.sample(list(passes), min(len(passes), source.choice((1, 1, 2, 5, 40))))
    if source.random() < 0.2:
        names.insert(source.randrange(len(names) + 1), source.choice(_JUNK_TEXTS))
    return ",".join(names)


def _build(source: random.Random) -> dict[str, Any]:
    numbers = (0, 1, 1, 2, 3, 8, -1, 2**31, 2**63, True, 1.5, "2", None)
    values: dict[str, Any] = {
        "num_replicas": source.choice(numbers),
        "num_partitions": source.choice(numbers),
        "device_assignment": source.choice(
            (
                None,
                ((0,),),
                ((0, 0),),
                ((7,),),
                ((-1,),),
                ((2**40,),),
                ((2**70,),),
                (),
                ((),),
                "0",
                5,
                (("a",),),
                ((0,), (0,)),
            )
        ),
        "use_spmd_partitioning": source.choice((True, False, None, 1, "yes")),
        "use_shardy_partitioner": source.choice((True, False, None)),
        "allow_spmd_sharding_propagation_to_parameters": source.choice((None, (), (True,), (True,) * 50, "x", 5)),
        "allow_spmd_sharding_propagation_to_output": source.choice((None, (), (False,), (True,) * 50)),
        "parameter_is_tupled_arguments": source.choice((True, False, None)),
        "extra_proto": source.choice((b"", b"junk", source.randbytes(30), b"\x08\x01", b"\x1a\x02\x08\x00", 7)),
    }
    return {name: values[name] for name in source.sample(list(values), source.choice((1, 1, 2, 3)))}
