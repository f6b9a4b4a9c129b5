"""Nothing in the current folder is imported or started by a process of ours."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from inspector.support import packages, subprocesses
from tests.conftest import ROOT, RunPython
from tests.poison import executed, poison

START = """
import os, sys
import jax, jax.numpy as jnp
import inspector
# As a notebook has it, and a careless profile; behind the rest, so that this process finds what it imports.
sys.path += ["", os.getcwd()]
os.environ["PYTHONPATH"] = os.pathsep.join(["", ".", os.getcwd(), os.environ["PYTHONPATH"]])
os.environ["PATH"] = os.pathsep.join([".", "", os.getcwd(), os.environ["PATH"]])
"""
ORDINARY = """
lowered = inspector.lower("func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }")
print(lowered.compile(target="cpu:2"))
print(lowered.compile().graph().pipe("svg")[:5])
"""
OTHERS = """
from inspector._jax.compiling import ahead_of_time
from inspector._jax.libraries import flag_defaults, libtpu_defaults, pass_names
from inspector.engines.workers.worker_engine import WorkerEngine, WorkerSettings
def show(what, value):
    assert not isinstance(value, inspector.Unavailable), (what, value)
    print(what)
f = lambda x: jnp.sin(x) @ x
x = jax.ShapeDtypeStruct((8, 8), "float32")
spawned = WorkerEngine(WorkerSettings(start="spawn"))
show("spawned", inspector.lower(f, x).compile(engine=spawned))
spawned.close()
show("defaults", flag_defaults.installed_defaults())
show("passes", pass_names.observed_names())
if ahead_of_time.absent_platform("tpu") is None:
    from inspector._jax.libraries.libtpu_flags import libtpu_options
    show("libtpu's defaults", libtpu_defaults.libtpu_defaults(libtpu_options().flags))
    show("libtpu's passes", pass_names.libtpu_passes())
    show("tpu", inspector.lower(f, x, platform="tpu").compile(target="tpu:v5e:1x1"))
if ahead_of_time.absent_platform("cuda") is None:
    compiled = inspector.lower(f, x, platform="cuda").compile(target="gpu:h100", products=("assembly",))
    show("gpu", compiled)
    texts = [code.text for code in compiled.assembly]
    show("assembly", len(texts))
"""


def run_in(folder: Path, script: str, tmp_path: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-P", "-c", START + script], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert executed(folder) == [], done.stderr
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def poisoned(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    return poison(folder)


@pytest.mark.slow
def test_modules_in_the_current_folder_are_not_imported(poisoned: Path, tmp_path: Path) -> None:
    printed = run_in(poisoned, ORDINARY, tmp_path)
    assert "<Compiled" in printed
    assert printed.split()[-1] == "b'<?xml'"


@pytest.mark.slow
def test_other_processes_do_not_import_modules_in_the_current_folder(poisoned: Path, tmp_path: Path) -> None:
    printed = run_in(poisoned, OTHERS, tmp_path)
    assert printed.splitlines()[:3] == ["spawned", "defaults", "passes"]


def test_poison_works(poisoned: Path) -> None:
    subprocess.run([sys.executable, "-c", "import json"], cwd=poisoned, capture_output=True)
    subprocess.run(["dot"], env={"PATH": "."}, cwd=poisoned, capture_output=True)
    found = executed(poisoned)
    assert ".-dot" in found
    assert {"json", "linecache"} & set(found)  # newer Pythons look for the second first


def test_the_path_of_a_process_is_this_ones_without_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    link = tmp_path.parent / f"{tmp_path.name}-link"
    link.symlink_to(tmp_path)
    before = list(sys.path)
    monkeypatch.setattr(sys, "path", ["", ".", "lib", str(tmp_path), str(link), *before])
    assert subprocesses.import_path() == [entry for entry in before if not subprocesses.is_here(entry)]


def test_inspector_in_the_current_folder_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", ["", *(entry for entry in sys.path if Path(entry).resolve() != ROOT)])
    found = subprocesses.import_path()
    assert found[-1] == str(ROOT)
    assert "" not in found


def test_search_paths_keep_safe_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", "/elsewhere", ".", str(tmp_path), "lib"]))
    monkeypatch.setenv("PATH", os.pathsep.join([".", ""]))
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    found = subprocesses.environ()
    assert found["PYTHONPATH"] == "/elsewhere"
    assert "PATH" not in found  # an empty one is the current folder
    assert "LD_LIBRARY_PATH" not in found


def test_a_deleted_current_folder_is_not_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert subprocesses.import_path()
    assert subprocesses.environ()


def test_packages_of_the_current_folder_are_not_installed(poisoned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(poisoned)
    for entry in ("", str(poisoned)):
        monkeypatch.syspath_prepend(entry)
        assert not [
            place for name in ("jax_plugins", "nvidia") for place in packages.folders(name) if poisoned == place.parent
        ]
        assert packages.version("libtpu") != "99"
        assert not any(file.is_relative_to(poisoned) for file in packages.files("nvidia-cuda-nvdisasm"))
    assert [place.name for place in packages.folders("jaxlib")] == ["jaxlib"]


def test_a_worker_has_the_inspector_of_this_process_though_another_is_installed(tmp_path: Path) -> None:
    """As in a checkout of the one, in an environment with the other."""
    other = tmp_path / "other" / "inspector"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text("raise ImportError('another inspector')")
    script = (
        "import inspector; print(inspector.__file__)\n" + ORDINARY.splitlines()[1] + "\n" + ORDINARY.splitlines()[2]
    )
    environment = {**os.environ, "PYTHONPATH": str(other.parent), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.splitlines()[0] == str(ROOT / "inspector" / "__init__.py"), done.stderr
    assert "for cpu:2, defaults: compiled" in done.stdout, done.stderr


@pytest.mark.slow
def test_a_deleted_current_folder_does_not_prevent_compiling(one_device_python: RunPython, tmp_path: Path) -> None:
    """Programs compile, and files with absolute paths are written; a relative path is refused with the reason."""
    code = f"""
        import os, tempfile
        folder = tempfile.mkdtemp(); os.chdir(folder); os.rmdir(folder)
        import jax, jax.numpy as jnp, inspector
        explorer = inspector.explore(lambda x: jnp.cos(x @ x).sum(), jax.ShapeDtypeStruct((16, 16), jnp.float32))
        explorer.wait(100)
        explorer.save_html({str(tmp_path / "x.html")!r})
        explorer.save({str(tmp_path / "x.inspector")!r})
        print([v.state for v in explorer.variants], isinstance(str(explorer.lowered.source), str))
        try:
            explorer.save_html("x.html")
        except FileNotFoundError as e:
            print(e)
        explorer.close()
    """
    # Without the current folder on the import path: Python 3.13.0 cannot import NumPy in a deleted one.
    said = one_device_python(textwrap.dedent(code), env={"PYTHONSAFEPATH": "1"}).stdout
    assert "['done'] True" in said
    assert "The current folder was deleted" in said
    assert (tmp_path / "x.html").stat().st_size > 10_000
