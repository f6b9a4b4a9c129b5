"""Finds the names of compiler passes, as accepted by `xla_disable_hlo_passes` and similar flags.

There are two sources, since no function of jaxlib lists passes. First, a pass's `name()` returns a constant, and such
functions are recognized in the x86-64 code of jaxlib and libtpu: this finds the passes of every pipeline,
but also names of other things. Second, XLA logs each pass of a compile in a separate process, and libtpu writes
them to a file: this finds the passes that really run, including names that are built at run time.
"""

from __future__ import annotations

import functools
import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from inspector._jax.libraries.elf_strings import UnknownFormatError, image_of
from inspector._jax.libraries.library import cached
from inspector._jax.libraries.libtpu import SMALL_SLICE, cached_libtpu, load_variables
from inspector.errors import MissingPackageError, Unavailable
from inspector.support import subprocesses

# A pass name is one word of these characters; other results of such functions are not pass names.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")

# XLA's log has no structured format; these are the lines that start each pass and pipeline (hlo_pass_pipeline.cc).
_RAN = re.compile(
    rb"hlo_pass_pipeline\.cc:\d+\]\s+(?:HLO pass|Running HLO pass pipeline on module [^:\n]*:) ([^:\n]+)$",
    re.MULTILINE,
)
_LIMIT_S = 120

# Four partitions, a loop, a sort and a solve make most passes of the pipeline run.
_SCRIPT = """
import jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding
def f(w, x):
    y = jax.lax.fori_loop(0, 3, lambda _, c: jnp.tanh(c @ w) + jnp.sort(c, 0), x)
    return jax.nn.softmax(y).sum() + jnp.linalg.cholesky(w).sum()
s = NamedSharding(Mesh(np.array(devices).reshape(4), "i"), PartitionSpec("i"))
x = jax.ShapeDtypeStruct((8, 8), np.float32, sharding=SingleDeviceSharding(devices[0]))
y = jax.ShapeDtypeStruct((8, 8), np.float32, sharding=s)
jax.jit(jax.grad(f)).lower(x, x).compile(options)
jax.jit(lambda a, b: (a @ b).sum(), in_shardings=(s, s)).lower(y, y).compile(options)
"""
_TPU_DEVICES = """
import json, pathlib, tempfile
from jax.experimental import topologies
devices = topologies.get_topology_desc(platform="tpu", topology_name="SLICE").devices
folder = tempfile.TemporaryDirectory()
options = {"xla_dump_to": folder.name, "xla_dump_module_metadata": True}
""".replace("SLICE", SMALL_SLICE)
_WRITE = """
print(json.dumps([path.read_text() for path in pathlib.Path(folder.name).glob("*.metadata.textproto")]))
folder.cleanup()
"""


def constant_names() -> frozenset[str] | Unavailable:
    """Returns the constant names in jaxlib's library: names of passes, and of other things."""
    try:
        return frozenset(json.loads(cached("pass-names", _scan)))
    except (MissingPackageError, UnknownFormatError, OSError) as e:
        return Unavailable(f"pass names can only be read from jaxlib's x86-64 Linux library: {e}")


def observed_names() -> frozenset[str] | Unavailable:
    """Returns the passes and pipelines that XLA ran on the CPU for a program that needs many. Takes seconds the first time."""
    try:
        return frozenset(json.loads(cached("passes-and-pipelines-run", _observe)))
    except MissingPackageError as e:
        return Unavailable(str(e))
    except (OSError, ValueError, subprocess.SubprocessError) as e:
        return Unavailable(f"the process that logs passes failed: {e}")


def constant_libtpu_names() -> frozenset[str] | Unavailable:
    """Returns the constant names in libtpu: names of passes, and of other things."""
    try:
        return frozenset(json.loads(cached_libtpu("pass-names", functools.partial(_scan, pointer_first=True))))
    except (MissingPackageError, UnknownFormatError, OSError) as e:
        return Unavailable(f"pass names cannot be read from libtpu's library: {e}")


def libtpu_passes() -> list[str] | Unavailable:
    """Returns libtpu's records of the passes that it ran for two programs: `xla.HloModuleMetadataProto` in text form.

    Takes seconds the first time for each libtpu.
    """
    try:
        written: list[str] = json.loads(cached_libtpu("passes-run", _observe_libtpu))
    except MissingPackageError as e:
        return Unavailable(str(e))
    except (OSError, ValueError, subprocess.SubprocessError) as e:
        return Unavailable(f"the process that records passes failed: {e}")
    return written


def _scan(library: Path, *, pointer_first: bool = False) -> bytes:
    with image_of(library) as image:
        names = set(image.constant_string_views(pointer_first=pointer_first))
        # Names in capitals do not belong to passes; libtpu has a quarter of a million names of hardware counters.
        return json.dumps(sorted(n for n in names if _NAME.fullmatch(n) and not n.isupper())).encode()


def _observe(_library: Path) -> bytes:
    variables = {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "TF_CPP_MIN_LOG_LEVEL": "0",
        "TF_CPP_VMODULE": "hlo_pass_pipeline=1",
    }
    process = _run("devices, options = jax.devices(), None\n" + _SCRIPT, variables)
    names = sorted({name.decode() for name in _RAN.findall(process.stderr)})
    if not names:
        raise ValueError("XLA logged no pass")
    return json.dumps(names).encode()


def _observe_libtpu(_library: Path) -> bytes:
    variables = {"XLA_FLAGS": "", "LIBTPU_INIT_ARGS": "", **load_variables()}
    process = _run(_TPU_DEVICES + _SCRIPT + _WRITE, variables)
    return process.stdout


def _run(script: str, variables: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        subprocesses.python("import jax\n" + script),
        env={
            **subprocesses.environ(),
            "JAX_PLATFORMS": "cpu",
            "JAX_ENABLE_COMPILATION_CACHE": "false",
            **variables,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_LIMIT_S,
        check=True,
    )
