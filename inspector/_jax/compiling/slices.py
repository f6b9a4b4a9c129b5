"""`Slice`: the devices of an ahead-of-time compile. Plain values; imports no JAX."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Slice:
    """Devices that are not attached to the compiling process.

    Attributes:
      platform: for example "tpu" or "gpu".
      chip: its name in targets; for attached devices JAX's name of their kind.
      topology: chips along each axis; hosts and GPUs per host.
      serialized: jaxlib's own complete description of attached devices, in base64; "" without one.
    """

    platform: str
    chip: str
    topology: tuple[int, ...]
    serialized: str = ""
