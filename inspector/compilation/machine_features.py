"""Whether this machine has the instructions that an executable was compiled for.

XLA compiles for the CPU it runs on and writes that CPU's features into the executable. On a CPU that lacks
one, the program may end its process with an illegal instruction.
"""

from __future__ import annotations

from inspector.errors import ExecutionError, Unavailable
from inspector.hlo.executable import cpu_features

_NAMED = 8  # of the missing features; a CPU of another kind lacks dozens


def check_cpu(executable: bytes, local: bytes) -> None:
    """Compares the CPUs of two executables. Says nothing where one of them does not tell its own.

    Args:
      executable: the one to be loaded.
      local: any that was compiled on this machine.

    Raises:
      ExecutionError: this CPU lacks features of the other.
    """
    wanted, have = cpu_features(executable), cpu_features(local)
    if isinstance(wanted, Unavailable) or isinstance(have, Unavailable):
        return
    missing = sorted(wanted - have)
    if missing:
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        raise ExecutionError(
            f"The executable was compiled on a CPU with {', '.join(missing[:_NAMED])}{more}, which this CPU lacks."
            " It could end the process with an illegal instruction. Compile the program again here:"
            " `c = load_compiled(path)`, then `inspector.lower(c).compile(c.options)`."
        )
