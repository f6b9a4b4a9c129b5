"""Run with the installed wheel outside the checkout: all files are there, and a program compiles.

python check_wheel.py FILES    FILES lists the package's committed files, one a line
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp

import inspector


def main() -> None:
    """Raises AssertionError where the installed package is not whole."""
    site = Path(inspector.__file__).parent.parent
    assert site.is_relative_to(sys.prefix), f"inspector comes from {site}, expected it under {sys.prefix}"
    missing = [name for name in Path(sys.argv[1]).read_text().split("\n") if name and not (site / name).is_file()]
    assert not missing, f"committed, but not in the wheel: {missing}"
    for tool in ("node", "dot"):
        assert shutil.which(tool) is None, f"{tool} is on PATH at {shutil.which(tool)}; this check is to run without it"

    command = Path(sys.executable).with_name("inspector")
    subprocess.run([command, "--help"], check=True, stdout=subprocess.DEVNULL)

    lowered = inspector.lower(lambda x: jnp.sin(x) @ x, jax.ShapeDtypeStruct((8, 8), jnp.float32))
    compiled = lowered.compile(target="cpu")
    assert compiled.hlo.startswith("HloModule"), compiled.hlo[:200]
    print(f"inspector from {site}: {len(compiled.hlo)} characters of optimized HLO")


if __name__ == "__main__":
    main()
