"""Queries libtpu for the defaults of its options and the values that its enums accept.

libtpu writes the values of its flags when it compiles with a dump, and lists the accepted values
when it rejects one. So a separate process compiles a one-line program, for which no TPU needs to be attached.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping

from inspector._jax.libraries.libtpu import SMALL_SLICE, cached_libtpu, load_variables
from inspector._jax.libraries.libtpu_flags import LibtpuFlag
from inspector.errors import MissingPackageError, Unavailable
from inspector.support import subprocesses

_LIMIT_S = 120

_SCRIPT = """
import json, pathlib, sys, tempfile
import jax, jax.numpy as jnp
from jax.experimental import topologies
device = topologies.get_topology_desc(platform="tpu", topology_name="SLICE").devices[0]
x = jax.ShapeDtypeStruct((8,), jnp.float32, sharding=jax.sharding.SingleDeviceSharding(device))
lowered = jax.jit(lambda x: x + 1).lower(x)
with tempfile.TemporaryDirectory() as folder:
    lowered.compile({"xla_dump_to": folder})
    kinds = ("flagfile", "tpu_comp_env.txt")
    texts = {kind: path.read_text() for kind in kinds for path in pathlib.Path(folder).glob(f"*{kind}")}
refusals = {}
for type_, flag in json.loads(sys.argv[1]).items():
    try:
        lowered.compile({flag: "@"})
    except Exception as e:
        refusals[type_] = str(e)
print(json.dumps([texts, refusals]))
""".replace("SLICE", SMALL_SLICE)

# The end of libtpu's error messages; there is no other source of these values.
_WORDS = re.compile(r"(?:Valid options are: |Supported values are: |Must be one of \{)([^.}]*)")


def libtpu_defaults(flags: Mapping[str, LibtpuFlag]) -> tuple[dict[str, str], dict[str, list[str]]] | Unavailable:
    """Returns defaults by flag, as texts, and the values of each enum by its C++ type; or why they are unknown.

    Takes seconds the first time for each libtpu.

    Args:
      flags: libtpu's flags, by name.
    """
    try:
        texts, refusals = json.loads(cached_libtpu("defaults", lambda _: _ask(flags)))
    except MissingPackageError as e:
        return Unavailable(str(e))
    except (OSError, ValueError, subprocess.SubprocessError) as e:
        last_line = (getattr(e, "stderr", None) or b"").decode(errors="replace").strip().splitlines()[-1:]
        reason = " ".join([str(e).partition("\n")[0][:200], *last_line])
        return Unavailable(f"the process that reads the defaults failed: {reason}")
    defaults = _environment(texts.get("tpu_comp_env.txt", "")) | _flagfile(texts.get("flagfile", ""))
    words = {type_: match.group(1).split(", ") for type_, text in refusals.items() if (match := _WORDS.search(text))}
    return defaults, words


def _ask(flags: Mapping[str, LibtpuFlag]) -> bytes:
    enums = {flag.type: name for name, flag in flags.items() if flag.kind == "enum" and flag.is_per_compile}
    left_out = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
    environment = {name: value for name, value in subprocesses.environ().items() if name not in left_out}
    process = subprocess.run(
        subprocesses.python(_SCRIPT, json.dumps(enums)),
        env={
            **environment,
            "JAX_PLATFORMS": "cpu",
            "JAX_ENABLE_COMPILATION_CACHE": "false",  # with a cache hit, libtpu would write no dump
            **load_variables(),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_LIMIT_S,
        check=True,
    )
    return process.stdout


def _flagfile(text: str) -> dict[str, str]:
    """Parses one `--name=value` per line, as Abseil writes flags; texts that could be numbers or words are quoted."""
    lines = (line.removeprefix("--").partition("=") for line in text.splitlines() if line.startswith("--"))
    return {name: _unquoted(value) for name, _, value in lines}


def _environment(text: str) -> dict[str, str]:
    """Parses the scalar fields of a `TpuCompilationEnvironment` in protobuf's text form, one per line."""
    lines = (line.partition(": ") for line in text.splitlines() if line[:1].isalpha())
    return {name: _unquoted(value) for name, colon, value in lines if colon}


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value
