"""The compile options that a process starts with when nobody has said anything.

XLA sets its flags' defaults in code and an `XLA_FLAGS` variable changes them once for a process, so
they are read in a process of their own, without that variable.
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
    """A serialized `xla.CompileOptionsProto` with XLA's own defaults, or why there is none."""
    try:
        return cached("defaults", _read)
    except MissingPackageError as e:
        return Unavailable(str(e))
    except (OSError, subprocess.SubprocessError) as e:
        said = (getattr(e, "stderr", None) or b"").decode(errors="replace").strip().splitlines()[-1:]
        return Unavailable(f"defaults are read in a process of their own, which failed: {' '.join([str(e), *said])}")


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
