"""Reads the default compile options of a process.

XLA sets its flags' defaults in code, and an `XLA_FLAGS` variable changes them once per process. So
they are read in a separate process, without that variable.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from inspector._jax.libraries.library import cached
from inspector.errors import MissingPackageError, Unavailable
from inspector.support import subprocesses

_SCRIPT = "from jaxlib import _jax; sys.stdout.buffer.write(_jax.CompileOptions().SerializeAsString())"
_LIMIT_S = 60


def installed_defaults() -> bytes | Unavailable:
    """Returns a serialized `xla.CompileOptionsProto` with XLA's own defaults, or why they are unknown."""
    try:
        return cached("defaults", _read)
    except MissingPackageError as e:
        return Unavailable(str(e))
    except (OSError, subprocess.SubprocessError) as e:
        last_line = (getattr(e, "stderr", None) or b"").decode(errors="replace").strip().splitlines()[-1:]
        return Unavailable(f"the process that reads the defaults failed: {' '.join([str(e), *last_line])}")


def _read(_library: Path) -> bytes:
    environment = {name: value for name, value in subprocesses.environ().items() if name != "XLA_FLAGS"}
    process = subprocess.run(
        subprocesses.python(_SCRIPT),
        env={**environment, "JAX_PLATFORMS": "cpu"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_LIMIT_S,
        check=True,
    )
    return process.stdout
