#!/usr/bin/env python3
"""Starts inspector's notebooks or tests on a machine with only Python 3.11+ and pip.

    python3 run.py lab  [arguments for jupyter lab]
    python3 run.py test [--all] [arguments for pytest]
    python3 run.py uv   [arguments for uv]

Everything is installed inside this checkout: the environment in .venv/, and uv, where PATH has
none, in .tools/. Nothing else on the machine changes, so Debian's externally managed Python is
fine as it is. Uses the standard library only and knows nothing of the package.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
TOOLS = ROOT / ".tools"
OLDEST, NEWEST = (3, 11), (3, 15)  # inspector needs the first; jaxlib has no wheels beyond the second
TOUR = "notebooks/00_tour.ipynb"
QUICK = "not (slow or browser or libraries)"  # what `test` runs; an -m among its arguments takes its place
IN_TWO = ["-n", "2", "--dist", "loadfile"]  # processes: what a file's tests start, they share


def find_uv() -> str | None:
    """Path of uv on PATH, else of the one in .tools/, else None."""
    own = os.pathsep.join(str(TOOLS / folder) for folder in ("bin", "Scripts"))
    return shutil.which("uv") or shutil.which("uv", path=own)


def install_uv() -> str:
    """Has pip put uv into .tools/ and returns its path. Leaves with a message where pip cannot."""
    print("run.py: uv is not on PATH; installing it into .tools/ with pip", flush=True)
    TOOLS.mkdir(exist_ok=True)
    (TOOLS / ".gitignore").write_text("*\n")
    # --target is the one form of `pip install` that an externally managed Python (PEP 668) allows
    # without a virtual environment, which Debian's python3 cannot make without python3-venv.
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--target", str(TOOLS), "uv"]
    code = subprocess.call(command)
    uv = find_uv()
    if code != 0 or uv is None:
        sys.exit(
            f"run.py: got no uv from `{' '.join(command)}` (exit status {code}), expected it in .tools/.\n"
            "Where pip itself is missing: `sudo apt install python3-pip` on Debian and Ubuntu, `python3 -m ensurepip` elsewhere.\n"
            "Or install uv yourself (https://docs.astral.sh/uv/) and run the same command again."
        )
    return uv


def runs_here(version: tuple[int, int]) -> bool:
    """Reports whether inspector and jaxlib can be installed for a version of Python."""
    return OLDEST <= version <= NEWEST


def python_choice() -> list[str]:
    """Returns uv's choice of Python: this interpreter where jaxlib supports it, else one that uv finds or downloads."""
    if runs_here(sys.version_info[:2]):
        return ["--python", sys.executable]
    return ["--python", f">={OLDEST[0]}.{OLDEST[1]},<{NEWEST[0]}.{NEWEST[1] + 1}"]


def uv_arguments(action: str, rest: list[str]) -> list[str]:
    """What uv is asked to do.

    Args:
      action: "lab", "test" or "uv".
      rest: the arguments after the action, handed on as they are.
    """
    if action == "uv":
        return rest
    run = ["run", "--frozen", *python_choice(), "--extra", action]
    if action == "test" and "--all" in rest:
        return [*run, "--group", "libraries", "pytest", *(argument for argument in rest if argument != "--all")]
    if action == "test":
        return [*run, "pytest", *([] if "-m" in rest else ["-m", QUICK, *IN_TWO]), *rest]
    # Jupyter refuses to start for root, who in a container is the only user there is.
    as_root = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    return [*run, "jupyter", "lab", f"--LabApp.default_url=/lab/tree/{TOUR}", *as_root, *rest]


def main() -> int:
    """Runs the action named on the command line and returns its exit status."""
    if len(sys.argv) < 2 or sys.argv[1] not in ("lab", "test", "uv"):
        print(__doc__)
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    os.chdir(str(ROOT))
    os.environ.pop("VIRTUAL_ENV", None)  # ours is .venv/, whichever is active in the shell
    uv = find_uv() or install_uv()
    command = [uv, *uv_arguments(sys.argv[1], sys.argv[2:])]
    if os.name == "posix":
        os.execv(uv, command)  # so that Ctrl-C and signals reach Jupyter and pytest alone
    return subprocess.call(command)


if __name__ == "__main__":
    sys.exit(main())
