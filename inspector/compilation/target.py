"""`Target`: for what is compiled.

attached         the device that JAX would use in this process; `gpu` and `tpu` insist on the platform
cpu, cpu:8       one and eight virtual CPU devices in a process of their own
tpu:v5e:2x4      a TPU slice that need not be here: generation and topology, in chips
gpu:h100:8       GPUs that need not be here: eight in one host; `gpu:h100:2x8` in two hosts
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import math
from collections.abc import Collection
from typing import Any, Literal

from inspector.compilation.chips import GPUS, MAX_GPUS, TPU_GENERATIONS, TpuGeneration, tpu_generation
from inspector.errors import TargetError

Kind = Literal["attached", "cpu", "tpu", "gpu"]

# XLA starts a few threads for each virtual device; more is a typing error, not a machine.
MAX_CPU_DEVICES = 1024
_DIGITS = 9  # of a number in a target: Python refuses to read those with thousands


@dataclasses.dataclass(frozen=True, slots=True, init=False, repr=False)
class Target:
    """For what is compiled, from its text: `Target("cpu:8")`.

    Attributes:
      kind: "attached", "cpu", "tpu" or "gpu".
      device_count: JAX devices; None for those that are attached.
      chip: the TPU generation ("v5e") or the GPU ("h100"), "" for what is here.
      topology: chips along each axis of a TPU slice; hosts and GPUs a host.
    """

    kind: Kind
    device_count: int | None = None
    chip: str = ""
    topology: tuple[int, ...] = ()

    def __init__(self, text: str | Target = "attached") -> None:
        """Reads a target's text.

        Args:
          text: such as "attached", "cpu:8", "tpu:v5e:2x4" or "gpu:h100:8"; a `Target` is copied.

        Raises:
          TargetError: not a target's text, or no such topology; with what there is instead.
        """
        for field, value in zip(dataclasses.fields(Target), _fields_of(text), strict=True):
            object.__setattr__(self, field.name, value)

    @classmethod
    def parse(cls, text: str | Target) -> Target:
        """The target itself, or that of a text; raises as `Target(text)`."""
        return text if isinstance(text, Target) else cls(text)

    @property
    def is_absent(self) -> bool:
        """Whether it is compiled for ahead of time, without such a device."""
        return bool(self.chip)

    @property
    def platform(self) -> str | None:
        """What a program is lowered for: "cpu", "tpu", "gpu"; None for JAX's default, of "attached"."""
        return None if self.kind == "attached" else self.kind

    def with_devices(self, count: int) -> Target | None:
        """The smallest target of this kind and chip with at least that many devices; None when there is none.

        Raises:
          TargetError: no number of devices.
        """
        given: Any = count  # a user's, whatever the annotation says
        if not isinstance(given, int) or given < 1:
            raise TargetError(f"A number of devices is an integer from 1, got {given!r}.")
        if self.kind == "cpu":
            return Target(f"cpu:{count}") if count <= MAX_CPU_DEVICES else None
        if self.kind == "tpu" and self.chip:
            topology = TPU_GENERATIONS[self.chip].smallest(count)
            return None if topology is None else Target(f"tpu:{self.chip}:{_x(topology)}")
        if self.kind == "gpu" and self.chip:
            per_host = self.topology[1]
            hosts = math.ceil(count / per_host) if per_host > 1 else 1
            topology = (hosts, per_host) if hosts > 1 else (1, count)
            return Target(f"gpu:{self.chip}:{_x(topology)}") if math.prod(topology) <= MAX_GPUS else None
        return None

    def __repr__(self) -> str:
        return f"Target({str(self)!r})"

    def __str__(self) -> str:
        if self.kind == "cpu":
            return "cpu" if self.device_count == 1 else f"cpu:{self.device_count}"
        if not self.chip:
            return self.kind
        if self.kind == "tpu":
            return f"tpu:{self.chip}:{_x(self.topology)}"
        hosts, per_host = self.topology
        return f"gpu:{self.chip}:{_x(self.topology) if hosts > 1 else per_host}"


_Fields = tuple[Kind, int | None, str, tuple[int, ...]]


def _fields_of(text: str | Target) -> _Fields:
    given: Any = text  # a user's, whatever the annotation says
    if isinstance(given, Target):
        return given.kind, given.device_count, given.chip, given.topology
    if not isinstance(given, str):
        raise TargetError(f"A target is a text such as 'attached', 'cpu:8' or 'tpu:v5e:2x4', got {given!r}.")
    fields = _read(given.strip())
    if fields is None:
        raise TargetError(
            f"Unknown target {given!r}.{_meant(given)} Expected 'attached', 'cpu:N' (such as 'cpu:8'),"
            " 'tpu:GENERATION:TOPOLOGY' (such as 'tpu:v5e:2x4') or 'gpu:NAME:COUNT' (such as 'gpu:h100:8')."
        )
    return fields


