"""Results of an execution through jaxlib's runtime: outputs and tokens, under jaxlib's own names. See `runtime.py`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import jax

from inspector.errors import ExecutionError

T = TypeVar("T")


class ExecuteResults:
    """The outputs of one execution on all devices. They can be taken only once, by one of the methods.

    `len` is the number of outputs not yet taken.
    """

    def __init__(self, raw: Any, device_count: int) -> None:
        self.raw = raw
        self._device_count = device_count

    def __len__(self) -> int:
        return len(self.raw)

    def disassemble_into_single_device_arrays(self) -> list[list[jax.Array]]:
        """Returns the shards of each output, in device order.

        Raises:
          ExecutionError: the outputs were already taken.
        """
        with mapped("disassemble_into_single_device_arrays"):
            return [list(shards) for shards in self.raw.disassemble_into_single_device_arrays()]

    def disassemble_prefix_into_single_device_arrays(self, n: int) -> list[list[jax.Array]]:
        """Returns the shards of the first `n` outputs; the others can be taken later.

        Raises:
          ExecutionError: fewer than `n` outputs, or they were already taken.
        """
        if not 0 <= n <= len(self):
            raise ExecutionError(f"n must be from 0 to the number of outputs left, {len(self)}, got {n}.")
        with mapped("disassemble_prefix_into_single_device_arrays"):
            return [list(shards) for shards in self.raw.disassemble_prefix_into_single_device_arrays(n)]

    def consume_with_handlers(self, handlers: Sequence[Callable[[list[jax.Array]], T]]) -> list[T]:
        """Returns the result of each output's handler, called with the shards of the output.

        Raises:
          ExecutionError: the number of handlers differs from the number of outputs, or the outputs were already taken.
        """
        if len(handlers) != len(self):
            raise ExecutionError(f"There must be one handler per output: {len(self)}, got {len(handlers)}.")
        # Does not use jaxlib's own method, which would wrap the exceptions of handlers.
        shards = self.disassemble_into_single_device_arrays()
        return [handler(each) for handler, each in zip(handlers, shards, strict=True)]

    def consume_token(self) -> ShardedToken:
        """Returns the token of the execution; can be called once.

        Raises:
          ExecutionError: the token was already taken.
        """
        with mapped("consume_token"):
            return ShardedToken(self.raw.consume_token(), self._device_count)


class Token:
    """A token that becomes ready when an execution on one device has ended."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def block_until_ready(self) -> None:
        """Waits until the token is ready.

        Raises:
          ExecutionError: the execution failed.
        """
        with mapped("The execution"):
            self.raw.block_until_ready()


class ShardedToken:
    """A token that becomes ready when an execution on all devices has ended."""

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
        """Returns the token of one device.

        Args:
          index: position of the device in `LoadedExecutable.local_devices`. (It is not a device id, although
            jaxlib has called it so.)

        Raises:
          ExecutionError: no such device, or the execution ran without tokens.
        """
        if not 0 <= index < self._device_count:
            raise ExecutionError(
                f"The execution has {self._device_count} devices, 0 to {self._device_count - 1}; got {index}."
            )
        with mapped("get_token"):
            return Token(self.raw.get_token(index))


@contextlib.contextmanager
def mapped(what: str) -> Iterator[None]:
    """Converts exceptions of jaxlib to an `ExecutionError` that names the failed operation."""
    try:
        yield
    except Exception as e:
        raise ExecutionError(f"{what} failed: {e}") from e
