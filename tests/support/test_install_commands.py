"""The command that a remedy names installs the package, in each kind of environment. Nothing here needs a network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from inspector.support import install_commands, packages
from inspector.support.install_commands import find_uv, install_command, is_command, sentence
from tests.conftest import ROOT

UV = find_uv()
DEBIAN = Path("/usr/bin/python3")
MARKER = Path(f"/usr/lib/python{sys.version_info.major}.{sys.version_info.minor}/EXTERNALLY-MANAGED")
ASK = (
    "import sys; from inspector.support.install_commands import install_command; print(install_command(*sys.argv[1:]))"
)

needs_uv = pytest.mark.skipif(UV is None, reason="uv is not installed")


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A package that can be installed without a network."""
    path = tmp_path / "wheels" / "tiny_package-1.0-py3-none-any.whl"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny_package.py", "VALUE = 7\n")
        about = "tiny_package-1.0.dist-info"
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny-package\nVersion: 1.0\n")
        archive.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{about}/RECORD", "")
    return path


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A user's environment: a shell's own programs, no uv and no pip."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("sh", "env", "python3"):
        (programs / name).symlink_to(shutil.which(name, path="/usr/bin:/bin") or sys.executable)
    return {
        "PATH": str(programs), "HOME": str(tmp_path / "home"), "UV_OFFLINE": "1", "PIP_NO_INDEX": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip


def made_by_uv(folder: Path) -> Path:
    assert UV is not None
    subprocess.run([UV, "venv", "--quiet", "--offline", "--python", sys.executable, str(folder)], check=True)
    return folder / "bin" / "python"


def command_of(python: Path, environ: dict[str, str], *requirements: str, root: Path = ROOT, code: str = ASK) -> str:
    """Returns the result of `install_command` in a process of that Python."""
    process = subprocess.run(
        [str(python), "-c", code, *requirements],
        env=environ | {"PYTHONPATH": str(root)}, cwd="/", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


def follow(command: str, environ: dict[str, str]) -> str:
    process = subprocess.run(
        ["/bin/sh", "-c", command], env=environ, capture_output=True, text=True, check=False, cwd="/"
    )
    assert process.returncode == 0, (command, process.stdout, process.stderr)
    return process.stdout + process.stderr


def has_package(python: Path, environ: dict[str, str]) -> bool:
    code = "import tiny_package; assert tiny_package.VALUE == 7"
    return subprocess.run([str(python), "-c", code], env=environ, capture_output=True, check=False).returncode == 0


@needs_uv
@pytest.mark.parametrize("where", ["UV", "PATH"])
def test_an_environment_of_uv_has_no_pip(tmp_path: Path, wheel: Path, environ: dict[str, str], where: str) -> None:
    assert UV is not None
    python = made_by_uv(tmp_path / "an environment")
    extended = environ | ({"UV": UV} if where == "UV" else {"PATH": f"{environ['PATH']}:{Path(UV).parent}"})
    command = command_of(python, extended, str(wheel))
    assert command.startswith("uv pip install " if where == "PATH" else f"{UV} pip install ")
    assert not has_package(python, environ)
    follow(command, extended)
    assert has_package(python, environ)


@needs_uv
def test_the_checkout_brings_uv_along(tmp_path: Path, wheel: Path, environ: dict[str, str]) -> None:
    """README's environment, from any folder: `run.py` finds the uv in `.tools` or installs it there."""
    assert UV is not None
    checkout = tmp_path / "check out"
    shutil.copytree(ROOT / "inspector", checkout / "inspector", ignore=shutil.ignore_patterns("__pycache__", "static"))
    for name in ("run.py", "pyproject.toml", "uv.lock", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, checkout)
    (checkout / ".tools" / "bin").mkdir(parents=True)
    (checkout / ".tools" / "bin" / "uv").symlink_to(UV)
    python = made_by_uv(checkout / ".venv")
    command = command_of(python, environ, str(wheel), root=checkout)
    assert command.startswith(f"python3 '{checkout}/run.py' uv pip install ")
    follow(command, environ)
    assert has_package(python, environ)
    extra = command_of(python, environ, "jax-inspector[tpu]", root=checkout)
    assert extra == f"python3 '{checkout}/run.py' uv sync --frozen --inexact --extra tpu"
    assert "libtpu" in follow(f"{extra} --dry-run", {**environ, "UV_OFFLINE": "0", "UV_PYTHON": str(python)})
    code = "from inspector.support.install_commands import find_uv; print(find_uv())"
    assert command_of(python, environ, root=checkout, code=code) == str(checkout / ".tools" / "bin" / "uv")


@needs_uv
@pytest.mark.skipif(not Path("/usr/bin/pip3").exists(), reason="Debian's pip is not installed")
def test_an_environment_of_uv_without_uv(tmp_path: Path, wheel: Path, environ: dict[str, str]) -> None:
    python = made_by_uv(tmp_path / "environment")
    (tmp_path / "programs" / "pip3").symlink_to("/usr/bin/pip3")
    code = f"import inspector.support.install_commands as i; i._is_checkout = lambda: False\n{ASK}"
    command = command_of(python, environ, str(wheel), code=code)
    is_old = sys.version_info < (3, 12)  # for later ones Debian's pip is too old
    assert command.startswith(
        f"{tmp_path}/programs/pip3 --python {python} install " if is_old else f"{python} -m ensurepip"
    )
    follow(command, environ)
    assert has_package(python, environ)


@pytest.mark.skipif(not (DEBIAN.exists() and MARKER.exists()), reason="the system's Python is not managed by Debian")
def test_debians_python_refuses_pip(tmp_path: Path, wheel: Path, environ: dict[str, str]) -> None:
    command = command_of(DEBIAN, environ, str(wheel))
    assert command == f"/usr/bin/python3 -m pip install --break-system-packages {wheel}"
    home = environ | {"PIP_USER": "1", "PYTHONUSERBASE": str(tmp_path / "base")}
    with pytest.raises(AssertionError, match="PEP 668"):
        follow(command.replace("--break-system-packages ", ""), home)
    follow(command, home)
    assert has_package(DEBIAN, home)


def pip_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment with pip, whose scripts are in a folder."""
    monkeypatch.setattr(install_commands, "_has_pip", lambda: True)
    folder.mkdir()
    (folder / "pip").write_text("#!/bin/sh\n")
    (folder / "pip").chmod(0o755)
    real = sysconfig.get_path
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(folder) if name == "scripts" else real(name))


def test_pip_is_the_environments_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip_of(tmp_path / "bin", monkeypatch)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert install_command("jax-inspector[tpu]", "jax>=0.10,<0.13") in (
        "pip install 'jax-inspector[tpu]' 'jax>=0.10,<0.13'",
        f"pip install -e '{ROOT}[tpu]' 'jax>=0.10,<0.13'",  # where only PYTHONPATH names inspector
    )
    monkeypatch.setenv("PATH", "/bin")
    assert install_command("capstone") == f"{sys.executable} -m pip install capstone"


def test_a_checkout_that_is_not_installed_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip_of(tmp_path / "bin", monkeypatch)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(packages, "version", lambda _: "")
    assert install_command("jax-inspector[tpu]") == f"pip install -e '{ROOT}[tpu]'"


def test_cells_have_magics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, notebook = SimpleNamespace(), SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: terminal))
    monkeypatch.setattr(install_commands, "_has_pip", lambda: False)
    assert not install_command("capstone").startswith(("%", "!"))
    sys.modules["IPython"].get_ipython = lambda: notebook
    if UV is not None:
        assert install_command("capstone").startswith("!")
    pip_of(tmp_path / "bin", monkeypatch)
    assert install_command("etils[epath]") == "%pip install 'etils[epath]'"


def test_conda_brings_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conda-meta").mkdir()
    conda = tmp_path / "conda"
    conda.write_text("#!/bin/sh\n")
    conda.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(install_commands, "_has_pip", lambda: False)
    expected = f"conda install --yes --prefix {tmp_path} pip && {sys.executable} -m pip install capstone"
    assert install_command("capstone") == expected


def test_without_pip_and_uv_the_website_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("_has_pip", "_is_checkout"):
        monkeypatch.setattr(install_commands, name, lambda: False)
    monkeypatch.setattr(install_commands, "find_uv", lambda: None)
    monkeypatch.setattr(install_commands.importlib.util, "find_spec", lambda _: None)
    said = install_command("capstone")
    assert said.startswith("Install uv (https://docs.astral.sh/uv/), then run: uv pip install --python ")
    assert not is_command(said)
    assert sentence(said) == said
    assert sentence("pip install x") == "Install it with: pip install x"


# ------------------------------------------------------------------ uv


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_uv_is_found_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UV", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(install_commands, "_CHECKOUT", tmp_path / "checkout")
    monkeypatch.setattr(packages, "folders", lambda _: [])
    assert find_uv() is None
    in_tools = program(tmp_path / "checkout" / ".tools" / "bin" / "uv")
    assert find_uv() is None, "a folder without run.py is no checkout"
    for name in ("run.py", "pyproject.toml"):
        (tmp_path / "checkout" / name).touch()
    assert find_uv() == str(in_tools)
    package = tmp_path / "target" / "uv"  # pip install --target
    program(package / "__init__.py")
    monkeypatch.setattr(packages, "folders", lambda name: [package] if name == "uv" else [])
    of_target = program(tmp_path / "target" / "bin" / "uv")
    monkeypatch.setattr(sysconfig, "get_path", lambda *_: str(tmp_path / "none"))
    assert find_uv() == str(of_target)
    on_path = program(tmp_path / "bin" / "uv")
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert find_uv() == str(on_path)
    named = program(tmp_path / "named" / "uv-1.2")
    monkeypatch.setenv("UV", str(named))
    assert find_uv() == str(named)
    for wrong in ("", "uv", "./uv", str(tmp_path / "absent"), str(tmp_path)):
        monkeypatch.setenv("UV", wrong)
        assert find_uv() == str(on_path), wrong


def test_nothing_called_uv_in_the_current_folder_counts(tmp_path: Path, environ: dict[str, str]) -> None:
    """A folder, a package and a program of that name; for a script beside them too, whose folder Python searches."""
    (tmp_path / "uv").mkdir()
    (tmp_path / "package" / "uv").mkdir(parents=True)
    (tmp_path / "package" / "uv" / "__init__.py").write_text("raise SystemExit('a stranger was imported')")
    program(tmp_path / "program" / "uv")
    code = (
        "import json, inspector.support.install_commands as i; i._is_checkout = lambda: False\n"
        "print(json.dumps([i.find_uv(), i._shell_command(['x'])]))"
    )
    for folder in (tmp_path, tmp_path / "package", tmp_path / "program"):
        (folder / "script.py").write_text(code)
        for start, cwd in (
            (["-c", code], folder),
            ([str(folder / "script.py")], folder),
            ([str(folder / "script.py")], "/"),
        ):
            is_elsewhere = (
                cwd == "/" and folder.name == "package"
            )  # an installed package of the user's, as far as we know
            process = subprocess.run(
                [sys.executable, *start],
                cwd=cwd, env=environ | {"PYTHONPATH": str(ROOT), "PATH": f":{environ['PATH']}", "UV": "uv"},
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert process.returncode == 0, process.stderr
            found, command = json.loads(process.stdout)
            assert found is None or is_elsewhere or Path(found).parent == Path(sys.executable).parent, (
                folder,
                start,
                found,
            )
            assert str(folder) not in command.replace(sys.executable, "")


def test_environment_variables_are_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PATH", "UV", "HOME"):
        monkeypatch.delenv(name, raising=False)
    assert install_command("capstone")
    monkeypatch.setattr(os, "getcwd", lambda: (_ for _ in ()).throw(FileNotFoundError("deleted")))
    assert install_command("capstone")
