"""Checks whether this CPU has the instructions that an executable needs.

XLA compiles for the CPU of the compiling machine and writes its features into the executable. On a CPU that lacks
one of them, the program may end its process with an illegal instruction.
"""

from __future__ import annotations

from inspector.errors import ExecutionError, Unavailable
from inspector.hlo.executable import cpu_features

_NAMED = 8  # missing features in a message; a CPU of another kind lacks dozens


def check_cpu(executable: bytes, local: bytes) -> None:
    """Compares the CPUs of two executables. Passes if one of them does not contain the features of its CPU.

    Args:
      executable: the executable to load.
      local: any executable that was compiled on this machine.

    Raises:
      ExecutionError: this CPU lacks features of the other one.
    """
    wanted, have = cpu_features(executable), cpu_features(local)
    if isinstance(wanted, Unavailable) or isinstance(have, Unavailable):
        return
    missing = sorted(wanted - have)
    if missing:
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        raise ExecutionError(
            f"The executable was compiled on a CPU with {', '.join(missing[:_NAMED])}{more}, which this CPU lacks."
            " It could end the process with an illegal instruction. Compile the program again on this machine:"
            " `c = inspector.load(path)`, then `inspector.lower(c).compile(c.options)`."
        )