def _read(text: str) -> _Fields | None:
    """What a text says; None where it is not of a target's form."""
    kind, *rest = text.split(":")
    match kind:
        case "attached" | "tpu" | "gpu" if not rest:
            return kind, None, "", ()
        case "cpu" if len(rest) <= 1:
            return "cpu", _cpu_count(text, *rest), "", ()
        case "tpu" if len(rest) <= 2:
            return _tpu(text, *rest)
        case "gpu" if len(rest) <= 2:
            return _gpu(text, *rest)
    return None


def _cpu_count(text: str, count: str = "1") -> int:
    sizes = _sizes(count)
    if sizes is not None and len(sizes) == 1 and sizes[0] <= MAX_CPU_DEVICES:
        return sizes[0]
    raise TargetError(
        f"Target {text!r}: after 'cpu:' comes the number of virtual devices, 1 to {MAX_CPU_DEVICES}, such as 'cpu:8'."
    )


def _tpu(text: str, name: str, shape: str = "") -> _Fields:
    generation = tpu_generation(name)
    if generation is None:
        raise TargetError(
            f"Target {text!r}: unknown TPU generation {name!r}.{_near(name, TPU_GENERATIONS)} There are"
            f" {', '.join(TPU_GENERATIONS)}, such as 'tpu:v5e:2x4'."
        )
    topology = _sizes(shape) if shape else (1,) * generation.rank
    if topology is not None:
        topology = _whole_shape(generation, topology)
    if topology is not None and generation.is_legal(topology):
        return "tpu", math.prod(topology) * generation.devices_per_chip, generation.name, topology
    if topology is None:
        raise TargetError(
            f"Target {text!r}: cannot read the topology {shape!r}, expected chips along {generation.rank} axes with x"
            f" between, such as 'tpu:{generation.name}:{_x(generation.smallest(8) or ())}'."
        )
    legal = ", ".join(f"'tpu:{generation.name}:{_x(t)}'" for t in generation.neighbours(topology))
    lacking = f"slice of {topology[0]} chips" if len(topology) == 1 else f"topology {_x(topology)}"
    raise TargetError(
        f"Target {text!r}: {generation.name} has no {lacking}. It has {generation.rank} axes, a single chip"
        f" or whole hosts of 2x2 chips (the first two axes even), and at most {generation.max_chips} chips. Nearest: {legal}."
    )


def _whole_shape(generation: TpuGeneration, given: tuple[int, ...]) -> tuple[int, ...]:
    """A number of chips as the smallest topology that has just as many; two of three axes as one layer."""
    if len(given) == 1:
        smallest = generation.smallest(given[0] * generation.devices_per_chip)
        return smallest if smallest and math.prod(smallest) == given[0] else given
    return (*given, 1) if len(given) == 2 and generation.rank == 3 else given


def _gpu(text: str, name: str, count: str = "1") -> _Fields:
    chip = name.lower()
    if chip not in GPUS:
        raise TargetError(
            f"Target {text!r}: unknown GPU {name!r}.{_near(chip, GPUS)} There are {', '.join(GPUS)}, such as"
            " 'gpu:h100:8'."
        )
    sizes = _sizes(count)
    if sizes is None or len(sizes) > 2 or math.prod(sizes) > MAX_GPUS:
        raise TargetError(
            f"Target {text!r}: after 'gpu:{chip}:' comes the number of GPUs in one host, or hosts x GPUs, at most"
            f" {MAX_GPUS}, such as 'gpu:{chip}:8' or 'gpu:{chip}:2x8'; got {count!r}."
        )
    return "gpu", math.prod(sizes), chip, sizes if len(sizes) == 2 else (1, *sizes)


def _sizes(text: str) -> tuple[int, ...] | None:
    """`2x4` as numbers of at least 1; None when it is not that."""
    parts = text.split("x")
    if not all(part.isascii() and part.isdigit() and len(part) <= _DIGITS and int(part) >= 1 for part in parts):
        return None
    return tuple(int(part) for part in parts)


def _x(topology: tuple[int, ...]) -> str:
    return "x".join(map(str, topology))


def _meant(text: str) -> str:
    """The target that a text comes near to: in capitals, without its platform, or by JAX's name of that."""
    plain = text.strip().lower()
    for guess in (plain, f"tpu:{plain}", f"gpu:{plain}", f"gpu{plain.removeprefix('cuda')}"):
        with contextlib.suppress(TargetError):
            if plain and _read(guess):
                return f" Did you mean {guess!r}?"
    return ""


def _near(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name.lower(), known, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
