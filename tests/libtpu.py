"""libtpu for tests: what it does with options, seen in the environment and the flags that it dumps."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Sequence

_SCRIPT = """
import json, pathlib, sys, tempfile
import jax, jax.numpy as jnp
from jax.experimental import topologies
device = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2").devices[0]
x = jax.ShapeDtypeStruct((8,), jnp.float32, sharding=jax.sharding.SingleDeviceSharding(device))
jax.config.update("jax_enable_compilation_cache", False)
found = []
for number, options in enumerate(json.load(sys.stdin)):
    # JAX remembers what it has compiled by the options, and True == 1: a function for each.
    lowered = jax.jit(lambda x: x + number).lower(x)
    with tempfile.TemporaryDirectory() as folder:
        try:
            lowered.compile({**options, "xla_dump_to": folder})
            error = ""
        except Exception as e:
            error = str(e)
        texts = [p.read_text() for kind in ("tpu_comp_env.txt", "flagfile") for p in pathlib.Path(folder).glob(f"*{kind}")]
    found.append([error, *texts])
print(json.dumps(found))
"""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What libtpu made of one set of options.

    Attributes:
      error: what it said, "" where it compiled.
      environment: its `TpuCompilationEnvironment` in protobuf's text form.
      flagfile: its flags.
    """

    error: str
    environment: str = ""
    flagfile: str = ""

    def field(self, name: str) -> str:
        """A field of the environment with its name left out, on one line."""
        lines = self.environment.splitlines()
        start = next(i for i, line in enumerate(lines) if line.split(":")[0].split(" ")[0] == name)
        end = start if not lines[start].endswith("{") else lines.index("}", start)
        return " ".join(" ".join(lines[start : end + 1]).split()).removeprefix(name).removeprefix(":").strip()

    @property
    def flags(self) -> dict[str, str]:
        """Its flags by name."""
        return dict(line.removeprefix("--").split("=", 1) for line in self.flagfile.splitlines())


def compile_with(options: Sequence[dict[str, object]], init_args: str = "") -> list[Outcome]:
    """Compiles one line for a TPU with each of some options, through JAX, in one separate process."""
    process = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        input=json.dumps(options).encode(),
        env={
            **{name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "TPU_LIBRARY_PATH")},
            "JAX_PLATFORMS": "cpu",
            "TPU_SKIP_MDS_QUERY": "1",
            "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
            "LIBTPU_INIT_ARGS": init_args,
        },
        capture_output=True,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr.decode(errors="replace")[-2000:]
    return [Outcome(*entry) for entry in json.loads(process.stdout)]
