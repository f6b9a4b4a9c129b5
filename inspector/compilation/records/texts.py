"""`Texts`: similar texts, such as a module after each compiler pass, in compressed form.

Each distinct line is stored once, and everything is compressed: 61 stages of a 12-layer step, 184 MB as
text, take a few megabytes.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from inspector.compilation.files.archive import inflate
from inspector.errors import ModuleError

_LEVEL = 1  # half the time of the default, for a tenth more bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Texts:
    """A compressed sequence of texts. Created by `Texts.of` or a `TextsBuilder`.

    Attributes:
      lines: zlib of the distinct lines, joined by newlines.
      orders: zlib of the line numbers of each text: int32, little-endian, each as the difference from
        the previous one.
    """

    lines: bytes = zlib.compress(b"")
    orders: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, texts: Iterable[str]) -> Texts:
        """Creates one entry per text, in order."""
        builder = TextsBuilder()
        indices = [builder.add(text.encode()) for text in texts]
        built = builder.build()
        return cls(built.lines, tuple(built.orders[i] for i in indices))

    def __len__(self) -> int:
        return len(self.orders)

    @property
    def byte_size(self) -> int:
        """Size in bytes, compressed."""
        return len(self.lines) + sum(map(len, self.orders))

    def __getitem__(self, index: int) -> str:
        return "\n".join(self.lines_of(index)[0])

    def lines_of(self, *indices: int) -> list[list[str]]:
        """Returns the lines of several texts; equal lines are the same object.

        Raises:
          ModuleError: the texts come from a damaged file.
        """
        distinct = self.distinct()
        try:
            return [[distinct[number] for number in self.order(index).tolist()] for index in indices]
        except IndexError as e:
            raise ModuleError(f"A recorded text cannot be read ({e}). Compile again.") from e

    def distinct(self) -> list[str]:
        """Returns every distinct line, unpacked at each call.

        Raises:
          ModuleError: the texts come from a damaged file.
        """
        return inflate(self.lines).decode("utf-8", "replace").split("\n")

    def order(self, index: int) -> npt.NDArray[np.int64]:
        """Returns the line numbers of a text: indices into `distinct`, in order.

        Raises:
          ModuleError: the texts come from a damaged file.
        """
        try:
            order = np.cumsum(np.frombuffer(inflate(self.orders[index]), "<i4"), dtype=np.int64)
        except ValueError as e:
            raise ModuleError(f"A recorded text cannot be read ({e}). Compile again.") from e
        return order


class TextsBuilder:
    """Collects texts one by one."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}
        self._orders: dict[bytes, int] = {}

    def add(self, text: bytes) -> int:
        """Adds a text in UTF-8.

        Returns:
          Its index in `build()`; equal texts have the same index.
        """
        numbers = self._numbers
        order = [numbers.setdefault(line, len(numbers)) for line in text.split(b"\n")]
        differences: Any = np.diff(np.array(order, "<i4"), prepend=np.int32(0)).astype("<i4")
        return self._orders.setdefault(zlib.compress(differences.tobytes(), _LEVEL), len(self._orders))

    def build(self) -> Texts:
        """Returns all texts added so far."""
        return Texts(zlib.compress(b"\n".join(self._numbers), _LEVEL), tuple(self._orders))
