"""`Target`: the devices that a program is compiled for.

attached         the device that JAX would use in this process; `gpu` and `tpu` require this platform
cpu, cpu:8       one and eight virtual CPU devices in a separate process
tpu:v5e:2x4      a TPU slice, attached or not: generation and topology, in chips
gpu:h100:8       GPUs, attached or not: eight in one host; `gpu:h100:2x8` in two hosts
cpu@jax==0.12.0  any of these, compiled by another version of JAX
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import re
from collections.abc import Collection
from typing import Any

from inspector import platforms
from inspector.errors import TargetError
from inspector.platforms import cpu
from inspector.platforms.topologies import Topology, sizes
from inspector.support.notebook import short

MAX_CPU_DEVICES = cpu.MAX_DEVICES

_OF_JAX = "@jax=="
_VERSION = re.compile(r"[0-9]{1,4}(\.[0-9]{1,8}){1,3}((a|b|rc|\.dev)[0-9]{1,8})?")


@dataclasses.dataclass(frozen=True, slots=True, init=False, repr=False)
class Target:
    """The devices that a program is compiled for, given as text: `Target("cpu:8")`.

    Attributes:
      kind: "attached", "cpu", "tpu" or "gpu".
      device_count: number of JAX devices; None for attached ones.
      chip: the TPU generation ("v5e") or the GPU ("h100"), "" for attached devices and CPUs.
      topology: chips along each axis of a TPU slice; hosts, and GPUs per host.
      jax: the version of JAX that compiles, "" for the installed one.
    """

    kind: str
    device_count: int | None = None
    chip: str = ""
    topology: Topology = ()
    jax: str = ""

    def __init__(self, text: str | Target = "attached") -> None:
        """Reads the text of a target.

        Args:
          text: such as "attached", "cpu:8", "tpu:v5e:2x4" or "gpu:h100:8"; a `Target` is copied.

        Raises:
          TargetError: not the text of a target, or an unknown topology; the message lists the alternatives.
        """
        for field, value in zip(dataclasses.fields(Target), _fields_of(text), strict=True):
            object.__setattr__(self, field.name, value)

    @classmethod
    def parse(cls, text: str | Target) -> Target:
        """Returns the target itself, or the one with this text. Raises as `Target(text)`."""
        return text if isinstance(text, Target) else cls(text)

    @property
    def is_absent(self) -> bool:
        """True if programs are compiled ahead of time, without such a device."""
        return bool(self.chip)

    @property
    def platform(self) -> str | None:
        """Platform that a program is lowered for: "cpu", "tpu", "gpu"; None for JAX's default, which "attached" uses."""
        return None if self.kind == "attached" else platforms.of_target(self.kind, self.chip).name

    def with_devices(self, count: int) -> Target | None:
        """Returns the smallest target of this kind and chip with at least that many devices; None if there is none.

        Raises:
          TargetError: not a number of devices.
        """
        number: Any = count  # given by the user, so of any type
        if not isinstance(number, int) or number < 1:
            raise TargetError(f"The number of devices must be an integer of at least 1, got {short(number)}.")
        if self.kind == "cpu":
            return Target(f"cpu:{count}").by(self.jax) if count <= MAX_CPU_DEVICES else None
        if not self.chip:
            return None
        topologies = platforms.chips_of_kind(self.kind)[self.chip].topologies
        topology = topologies.with_devices(count, self.topology)
        if topology is None:
            return None
        return Target(f"{self.kind}:{self.chip}:{topologies.write(topology)}").by(self.jax)

    def by(self, jax: str) -> Target:
        """Returns the same target for another version of JAX; "" for the installed one.

        Raises:
          TargetError: not a version.
        """
        plain = str(self).partition(_OF_JAX)[0]
        return Target(f"{plain}{_OF_JAX}{jax}" if jax else plain)

    def __repr__(self) -> str:
        return f"Target({str(self)!r})"

    def __str__(self) -> str:
        return f"{self._devices}{_OF_JAX}{self.jax}" if self.jax else self._devices

    @property
    def _devices(self) -> str:
        if self.kind == "cpu":
            return "cpu" if self.device_count == 1 else f"cpu:{self.device_count}"
        if not self.chip:
            return self.kind
        topologies = platforms.chips_of_kind(self.kind)[self.chip].topologies
        return f"{self.kind}:{self.chip}:{topologies.write(self.topology)}"


