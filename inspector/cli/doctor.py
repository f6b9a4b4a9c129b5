"""`doctor`: reports what works, what is missing and how to install it, as text to paste into an issue."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from inspector.cli.output import print_json, working
from inspector.cli.program_arguments import prepare, takes_json

_OLDEST_PYTHON = (3, 11)
_LEAST_FREE_BYTES = 1 << 30
_LEAST_MEMORY_BYTES = 2 << 30
_LEAST_FILES = 256
_VARIABLES = ("JAX_", "XLA_", "LIBTPU_", "TPU_", "CUDA_VISIBLE", "INSPECTOR_", "TF_CPP_")
_FRONT_ENDS = ("jupyterlab", "notebook", "voila", "marimo")
_PACKAGES = (
    "anywidget",
    "ipywidgets",
    "jupyterlab_widgets",
    "matplotlib",
    "pandas",
    "graphviz",
    "pygraphviz",
    "numpy",
    "protobuf",
)


@dataclasses.dataclass(frozen=True, slots=True)
class DoctorLine:
    """The result of one check.

    Attributes:
      what: the name of the checked item.
      state: "ok", "missing" (some features are unavailable), "wrong" (inspector cannot work), "" for a plain fact.
      result: its outcome as text, such as a version.
      remedy: the command or step that fixes it, "" if there is nothing to fix.
    """

    what: str
    state: str
    result: str
    remedy: str = ""


@click.command()
@click.option("--quick", is_flag=True, help="Do not start compilers or devices.")
@takes_json
def doctor(quick: bool, as_json: bool) -> None:
    """Report what works, what is missing and how to install it. Paste the output into an issue."""
    rows: list[DoctorLine] = []
    for look in (variables, python, jax, compilers, *(() if quick else (devices, worker)), front_ends, places, limits):
        try:
            with working(f"checking {look.__name__.replace('_', ' ')}"):
                rows += look()
        except Exception as e:  # a check that fails is itself a result
            rows.append(DoctorLine(look.__name__.replace("_", " "), "wrong", f"{type(e).__name__}: {e}"))
    rows = [
        dataclasses.replace(row, result=_without_home(row.result), remedy=_without_home(row.remedy)) for row in rows
    ]
    if as_json:
        print_json([dataclasses.asdict(row) for row in rows])
    else:
        _print_rows(rows)
    if any(row.state == "wrong" for row in rows):
        raise SystemExit(1)


def _print_rows(rows: list[DoctorLine]) -> None:
    width = max(len(row.what) for row in rows)
    for row in rows:
        lines = " ".join(row.result.splitlines())
        click.echo(f"{row.state or '·':<8}{row.what:<{width}}  {lines}".rstrip())
        if row.remedy:
            click.echo(f"{'':<8}{'':<{width}}  → {row.remedy}")


def _without_home(text: str) -> str:
    home = str(Path.home()) if os.environ.get("HOME") or os.name == "nt" else ""
    return text.replace(home, "~") if len(home) > 1 else text


# ------------------------------------------------------------------ what is installed


def python() -> Iterator[DoctorLine]:
    """Checks Python, the system and inspector itself."""
    from inspector.support import packages

    fits = sys.version_info[:2] >= _OLDEST_PYTHON
    needed = "Python 3.11 or later" if not fits else ""
    yield DoctorLine(
        "inspector", "ok", f"{packages.version('jax-inspector') or 'not installed as a package'} in {_home()}"
    )
    yield DoctorLine("Python", "ok" if fits else "wrong", f"{platform.python_version()} at {sys.executable}", needed)
    yield DoctorLine("system", "", f"{platform.system()} {platform.release()} {platform.machine()}")


def _home() -> str:
    return str(Path(__file__).resolve().parent.parent)


def jax() -> Iterator[DoctorLine]:
    """Checks that JAX is installed in a supported version."""
    from inspector.support import packages
    from inspector.support.install_commands import install_command

    version, jaxlib = packages.version("jax"), packages.version("jaxlib")
    if not version or not jaxlib:
        yield DoctorLine("JAX", "wrong", "not installed", install_command("jax>=0.10,<0.13"))
        return
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    fits = (0, 10) <= numbers < (0, 13)
    yield DoctorLine(
        "JAX",
        "ok" if fits else "wrong",
        f"{version}, jaxlib {jaxlib}",
        "" if fits else install_command("jax>=0.10,<0.13"),
    )


def compilers() -> Iterator[DoctorLine]:
    """Checks the compilers for devices that are not attached."""
    prepare()  # before anything imports JAX, and after `variables`
    from inspector.engines.targets import absent_compiler
    from inspector.errors import Unavailable
    from inspector.support import packages
    from inspector.support.install_commands import install_command

    for kind in ("tpu", "gpu"):
        compiler = absent_compiler(kind)
        if isinstance(compiler, Unavailable):
            yield DoctorLine(f"{kind.upper()} compiler", "missing", compiler.reason, compiler.remedy)
        else:
            version, shortcoming = compiler
            yield DoctorLine(f"{kind.upper()} compiler", "missing" if shortcoming else "ok", version, shortcoming)
    disassembler = packages.version("nvidia-cuda-nvdisasm")
    if packages.version("jax-cuda12-pjrt") or packages.version("jax-cuda13-pjrt"):
        yield DoctorLine("nvdisasm", "ok" if disassembler else "missing", disassembler or "not installed: machine code of GPUs is not shown",
                  "" if disassembler else install_command("jax-inspector[cuda]"))  # fmt: skip


def devices() -> Iterator[DoctorLine]:
    """Lists the devices that JAX finds in this process."""
    from inspector._jax.compiling.attached_devices import attached_device_count, attached_device_kind, attached_platform

    yield DoctorLine("devices", "ok", f"{attached_device_count()} x {attached_device_kind()} ({attached_platform()})")


def worker() -> Iterator[DoctorLine]:
    """Compiles a small program in a worker process."""
    from inspector.lowering.lower import lower

    started = time.perf_counter()
    lower("HloModule m\n\nENTRY main {\n  ROOT x = f32[8]{0} parameter(0)\n}\n").compile(target="cpu", engine="worker")
    yield DoctorLine("compiling", "ok", f"in a worker, {time.perf_counter() - started:.1f} s including its start")


# ------------------------------------------------------------------ front ends


def front_ends() -> Iterator[DoctorLine]:
    """Checks the packages that show Explorers, and the front-end bundle."""
    from inspector.support import packages
    from inspector.support.install_commands import install_command

    versions = {name: packages.version(name) for name in _PACKAGES}
    absent = [name for name, version in versions.items() if not version]
    text = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    yield DoctorLine("packages", "wrong" if absent else "ok", text, install_command(*absent) if absent else "")
    bundle = Path(_home()) / "widgets" / "static" / "explorer.js"
    size = bundle.stat().st_size if bundle.is_file() else 0
    yield DoctorLine(
        "front end",
        "ok" if size else "wrong",
        f"explorer.js, {size:,} bytes",
        "" if size else "reinstall jax-inspector",
    )
    shown = {name: packages.version(name) for name in _FRONT_ENDS}
    text = ", ".join(f"{name} {version}" for name, version in shown.items() if version)
    yield DoctorLine("notebooks", "ok" if text else "missing", text or "none in this environment",
              "" if text else install_command("jax-inspector[lab]"))  # fmt: skip
    yield DoctorLine("widgets", *_here())


def _here() -> tuple[str, str, str]:
    """Returns state, result and remedy for widgets in the front end of this process."""
    if "google.colab" in sys.modules or (importlib.util.find_spec("google") and os.environ.get("COLAB_RELEASE_TAG")):
        return "ok", "Colab: inspector enables the custom widget manager", ""
    if os.environ.get("VSCODE_PID"):
        return "ok", "VS Code: allow its Jupyter extension to load widget scripts", ""
    return "", "a terminal: `inspector explore` opens a page in a browser", ""


# ------------------------------------------------------------------ places and limits


def places() -> Iterator[DoctorLine]:
    """Checks the cache and the folders for temporary files."""
    from inspector import settings
    from inspector.support import files
    from inspector.support.units import counted, format_bytes

    folder = settings.current().cache_directory
    if not settings.current().cache or not folder:
        yield DoctorLine("cache", "missing", "off: each process compiles every program again", "unset INSPECTOR_CACHE")
    else:
        why = _why_not_written(Path(folder), files.make_own_folder)
        count = sum(1 for _ in Path(folder).glob("*.compiled")) if not why else 0
        yield DoctorLine("cache", "missing" if why else "ok", f"{folder}: {why or counted(count, 'program')}",
                  "set INSPECTOR_CACHE_DIR to a folder that you own" if why else "")  # fmt: skip
    for place in dict.fromkeys((tempfile.gettempdir(), "/dev/shm")):
        if Path(place).is_dir():
            free = shutil.disk_usage(place).free
            few = free < _LEAST_FREE_BYTES
            writable = os.access(place, os.W_OK)
            remedy = (
                ""
                if writable and not few
                else "set TMPDIR to a folder with more space"
                if place != "/dev/shm"
                else "docker run --shm-size 2g"
            )
            yield DoctorLine(
                f"space in {place}",
                "missing" if remedy else "ok",
                f"{format_bytes(free)} free{'' if writable else ', not writable'}",
                remedy,
            )


def _why_not_written(folder: Path, make: Callable[[Path], object]) -> str:
    try:
        make(folder)
    except OSError as e:
        return str(e)
    return ""


def limits() -> Iterator[DoctorLine]:
    """Checks memory, processors and open files."""
    from inspector.support.machine_memory import machine_memory
    from inspector.support.units import format_bytes

    memory, limited_by = machine_memory()
    few = 0 < memory < _LEAST_MEMORY_BYTES
    text = f"{format_bytes(memory)}, {limited_by}" if memory else "unknown"
    yield DoctorLine(
        "memory",
        "missing" if few else "ok" if memory else "",
        text,
        "large programs need more than 2 GiB" if few else "",
    )
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield DoctorLine("processors", "", f"{cores}")
    with contextlib.suppress(ImportError):
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        enough = soft == resource.RLIM_INFINITY or soft >= _LEAST_FILES
        yield DoctorLine("open files", "ok" if enough else "missing", f"{soft}", "" if enough else "ulimit -n 1024")
        space, _ = resource.getrlimit(resource.RLIMIT_AS)
        if space != resource.RLIM_INFINITY:
            yield DoctorLine(
                "address space",
                "missing",
                f"limited to {format_bytes(space)}: XLA reserves more address space than it uses",
                "ulimit -v unlimited",
            )


def variables() -> Iterator[DoctorLine]:
    """Lists the environment variables that compilers read."""
    values = {name: value for name, value in sorted(os.environ.items()) if name.startswith(_VARIABLES)}
    for name, value in values.items():
        yield DoctorLine(name, "", value[:300])
