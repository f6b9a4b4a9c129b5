"""`Target`: for what is compiled.

`attached` is the device that JAX would use in this process; `cpu` and `cpu:8` are one and eight
virtual CPU devices in a process of their own.
"""

from __future__ import annotations

import dataclasses

from inspector.errors import TargetError


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """A parsed target.

    Attributes:
      kind: "attached" or "cpu".
      device_count: virtual devices for "cpu"; None for "attached".
    """

    kind: str
    device_count: int | None = None

    @classmethod
    def parse(cls, text: str | Target) -> Target:
        """A `Target` from its text.

        Raises:
          TargetError: not a target's text, or not one that this version can compile for.
        """
        if isinstance(text, Target):
            return text
        if not isinstance(text, str):
            raise TargetError(f"A target is a text such as 'attached' or 'cpu:8', got {text!r}.")
        kind, colon, rest = text.strip().partition(":")
        if kind == "attached" and not colon:
            return cls("attached")
        if kind == "cpu":
            if not colon:
                return cls("cpu", 1)
            if rest.isascii() and rest.isdigit() and 1 <= int(rest) <= MAX_CPU_DEVICES:
                return cls("cpu", int(rest))
            raise TargetError(
                f"Target {text!r}: after 'cpu:' comes the number of virtual devices,"
                f" 1 to {MAX_CPU_DEVICES}, such as 'cpu:8'."
            )
        if kind in ("gpu", "tpu", "cuda"):
            raise TargetError(
                f"Target {text!r} is not available: this version compiles for 'attached' (the device of"
                " this process) and 'cpu:N'. On a machine with that device, use 'attached'."
            )
        raise TargetError(f"Unknown target {text!r}: expected 'attached', 'cpu' or 'cpu:N' (such as 'cpu:8').")

    def __str__(self) -> str:
        if self.kind == "attached":
            return "attached"
        return "cpu" if self.device_count == 1 else f"cpu:{self.device_count}"


# XLA starts a few threads for each virtual device; more is a typing error, not a machine.
MAX_CPU_DEVICES = 1024
