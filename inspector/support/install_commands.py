"""Commands that install packages into this process's Python, and the path of uv.

`pip install` does not work everywhere: environments created by uv have no pip, and Debian's Python refuses it. The right
command is determined without running or importing anything.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

from inspector.support import packages, subprocesses

_DISTRIBUTION = "jax-inspector"
_CHECKOUT = Path(__file__).resolve().parent.parent.parent
_UV_SITE = "https://docs.astral.sh/uv/"


def install_command(*requirements: str) -> str:
    """Returns a command that installs packages into the environment of this process.

    In a notebook it is a line for a cell, `%pip install ...` or `!...`; elsewhere it is a shell command. If neither pip nor
    uv is available, the command first installs one of them, or the text names uv's website.

    Args:
      requirements: requirements as for pip, such as "jax-inspector[tpu]" or "jax>=0.10,<0.13".
    """
    known = [_of_the_checkout(requirement) for requirement in requirements]
    if sys.platform == "emscripten" or (_is_notebook() and _pip_works()):
        return f"%pip install {_quoted(known)}"
    command = _run_py(requirements) if not _has_pip() and _is_the_checkouts_own() else _shell_command(known)
    return f"!{command}" if _is_notebook() and not command[0].isupper() else command


def is_command(remedy: str) -> bool:
    """Reports whether a remedy is a command. A sentence begins with a capital letter."""
    return bool(remedy) and not remedy[0].isupper()


def sentence(remedy: str) -> str:
    """Returns a remedy as a sentence: "Install it with: pip install ..." for a command, any other unchanged."""
    return f"Install it with: {remedy}" if is_command(remedy) else remedy


def find_uv() -> str | None:
    """Returns the path of uv: from the variable `UV`, on PATH, in this Python's environment, or in the checkout's `.tools`.

    `uv run` sets `UV`. Programs and packages in the current folder are ignored.
    """
    named = os.environ.get("UV", "")
    if named and not subprocesses.is_here(str(Path(named).parent)) and (path := _executable(Path(named))):
        return path
    search = subprocesses.environ().get("PATH")
    path = shutil.which("uv", path=search) if search else None
    return path or next(filter(None, map(_executable, _installed_uv())), None)


def _installed_uv() -> Iterator[Path]:
    """Yields paths where the package uv may install its program: Python's scripts, or the folder of `pip install --target`."""
    homes = [
        home.parent for home in packages.folders("uv") if (home / "__init__.py").is_file()
    ]  # excludes other folders named `uv`
    if homes:
        yield Path(sysconfig.get_path("scripts"), "uv")
        yield Path(sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user")), "uv")
    for home in (*homes, *([_CHECKOUT / ".tools"] if _is_checkout() else [])):
        yield home / "bin" / "uv"
        yield home / "Scripts" / "uv"


def _executable(path: Path) -> str | None:
    return shutil.which(path.name, path=str(path.parent)) if path.is_absolute() else None


def _shell_command(requirements: Sequence[str]) -> str:
    if _pip_works():
        return f"{_pip()} install {_quoted(requirements)}"
    if _has_pip():  # an externally managed Python that has inspector installed
        return f"{_pip()} install --break-system-packages {_quoted(requirements)}"
    uv, python = find_uv(), shlex.quote(sys.executable)
    conda = shutil.which("conda") if Path(sys.prefix, "conda-meta").is_dir() else None
    if conda is not None:
        prefix = shlex.quote(sys.prefix)
        return f"conda install --yes --prefix {prefix} pip && {python} -m pip install {_quoted(requirements)}"
    managed = "" if _may_be_changed() else "--break-system-packages "
    if uv is not None:
        name = "uv" if shutil.which("uv") == uv else shlex.quote(uv)
        return f"{name} pip install --python {python} {managed}{_quoted(requirements)}"
    other_pip = shutil.which("pip3") or shutil.which("pip")
    has_own = importlib.util.find_spec("ensurepip") is not None
    # An older pip, such as Debian's, cannot install into Python 3.12 and later, and this code does not check its version.
    if other_pip is not None and _may_be_changed() and (sys.version_info < (3, 12) or not has_own):
        return f"{shlex.quote(other_pip)} --python {python} install {_quoted(requirements)}"
    if has_own and _may_be_changed():
        return f"{python} -m ensurepip && {python} -m pip install {_quoted(requirements)}"
    return f"Install uv ({_UV_SITE}), then run: uv pip install --python {python} {managed}{_quoted(requirements)}"


def _of_the_checkout(requirement: str) -> str:
    """Returns the requirement, or the checkout if it is inspector itself and inspector runs from a checkout."""
    own = re.fullmatch(rf"{_DISTRIBUTION}(\[[\w,-]+\])?", requirement)
    if own is None or packages.version(_DISTRIBUTION) or not _is_checkout():
        return requirement
    return f"-e {_CHECKOUT}{own[1] or ''}"


def _run_py(requirements: Sequence[str]) -> str:
    """Returns the command of the checkout's `run.py`, which provides uv."""
    script = "run.py" if subprocesses.is_here(str(_CHECKOUT)) else shlex.quote(str(_CHECKOUT / "run.py"))
    start = f"{'python' if sys.platform == 'win32' else 'python3'} {script} uv"
    extras = [re.fullmatch(rf"{_DISTRIBUTION}\[([\w,-]+)\]", requirement) for requirement in requirements]
    if all(extras):
        names = [name for extra in extras if extra for name in extra[1].split(",")]
        return f"{start} sync --frozen --inexact {' '.join(f'--extra {name}' for name in names)}"
    return f"{start} pip install --python {shlex.quote(sys.executable)} {_quoted(requirements)}"


def _quoted(requirements: Sequence[str]) -> str:
    return " ".join("-e " + shlex.quote(r[3:]) if r.startswith("-e ") else shlex.quote(r) for r in requirements)


# ------------------------------------------------------------------ the environment


def _may_be_changed() -> bool:
    """Reports whether pip and uv can install into this Python: a virtual environment, or one that no distribution manages."""
    return sys.prefix != sys.base_prefix or not Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").exists()


def _has_pip() -> bool:
    return any((folder / "__main__.py").is_file() for folder in packages.folders("pip"))


def _pip_works() -> bool:
    return _has_pip() and _may_be_changed()


def _pip() -> str:
    """Returns `pip` if a shell finds the pip of this Python, or else the whole command."""
    pip = shutil.which("pip")
    scripts = sysconfig.get_path("scripts")
    is_ours = pip is not None and os.path.realpath(Path(pip).parent) == os.path.realpath(scripts)
    return "pip" if is_ours else f"{shlex.quote(sys.executable)} -m pip"


def _is_checkout() -> bool:
    return (_CHECKOUT / "run.py").is_file() and (_CHECKOUT / "pyproject.toml").is_file()


def _is_the_checkouts_own() -> bool:
    """Reports whether this is the environment that `run.py` creates."""
    return _is_checkout() and os.path.realpath(sys.prefix) == os.path.realpath(_CHECKOUT / ".venv")


def _is_notebook() -> bool:
    """Reports whether this process is a notebook kernel, such as Jupyter's or Colab's."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    return shell is not None and hasattr(shell, "kernel")
