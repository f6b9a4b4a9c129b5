"""What an execution through jaxlib's runtime gives: outputs and tokens, under jaxlib's own names. See `runtime.py`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import jax

from inspector.errors import ExecutionError

T = TypeVar("T")


class ExecuteResults:
    """The outputs of one execution on all devices. They are taken once, by one of the methods.

    `len` is the number of outputs left.
    """

    def __init__(self, raw: Any, device_count: int) -> None:
        self.raw = raw
        self._device_count = device_count

    def __len__(self) -> int:
        return len(self.raw)

    def disassemble_into_single_device_arrays(self) -> list[list[jax.Array]]:
        """For each output, its shards in the order of devices.

        Raises:
          ExecutionError: the outputs were taken before.
        """
        with mapped("disassemble_into_single_device_arrays"):
            return [list(shards) for shards in self.raw.disassemble_into_single_device_arrays()]

    def disassemble_prefix_into_single_device_arrays(self, n: int) -> list[list[jax.Array]]:
        """The same for the first `n` outputs; the others can be taken later.

        Raises:
          ExecutionError: there are not `n`, or they were taken before.
        """
        if not 0 <= n <= len(self):
            raise ExecutionError(f"n must be from 0 to the number of outputs left, {len(self)}, got {n}.")
        with mapped("disassemble_prefix_into_single_device_arrays"):
            return [list(shards) for shards in self.raw.disassemble_prefix_into_single_device_arrays(n)]

    def consume_with_handlers(self, handlers: Sequence[Callable[[list[jax.Array]], T]]) -> list[T]:
        """What each output's handler makes of its shards.

        Raises:
          ExecutionError: not one handler an output, or the outputs were taken before.
        """
        if len(handlers) != len(self):
            raise ExecutionError(f"There must be one handler an output: {len(self)}, got {len(handlers)}.")
        # Not jaxlib's own method: it would wrap what a handler raises.
        shards = self.disassemble_into_single_device_arrays()
        return [handler(each) for handler, each in zip(handlers, shards, strict=True)]

    def consume_token(self) -> ShardedToken:
        """The token of the execution; once.

        Raises:
          ExecutionError: it was taken before.
        """
        with mapped("consume_token"):
            return ShardedToken(self.raw.consume_token(), self._device_count)


class Token:
    """Ready when an execution on one device has ended."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def block_until_ready(self) -> None:
        """Waits.

        Raises:
          ExecutionError: the execution failed.
        """
        with mapped("The execution"):
            self.raw.block_until_ready()


class ShardedToken:
    """Ready when an execution on all devices has ended."""

    def __init__(self, raw: Any, device_count: int) -> None:
        self.raw = raw
        self._device_count = device_count

    def block_until_ready(self) -> None:
        """Waits for all devices.

        Raises:
          ExecutionError: the execution failed.
        """
        with mapped("The execution"):
            self.raw.block_until_ready()

    def get_token(self, index: int) -> Token:
        """One device's token.

        Args:
          index: the device's place in `LoadedExecutable.local_devices`. (It is no device id, though
            jaxlib has called it so.)

        Raises:
          ExecutionError: no such device, or the execution was run without tokens.
        """
        if not 0 <= index < self._device_count:
            raise ExecutionError(
                f"The execution has {self._device_count} devices, 0 to {self._device_count - 1}; got {index}."
            )
        with mapped("get_token"):
            return Token(self.raw.get_token(index))


@contextlib.contextmanager
def mapped(what: str) -> Iterator[None]:
    """Maps what jaxlib raises to an `ExecutionError` that says what failed."""
    try:
        yield
    except Exception as e:
        raise ExecutionError(f"{what} failed: {e}") from e
