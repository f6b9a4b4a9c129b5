"""Writes `inspector/toolchain/descriptors.binpb` from the installed jaxlib. Run under the newest one supported.

python tests/toolchain/make_fallback_descriptors.py
"""

from __future__ import annotations

from pathlib import Path

from google.protobuf import descriptor_pb2

import inspector.toolchain
from inspector._jax.libraries.descriptors import installed_descriptors
from inspector.toolchain.schema import FALLBACK_FILE, FALLBACK_ROOTS


def closure(descriptor_set: bytes, roots: tuple[str, ...]) -> bytes:
    """The part of a `FileDescriptorSet` that `roots` need, in the same order."""
    files = {file.name: file for file in descriptor_pb2.FileDescriptorSet.FromString(descriptor_set).file}
    needed: set[str] = set()
    pending = list(roots)
    while pending:
        name = pending.pop()
        if name not in needed:
            needed.add(name)
            pending.extend(files[name].dependency)
    kept = (file for name, file in files.items() if name in needed)
    return descriptor_pb2.FileDescriptorSet(file=kept).SerializeToString()


if __name__ == "__main__":
    target = Path(next(iter(inspector.toolchain.__path__))) / FALLBACK_FILE
    target.write_bytes(closure(installed_descriptors(), FALLBACK_ROOTS))
    print(target, target.stat().st_size, "bytes")
