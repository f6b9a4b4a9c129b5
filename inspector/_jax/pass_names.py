"""The names of compiler passes, as `xla_disable_hlo_passes` and its like take them.

Two sources, since no function of jaxlib lists passes. A pass's `name()` returns a constant, and such
functions are recognised in jaxlib's x86-64 code: this finds passes of every pipeline, and some names
of other things. And XLA logs each pass of a compile in a process of its own: this finds what really
runs on the CPU, with the names that are put together while running.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from inspector._jax.library import cached
from inspector._jax.machine_code import UnknownFormatError, image_of
from inspector.errors import MissingPackageError, Unavailable

# A pass is called by one word of these; anything else that such a function returns is no pass.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")

# XLA's log has no format but its text; this is the line that opens each pass (hlo_pass_pipeline.cc).
_RAN = re.compile(rb"hlo_pass_pipeline\.cc:\d+\]\s+HLO pass ([^\s:]+)$", re.MULTILINE)
_LIMIT_S = 120

# Four partitions, a loop, a sort, a solve: what makes most passes of the pipeline run.
_SCRIPT = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
def f(w, x):
    y = jax.lax.fori_loop(0, 3, lambda _, c: jnp.tanh(c @ w) + jnp.sort(c, 0), x)
    return jax.nn.softmax(y).sum() + jnp.linalg.cholesky(w).sum()
s = NamedSharding(Mesh(np.array(jax.devices()), "i"), PartitionSpec("i"))
x = jax.ShapeDtypeStruct((8, 8), np.float32)
jax.jit(jax.grad(f)).lower(x, x).compile()
jax.jit(lambda a, b: (a @ b).sum(), in_shardings=(s, s)).lower(x, x).compile()
"""


def constant_names() -> frozenset[str] | Unavailable:
    """Passes whose name is a constant in jaxlib's library, among names of other things."""
    try:
        return frozenset(json.loads(cached("pass-names", _scan)))
    except (MissingPackageError, UnknownFormatError, OSError) as e:
        return Unavailable(f"names of passes are read from jaxlib's x86-64 Linux library: {e}")


def observed_names() -> frozenset[str] | Unavailable:
    """Passes that XLA ran on the CPU for a program that needs many. Takes seconds the first time."""
    try:
        return frozenset(json.loads(cached("passes-run", _observe)))
    except MissingPackageError as e:
        return Unavailable(str(e))
    except (OSError, ValueError, subprocess.SubprocessError) as e:
        return Unavailable(f"passes are logged by a process of their own, which failed: {e}")


def _scan(library: Path) -> bytes:
    with image_of(library) as image:
        return json.dumps(sorted({name for name in image.constant_string_views() if _NAME.fullmatch(name)})).encode()


def _observe(_library: Path) -> bytes:
    process = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "JAX_PLATFORMS": "cpu",
            "JAX_ENABLE_COMPILATION_CACHE": "false",
            "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
            "TF_CPP_MIN_LOG_LEVEL": "0",
            "TF_CPP_VMODULE": "hlo_pass_pipeline=1",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_LIMIT_S,
        check=True,
    )
    found = sorted({name.decode() for name in _RAN.findall(process.stderr)})
    if not found:
        raise ValueError("XLA logged no pass")
    return json.dumps(found).encode()