_Devices = tuple[str, int | None, str, Topology]
_Fields = tuple[str, int | None, str, Topology, str]


def _fields_of(text: str | Target) -> _Fields:
    value: Any = text  # given by the user, so of any type
    if isinstance(value, Target):
        return value.kind, value.device_count, value.chip, value.topology, value.jax
    if not isinstance(value, str):
        raise TargetError(
            f"A target must be a string such as 'attached', 'cpu:8' or 'tpu:v5e:2x4', got {short(value)}."
        )
    plain, of_jax, version = value.strip().partition(_OF_JAX)
    fields = _read(plain)
    if of_jax and not _VERSION.fullmatch(version):
        raise TargetError(
            f"Target {short(value)}: expected a version of JAX after '@jax==', such as 'cpu@jax==0.12.0.1'."
        )
    if fields is None:
        raise TargetError(
            f"Unknown target {short(value)}.{_meant(value)} Expected 'attached', 'cpu:N' (such as 'cpu:8'),"
            " 'tpu:GENERATION:TOPOLOGY' (such as 'tpu:v5e:2x4') or 'gpu:NAME:COUNT' (such as 'gpu:h100:8'), and for another version of"
            " JAX the version after it, such as 'cpu@jax==0.12.0.1'."
        )
    return (*fields, version)


def _read(text: str) -> _Devices | None:
    """Reads a text; None if it does not have the form of a target."""
    kind, *rest = text.split(":")
    if kind == "cpu" and len(rest) <= 1:
        return kind, _cpu_count(text, *rest), "", ()
    if not rest and kind in ("attached", *platforms.KINDS):
        return kind, None, "", ()
    if kind in platforms.KINDS and platforms.chips_of_kind(kind) and 1 <= len(rest) <= 2:
        return _absent(text, kind, *rest)
    return None


def _cpu_count(text: str, count: str = "1") -> int:
    numbers = sizes(count)
    if numbers is not None and len(numbers) == 1 and numbers[0] <= MAX_CPU_DEVICES:
        return numbers[0]
    raise TargetError(
        f"Target {short(text)}: expected the number of virtual devices after 'cpu:', 1 to {MAX_CPU_DEVICES}, such as 'cpu:8'."
    )


def _absent(text: str, kind: str, name: str, shape: str = "") -> _Devices:
    """Reads a target that is compiled for ahead of time."""
    platform = platforms.of_target(kind, name)
    chip = platform.chip(name)
    if chip is None:
        known, usual = platforms.chips_of_kind(kind), platforms.of_target(kind, "")
        raise TargetError(
            f"Target {short(text)}: unknown {usual.chip_word} {short(name)}.{_near(name, known)} Expected one of"
            f" {', '.join(known)}, such as {usual.example!r}."
        )
    topology = chip.topologies.read(text, f"{kind}:{chip.name}", shape)
    return kind, chip.topologies.device_count(topology), chip.name, topology


def _meant(text: str) -> str:
    """Suggests a similar target: in lower case, with its platform, or with inspector's name of the platform."""
    plain = text.strip().lower()
    absent = [platform for platform in platforms.PLATFORMS if platform.chips]
    prefixed = (f"{platform.kind}:{plain}" for platform in absent)
    renamed = (f"{p.kind}{plain.removeprefix(p.lowering)}" for p in absent if p.lowering != p.kind)
    for guess in (plain, *prefixed, *renamed):
        with contextlib.suppress(TargetError):
            if plain and _read(guess):
                return f" Did you mean {guess!r}?"
    return ""


def _near(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name.lower(), known, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
