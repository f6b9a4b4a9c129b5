"""`Slice`: the devices that something is compiled for ahead of time. Plain values; imports no JAX."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Slice:
    """Devices that are not here.

    Attributes:
      platform: such as "tpu" or "gpu".
      chip: its name in targets; of attached devices what JAX calls their kind.
      topology: chips along each axis; hosts and GPUs a host.
      serialized: jaxlib's own description of attached devices, in base64, which then says all; "" without one.
    """

    platform: str
    chip: str
    topology: tuple[int, ...]
    serialized: str = ""
