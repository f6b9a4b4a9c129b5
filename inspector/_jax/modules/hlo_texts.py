"""Prints many HLO modules in a separate process, because damaged modules abort XLA.

If one aborts the process, the others are printed by another one.

Private JAX: as in `hlo.py`.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence

from inspector._jax.compiling import child_process
from inspector.errors import ModuleError, of_resources
from inspector.support import subprocesses

_SIZE = struct.Struct("<q")
_LIMIT_S = 600
_MOST_CRASHES = 8
_MEMORY_BYTES, _MEMORY_BYTES_EACH = 4 << 30, 500
_CPU_S, _CPU_S_EACH = 60, 60e-6
_MAIN = "from inspector._jax.modules.hlo_texts import main; main(*sys.argv[1:])"


def hlo_texts(protos: Sequence[bytes]) -> list[str | ModuleError]:
    """Returns the text of each serialized HloModuleProto, or the reason why XLA cannot print it."""
    answers: list[str | ModuleError] = []
    for _ in range(_MOST_CRASHES):
        if len(answers) == len(protos):
            return answers
        rest = protos[len(answers) :]
        answers += _printed(rest)
        if len(answers) < len(protos):
            answers.append(ModuleError("XLA crashed while it read this HLO module, so it may be damaged."))
    rest = protos[len(answers) :]
    return [*answers, *(ModuleError("XLA crashed while it read earlier modules of this dump.") for _ in rest)]


def _printed(protos: Sequence[bytes]) -> list[str | ModuleError]:
    """Returns the answers of one process, which are fewer than the modules if it was aborted."""
    data = b"".join(part for proto in protos for part in (_SIZE.pack(len(proto)), proto))
    try:
        child = subprocess.run(
            subprocesses.python(_MAIN, str(os.getpid())), env=subprocesses.environ(), input=data, capture_output=True,
            timeout=_LIMIT_S, check=False,
        )  # fmt: skip
        written = child.stdout
    except (OSError, MemoryError) as e:
        raise of_resources(e, "starting a reader of HLO modules") or e from e
    except subprocess.TimeoutExpired as e:
        written = e.stdout or b""
    return list(_answers(written))


def _answers(written: bytes) -> Iterator[str | ModuleError]:
    for part in _split(written):
        text = part[1:].decode("utf-8", "replace")
        yield text if part[:1] == b"t" else ModuleError(text)


def _split(data: bytes) -> Iterator[bytes]:
    position = 0
    while position + _SIZE.size <= len(data):
        (size,) = _SIZE.unpack_from(data, position)
        position += _SIZE.size
        if position + size > len(data):
            return
        yield data[position : position + size]
        position += size


def main(parent: str) -> None:
    """Prints the modules on stdin for the process with the id `parent`."""
    child_process.die_with(int(parent))
    child_process.leave_no_core_file()
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # prints go to stderr
    data = sys.stdin.buffer.read()
    child_process.need_less(_MEMORY_BYTES + _MEMORY_BYTES_EACH * len(data), _CPU_S + int(_CPU_S_EACH * len(data)))
    from inspector._jax.modules import hlo  # deferred: output of jaxlib's import must go to stderr

    for proto in _split(data):
        try:
            part = b"t" + hlo.hlo_text(proto).encode("utf-8", "replace")
        except Exception as e:  # XLA's error
            part = b"e" + str(e)[:2000].encode("utf-8", "replace")
        answer.write(_SIZE.pack(len(part)) + part)
        answer.flush()
    os._exit(0)
