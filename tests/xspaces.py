"""Profiles for tests: recorded on this CPU, recorded on real accelerators, and written event by event."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from inspector._jax.compiling.profiling import Recording
from inspector.toolchain.schema import installed_schema

SHARED = Path(__file__).resolve().parents[2] / "shared" / "profiles"
MI300X = tuple(sorted(SHARED.glob("*.xplane.pb")))
NAMES = ("mi300x_conv3d_8gpu", "mi300x_fused_attention")


def recorded(name: str) -> bytes:
    """The bytes of a profile of a real accelerator; skips the test where there is none."""
    path = SHARED / f"{name}.xplane.pb"
    if not path.exists():
        pytest.skip(f"{path} is not on this machine")
    return path.read_bytes()


def looped(x: jax.Array, w: jax.Array) -> Any:
    """A program with a loop, two large kernels that may run in parallel, and small ones."""

    def body(carry: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        with jax.named_scope("step"):
            carry = jnp.tanh(carry @ w)
        return carry, carry.sum()

    carry, sums = jax.lax.scan(body, x, None, length=7)
    return jnp.sort(x, axis=0), jnp.exp(carry) + jnp.sin(w), sums


def arrays(side: int = 128) -> tuple[np.ndarray, np.ndarray]:
    """Inputs of `looped`."""
    values = np.random.default_rng(0).normal(size=(2, side, side)).astype(np.float32)
    return values[0], values[1] * 0.1


def on_cpu(repeat: int = 3, fun: Callable[..., Any] = looped, inputs: tuple[np.ndarray, ...] | None = None) -> bytes:
    """A profile of `looped`, or another function, in this process."""
    inputs = arrays() if inputs is None else inputs
    compiled = jax.jit(fun).lower(*inputs).compile()
    jax.block_until_ready(compiled(*inputs))
    with Recording() as recording:
        for _ in range(repeat):
            jax.block_until_ready(compiled(*inputs))
    return recording.xspace


def message(data: bytes = b"") -> Any:
    """A profile as protobuf's own message."""
    return installed_schema().message("tensorflow.profiler.XSpace").FromString(data)


class Plane:
    """A plane that a test writes."""

    def __init__(self, space: Any, name: str) -> None:
        self.proto = space.planes.add(name=name)
        self._names: dict[str, int] = {}
        self._kinds: dict[str, int] = {}

    def stat(self, owner: Any, name: str, value: int | str | bytes | float, *, by_ref: bool = False) -> None:
        """Adds a statistic to an event, a description or the plane."""
        stat = owner.stats.add(metadata_id=self._stat_id(name))
        if isinstance(value, str) and by_ref:
            stat.ref_value = self._stat_id(value)
        elif isinstance(value, str):
            stat.str_value = value
        elif isinstance(value, bytes):
            stat.bytes_value = value
        elif isinstance(value, float):
            stat.double_value = value
        elif value < 0:
            stat.int64_value = value
        else:
            stat.uint64_value = value

    def kind(self, name: str, display: str = "", stats: Mapping[str, Any] | None = None) -> int:
        """Returns the id of a description, and adds it at its first use."""
        if name not in self._kinds:
            number = self._kinds[name] = len(self._kinds) + 1
            kind = self.proto.event_metadata[number]
            kind.id, kind.name, kind.display_name = number, name, display
            for stat, value in (stats or {}).items():
                self.stat(kind, stat, value)
        return self._kinds[name]

    def line(self, name: str, timestamp_ns: int = 0) -> Any:
        return self.proto.lines.add(name=name, timestamp_ns=timestamp_ns, id=len(self.proto.lines))

    def event(self, line: Any, name: str, start_ps: int, duration_ps: int, *, by_ref: bool = True, **stats: Any) -> Any:
        event = line.events.add(metadata_id=self.kind(name), offset_ps=start_ps, duration_ps=duration_ps)
        for stat, value in stats.items():
            self.stat(event, stat, value, by_ref=by_ref)
        return event

    def _stat_id(self, name: str) -> int:
        if name not in self._names:
            number = self._names[name] = len(self._names) + 1
            self.proto.stat_metadata[number].id = number
            self.proto.stat_metadata[number].name = name
        return self._names[name]
