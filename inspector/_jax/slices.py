"""`Slice`: the devices that something is compiled for ahead of time. Plain values; imports no JAX."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Slice:
    """Devices that are not here.

    Attributes:
      platform: "tpu" or "gpu".
      chip: libtpu's name of a TPU generation, or the description of a GPU's configuration.
      topology: chips along each axis; hosts and GPUs a host.
      chip_config: how a TPU chip's cores are used, libtpu's name; "" for its default.
      serialized: jaxlib's own description of attached devices, in base64, which then says all; "" without one.
    """

    platform: str
    chip: str
    topology: tuple[int, ...]
    chip_config: str = ""
    serialized: str = ""
