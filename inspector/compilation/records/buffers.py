"""`Buffers`: XLA's buffer assignment of one compile, with the allocations in each heap in order.

Recorded by a compile with `products=("buffers",)`; read by `analysis/timeline`.
"""

from __future__ import annotations

import dataclasses
import zlib

from inspector.compilation.files.archive import inflate
from inspector.compilation.records.packed import pack, unpack
from inspector.errors import ModuleError
from inspector.hlo.allocation_totals import assignment_in

_LEVEL = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Buffers:
    """A buffer assignment. Created by `Buffers.of`.

    Attributes:
      compressed: zlib of a serialized `xla.HloProto`: the module at the time of the assignment (its
        instruction ids are those of the buffers) and the `xla.BufferAssignmentProto` with heap traces.
      live_range: XLA's own text of live ranges, or "" if the backend writes none.
    """

    compressed: bytes
    live_range: str = ""

    @classmethod
    def of(cls, hlo_proto: bytes, live_range: str = "") -> Buffers:
        """Creates a `Buffers` from a serialized `xla.HloProto`."""
        return cls(zlib.compress(hlo_proto, _LEVEL), live_range)

    @property
    def hlo_proto(self) -> bytes:
        """The serialized `xla.HloProto`, fields `hlo_module` and `buffer_assignment`."""
        return inflate(self.compressed)

    @property
    def assignment(self) -> bytes:
        """The serialized `xla.BufferAssignmentProto`."""
        return assignment_in(self.hlo_proto)

    @property
    def byte_size(self) -> int:
        """Size in bytes, compressed."""
        return len(self.compressed) + len(self.live_range)

    def to_bytes(self) -> bytes:
        """Encodes the buffers for another process or a file; `from_bytes` is the inverse."""
        return pack(None, [self.compressed, zlib.compress(self.live_range.encode(), _LEVEL)])

    @classmethod
    def from_bytes(cls, data: bytes) -> Buffers:
        """Decodes the result of `to_bytes`.

        Raises:
          ModuleError: other or damaged data.
        """
        try:
            _, (compressed, live_range) = unpack(data, type(None))
            return cls(compressed, inflate(live_range).decode())
        except ValueError as e:
            raise ModuleError(f"The recorded buffer assignment cannot be read ({e}). Compile again.") from e

    def __repr__(self) -> str:
        return f"<Buffers: a buffer assignment, {self.byte_size:,} bytes>"
